//! Lists of servers over all cells: a merge of each cell's page, in which the mapping decides, never short and never wrong
//! while servers move (NOVA-DIFFERENCES L22, L33).
//!
//! Reading order: build requests, then cells, then mappings. A server whose mapping stood still meanwhile is in the cell that
//! the mapping names for all of that time, so its row was read. One whose mapping changed may have been read in neither
//! place; those are few, and are looked up by name at the end.
//!
//! A cell that does not answer one question is asked no other for this list; what it gave before stays, and the caller is told
//! which cells are missing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chrono::TimeDelta;
use futures::future::join_all;
use uuid::Uuid;

use super::{CHASES, CellRegistry, LookupError, ServerRecord, SilentCell, SilentServer, matching, show_leaving};
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::db::cell::bundle::InstanceBundle;
use crate::db::cell::instance_filter::InstanceFilter;
use crate::db::cell::instance_list::InstanceDetails;
use crate::db::cell::instance_sort::{SortSpec, SortValue};
use crate::db::cell::instances::Instance;
use crate::env::guard::{Guard, stands};

/// Clocks of several controllers may differ by this much.
const CLOCK_MARGIN_SECONDS: i64 = 5;

/// The least that is asked of a cell at once, if the page has room for so many.
const MIN_BATCH: usize = 100;

/// A page of servers.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Whether hidden copies count is the mapping's affair, whatever the filter says.
    pub filter: InstanceFilter,
    pub sort: SortSpec,
    /// The page begins after this server.
    pub marker: Option<Uuid>,
    /// At most so many.
    pub limit: usize,
    /// Load what belongs to each server.
    pub details: bool,
}

/// A page.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServerList {
    pub servers: Vec<ServerRecord>,
    /// The next page's marker, when this one is full: a server whose cell answered just now.
    pub marker: Option<Uuid>,
    /// Cells that did not answer, in order: what they still have is not on the page.
    pub silent: Vec<SilentCell>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// No server that the list could show carries the marker.
    #[error("marker [{0}] not found")]
    MarkerNotFound(Uuid),
    /// Where the page begins is known to a cell alone that does not answer.
    #[error("marker [{}] cannot be placed in the list now: {}", .0.mapping.instance_uuid, .0.error)]
    MarkerSilent(Box<SilentServer>),
    #[error(transparent)]
    Db(#[from] DbError),
}

/// A server that may be shown, in its place of the order.
struct Entry {
    position: Vec<SortValue>,
    /// None for a build request.
    cell: Option<Uuid>,
    instance: Instance,
}

/// What one cell has still to give, in order.
struct Stream<'a> {
    cell: &'a CellHandle,
    read: VecDeque<Entry>,
    /// Where to go on.
    after: Option<Vec<SortValue>>,
    exhausted: bool,
}

/// One list at work.
struct Merge<'a> {
    registry: &'a CellRegistry,
    query: &'a ListQuery,
    start: Option<Vec<SortValue>>,
    page: Vec<Entry>,
    shown: BTreeSet<Uuid>,
    /// Read in a place that the mapping does not name: to be looked up where it does.
    elsewhere: BTreeSet<Uuid>,
    /// Whose delete waits for the operation that has them.
    leaving: BTreeSet<Uuid>,
    /// Cells that did not answer.
    silent: BTreeMap<Uuid, SilentCell>,
}

impl CellRegistry {
    /// One page. A cell that does not answer in time is left out, and named.
    pub async fn list_servers(&self, mut query: ListQuery) -> Result<ServerList, ListError> {
        query.filter.with_hidden = true;
        let began = self.inner.api.db().env().now() - TimeDelta::seconds(CLOCK_MARGIN_SECONDS);
        let start = match query.marker {
            Some(marker) => Some(self.position_of(marker, &query).await?),
            None => None,
        };
        let builds = self.inner.api.build_requests(query.filter.project_id.as_deref()).await?;
        let mut merge = Merge {
            registry: self,
            query: &query,
            start,
            page: Vec::new(),
            shown: BTreeSet::new(),
            elsewhere: BTreeSet::new(),
            leaving: BTreeSet::new(),
            silent: BTreeMap::new(),
        };
        let mut builds_by_id = merge.run(builds).await?;
        merge.elsewhere.extend(self.inner.api.mappings_changed_since(began, query.filter.project_id.as_deref()).await?);
        if stands(Guard::MovedMeanwhile) {
            merge.add_moved().await?;
        }
        let is_full = merge.page.len() == query.limit;
        let mut loaded = if query.details { merge.details().await? } else { BTreeMap::new() };
        let Merge { page, silent, leaving, .. } = merge;
        let mut servers = Vec::with_capacity(page.len());
        for Entry { cell, instance, .. } in page {
            let uuid = instance.uuid;
            let mut server = match cell {
                Some(cell) => {
                    let name = self.cell_by_uuid(cell)?.name.clone();
                    ServerRecord::new(Some(name), instance, loaded.remove(&uuid).unwrap_or_default())
                }
                None => match builds_by_id.remove(&uuid) {
                    Some(bundle) => ServerRecord::of_build(bundle),
                    None => ServerRecord::new(None, instance, Default::default()),
                },
            };
            show_leaving(&mut server.instance, leaving.contains(&uuid));
            servers.push(server);
        }
        if query.details {
            self.inner.last_known.read(&servers, self.inner.api.db().env().now());
        }
        let is_heard = |server: &&ServerRecord| !silent.values().any(|cell| server.cell.as_ref() == Some(&cell.name));
        let marker = servers.iter().rfind(is_heard).filter(|_| is_full).map(|server| server.instance.uuid);
        Ok(ServerList { servers, marker, silent: silent.into_values().collect() })
    }

    async fn position_of(&self, marker: Uuid, query: &ListQuery) -> Result<Vec<SortValue>, ListError> {
        let may_show = |project_id: &str| query.filter.project_id.as_ref().is_none_or(|project| project == project_id);
        match self.find_even_deleted(marker).await {
            Ok(found) if may_show(&found.instance.project_id) => Ok(query.sort.position(&found.instance)),
            Err(LookupError::Silent(silent)) if may_show(&silent.mapping.project_id) => Err(ListError::MarkerSilent(silent)),
            Ok(_) | Err(LookupError::Silent(_) | LookupError::Db(DbError::NotFound(_))) => Err(ListError::MarkerNotFound(marker)),
            Err(LookupError::Db(error)) => Err(error.into()),
        }
    }
}

impl Merge<'_> {
    /// Merges the streams until the page is full or nothing is left. Gives the build requests back for their details.
    async fn run(&mut self, builds: Vec<InstanceBundle>) -> Result<BTreeMap<Uuid, InstanceBundle>, DbError> {
        let (mut waiting, by_id) = self.waiting(builds).await?;
        let cells = self.registry.inner.cells.values();
        let mut streams: Vec<Stream<'_>> =
            cells.map(|cell| Stream { cell, read: VecDeque::new(), after: self.start.clone(), exhausted: false }).collect();
        while self.page.len() < self.query.limit {
            self.refill(&mut streams).await?;
            // Whole now: every stream that is not exhausted has a next entry, so the least of them is the list's next.
            let heads = streams.iter().enumerate().filter_map(|(at, stream)| Some((Some(at), stream.read.front()?)));
            let heads = heads.chain(waiting.front().map(|entry| (None, entry)));
            let sort = &self.query.sort;
            let Some((from, _)) = heads.min_by(|(_, a), (_, b)| sort.compare(&a.position, &b.position)) else { break };
            let next = match from {
                Some(at) => streams[at].read.pop_front(),
                None => waiting.pop_front(),
            };
            if let Some(entry) = next.filter(|entry| self.shown.insert(entry.instance.uuid)) {
                self.page.push(entry);
            }
        }
        Ok(by_id)
    }

    /// The build requests that may be shown, in order.
    async fn waiting(&mut self, builds: Vec<InstanceBundle>) -> Result<(VecDeque<Entry>, BTreeMap<Uuid, InstanceBundle>), DbError> {
        let admitted: Vec<InstanceBundle> = builds.into_iter().filter(|bundle| matching::admits(&self.query.filter, bundle)).collect();
        let entries = admitted.iter().map(|bundle| self.entry(None, bundle.instance.clone())).collect();
        let mut entries = self.mapped(entries).await?;
        let (sort, start) = (&self.query.sort, &self.start);
        entries.retain(|entry| start.as_ref().is_none_or(|start| sort.compare(&entry.position, start).is_gt()));
        entries.sort_by(|a, b| sort.compare(&a.position, &b.position));
        Ok((entries.into(), admitted.into_iter().map(|bundle| (bundle.instance.uuid, bundle)).collect()))
    }

    fn entry(&self, cell: Option<Uuid>, instance: Instance) -> Entry {
        Entry { position: self.query.sort.position(&instance), cell, instance }
    }

    /// Reads on in every stream that has nothing left to compare, until it has or is exhausted.
    async fn refill(&mut self, streams: &mut [Stream<'_>]) -> Result<(), DbError> {
        loop {
            let (query, patience) = (self.query, self.registry.inner.patience.cell);
            let open = streams.iter().filter(|stream| !stream.exhausted).count();
            let batch = batch_of(self.query.limit - self.page.len(), open);
            let dry = streams.iter_mut().filter(|stream| stream.read.is_empty() && !stream.exhausted);
            let reads = join_all(dry.map(|stream| async move {
                let cell = stream.cell;
                let read = cell.db.list_instances(query.filter.clone(), query.sort.clone(), stream.after.clone(), batch);
                let rows = cell.health.call(patience, read).await;
                (stream, rows)
            }))
            .await;
            if reads.is_empty() {
                return Ok(());
            }
            let mut read = Vec::new();
            for (stream, rows) in reads {
                match rows {
                    Ok(rows) => {
                        stream.exhausted = rows.len() < batch;
                        stream.after = rows.last().map(|last| query.sort.position(last)).or(stream.after.take());
                        let cell = Some(stream.cell.uuid);
                        read.extend(rows.into_iter().map(|instance| self.entry(cell, instance)));
                    }
                    Err(error) => {
                        stream.exhausted = true;
                        self.left_out(stream.cell, error)?;
                    }
                }
            }
            for entry in self.mapped(read).await? {
                let from = streams.iter_mut().find(|stream| Some(stream.cell.uuid) == entry.cell);
                from.ok_or_else(|| DbError::Defect("a row of no stream".into()))?.read.push_back(entry);
            }
        }
    }

    /// Goes on without a cell that does not answer.
    fn left_out(&mut self, cell: &CellHandle, error: DbError) -> Result<(), DbError> {
        if !error.is_unavailable() {
            return Err(error);
        }
        log::debug!(cell = cell.name.as_str(); "a list goes on without a cell: {error}");
        self.silent.entry(cell.uuid).or_insert_with(|| SilentCell::new(cell, &error));
        Ok(())
    }

    /// Keeps, in their order, those of which the mapping names the place where they were read; the rest is remembered.
    async fn mapped(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, DbError> {
        let uuids = entries.iter().map(|entry| entry.instance.uuid).collect();
        let mut mappings = self.registry.inner.api.instance_mappings_of(uuids).await?;
        mappings.retain(|mapping| !mapping.is_hidden());
        self.leaving.extend(mappings.iter().filter(|mapping| mapping.is_leaving()).map(|mapping| mapping.instance_uuid));
        let cells: BTreeMap<Uuid, Option<Uuid>> = mappings.into_iter().map(|mapping| (mapping.instance_uuid, mapping.cell_uuid)).collect();
        let (here, other): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| cells.get(&entry.instance.uuid) == Some(&entry.cell) || !stands(Guard::MappingAuthority));
        self.elsewhere.extend(other.iter().map(|entry| entry.instance.uuid));
        Ok(here)
    }

    /// What belongs to the page's servers: one question to each cell. Servers of a cell that does not answer now leave the page.
    async fn details(&mut self) -> Result<BTreeMap<Uuid, InstanceDetails>, DbError> {
        let registry = self.registry;
        let asked = registry.inner.cells.values().filter_map(|cell| {
            let here = self.page.iter().filter(|entry| entry.cell == Some(cell.uuid));
            let uuids: Vec<Uuid> = here.map(|entry| entry.instance.uuid).collect();
            if uuids.is_empty() {
                return None;
            }
            Some(async move { (cell, cell.health.call(registry.inner.patience.cell, cell.db.instance_details(uuids)).await) })
        });
        let mut loaded = BTreeMap::new();
        for (cell, details) in join_all(asked).await {
            match details {
                Ok(details) => loaded.extend(details),
                Err(error) => {
                    self.left_out(cell, error)?;
                    self.page.retain(|entry| entry.cell != Some(cell.uuid));
                }
            }
        }
        Ok(loaded)
    }

    /// Looks up servers that moved while the streams were read and puts those that belong on the page into their places.
    async fn add_moved(&mut self) -> Result<(), DbError> {
        let mut asked: BTreeMap<Uuid, Option<Uuid>> = BTreeMap::new();
        // More than one round only for a server that moves again under the look-up.
        for _ in 0..CHASES {
            let wanted: Vec<Uuid> = self.elsewhere.difference(&self.shown).copied().collect();
            let mut by_cell: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
            for mapping in self.registry.inner.api.instance_mappings_of(wanted).await? {
                if mapping.is_hidden() {
                    continue;
                }
                if mapping.is_leaving() {
                    self.leaving.insert(mapping.instance_uuid);
                }
                let before = asked.insert(mapping.instance_uuid, mapping.cell_uuid);
                if let Some(cell) = mapping.cell_uuid.filter(|_| before != Some(mapping.cell_uuid)) {
                    by_cell.entry(cell).or_default().push(mapping.instance_uuid);
                }
            }
            if by_cell.is_empty() {
                break;
            }
            for (cell, uuids) in by_cell {
                self.add_from(cell, uuids).await?;
            }
        }
        let sort = &self.query.sort;
        self.page.sort_by(|a, b| sort.compare(&a.position, &b.position));
        self.page.truncate(self.query.limit);
        Ok(())
    }

    /// Puts those of these servers that the list may show onto the page.
    async fn add_from(&mut self, cell: Uuid, mut uuids: Vec<Uuid>) -> Result<(), DbError> {
        let handle = self.registry.cell_by_uuid(cell)?;
        if let Some(only) = &self.query.filter.uuids {
            uuids.retain(|uuid| only.contains(uuid));
        }
        let filter = InstanceFilter { uuids: Some(uuids), ..self.query.filter.clone() };
        let read = handle.db.list_instances(filter, self.query.sort.clone(), self.start.clone(), self.query.limit);
        match handle.health.call(self.registry.inner.patience.cell, read).await {
            Ok(rows) => {
                for instance in rows {
                    self.shown.insert(instance.uuid);
                    self.page.push(self.entry(Some(cell), instance));
                }
                Ok(())
            }
            Err(error) => self.left_out(handle, error),
        }
    }
}

/// How many rows to ask of each of so many cells for a page that lacks `missing`: their share and a little more, so that most
/// pages take one question to each cell and few rows for nothing.
fn batch_of(missing: usize, cells: usize) -> usize {
    let share = missing / cells.max(1);
    (share + share / 10 + 1).max(MIN_BATCH).min(missing)
}
