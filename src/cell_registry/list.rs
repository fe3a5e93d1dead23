//! Lists of servers over all cells: a merge of the cells' pages, in which the mapping decides. The list is complete and right while servers
//! move (NOVA-DIFFERENCES L22, L33).
//!
//! The order of reading is: build requests, cells, mappings. A server whose mapping did not change meanwhile was in the mapped cell all the
//! time, so its row was read. A server whose mapping changed may have been missed in both cells, or its new cell was read while the copy
//! there was still hidden and not yet as users see it; such servers are few, and are looked up by id at the end.
//!
//! A cell that does not answer is not asked again for this list. The rows that it gave before stay, and the answer names the missing cells.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use chrono::TimeDelta;
use futures::future::join_all;
use uuid::Uuid;

use super::{CHASES, CellRegistry, LookupError, ServerRecord, SilentCell, SilentServer, show_leaving};
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::db::cell::instance_filter;
use crate::db::cell::instance_list::{InstanceDetails, Shown};
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::instance_filter::InstanceFilter;
use crate::domain::instance_sort::{SortSpec, SortValue};
use crate::env::guard::{Guard, stands};

/// The clocks of several controllers may differ by this much.
const CLOCK_MARGIN_SECONDS: i64 = 5;

/// The minimum number of rows that a cell is asked for, if the page has room for them.
const MIN_BATCH: usize = 100;

/// The request for a page of servers.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// The mapping decides whether hidden copies count, so the filter's own setting is ignored.
    pub filter: InstanceFilter,
    pub sort: SortSpec,
    /// The page begins after this server.
    pub marker: Option<Uuid>,
    /// The maximum number of servers.
    pub limit: usize,
    /// True to load the records that belong to each server.
    pub details: bool,
}

/// A page.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServerList {
    pub servers: Vec<Arc<ServerRecord>>,
    /// The marker of the next page if this page is full: a server whose cell has just answered.
    pub marker: Option<Uuid>,
    /// The cells that did not answer, in order. Servers may be missing from the page.
    pub silent: Vec<SilentCell>,
}

/// The reason why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// No server that the list could show has the marker's id.
    #[error("marker [{0}] not found")]
    MarkerNotFound(Uuid),
    /// Only a cell that does not answer knows where the page begins.
    #[error("marker [{}] cannot be placed in the list now: {}", .0.mapping.instance_uuid, .0.error)]
    MarkerSilent(Box<SilentServer>),
    #[error(transparent)]
    Db(#[from] DbError),
}

/// A server that may be shown, with its place in the order.
struct Entry {
    position: Vec<SortValue>,
    /// None for a build request.
    cell: Option<Uuid>,
    /// On the heap, because an entry changes its place several times.
    instance: Box<Instance>,
}

/// The rows that a cell has still to give, in order.
struct Stream<'a> {
    cell: &'a CellHandle,
    read: VecDeque<Entry>,
    /// The place to read on from.
    after: Option<Vec<SortValue>>,
    exhausted: bool,
}

/// A list in progress.
struct Merge<'a> {
    registry: &'a CellRegistry,
    query: &'a ListQuery,
    start: Option<Vec<SortValue>>,
    page: Vec<Entry>,
    shown: BTreeSet<Uuid>,
    /// Servers read in a cell that the mapping does not name, or that it named only after the read. They are looked up in the mapped cell.
    elsewhere: BTreeSet<Uuid>,
    /// Servers whose delete waits for the operation that has them.
    leaving: BTreeSet<Uuid>,
    /// Cells that did not answer.
    silent: BTreeMap<Uuid, SilentCell>,
}

impl CellRegistry {
    /// Returns a page. A cell that does not answer in time is left out and named.
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
                    ServerRecord::new(Some(name), *instance, loaded.remove(&uuid).unwrap_or_default())
                }
                None => match builds_by_id.remove(&uuid) {
                    Some(bundle) => ServerRecord::of_build(bundle),
                    None => ServerRecord::new(None, *instance, Default::default()),
                },
            };
            show_leaving(&mut server.instance, leaving.contains(&uuid));
            servers.push(Arc::new(server));
        }
        if query.details {
            self.inner.last_known.read(&servers, self.inner.api.db().env().now());
        }
        let is_heard = |server: &&Arc<ServerRecord>| !silent.values().any(|cell| server.cell.as_ref() == Some(&cell.name));
        let marker = servers.iter().rfind(is_heard).filter(|_| is_full).map(|server| server.instance.uuid);
        Ok(ServerList { servers, marker, silent: silent.into_values().collect() })
    }

    async fn position_of(&self, marker: Uuid, query: &ListQuery) -> Result<Vec<SortValue>, ListError> {
        let may_show = |project_id: &str| query.filter.project_id.as_ref().is_none_or(|project| project == project_id);
        match self.find_even_deleted(marker).await {
            Ok(server) if may_show(&server.instance.project_id) => Ok(query.sort.position(&server.instance)),
            Err(LookupError::Silent(silent)) if may_show(&silent.mapping.project_id) => Err(ListError::MarkerSilent(silent)),
            Ok(_) | Err(LookupError::Silent(_) | LookupError::Db(DbError::NotFound(_))) => Err(ListError::MarkerNotFound(marker)),
            Err(LookupError::Db(error)) => Err(error.into()),
        }
    }
}

impl Merge<'_> {
    /// Merges the streams until the page is full or nothing is left. Returns the build requests for their details.
    async fn run(&mut self, builds: Vec<InstanceBundle>) -> Result<BTreeMap<Uuid, InstanceBundle>, DbError> {
        let (mut waiting, by_id) = self.waiting(builds).await?;
        let cells = self.registry.inner.cells.values();
        let mut streams: Vec<Stream<'_>> =
            cells.map(|cell| Stream { cell, read: VecDeque::new(), after: self.start.clone(), exhausted: false }).collect();
        while self.page.len() < self.query.limit {
            self.refill(&mut streams).await?;
            // Every stream that is not exhausted has a next entry here, so the least of these is the list's next.
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

    /// Returns the build requests that may be shown, in order.
    async fn waiting(&mut self, builds: Vec<InstanceBundle>) -> Result<(VecDeque<Entry>, BTreeMap<Uuid, InstanceBundle>), DbError> {
        let admitted: Vec<InstanceBundle> =
            builds.into_iter().filter(|bundle| instance_filter::admits(&self.query.filter, bundle)).collect();
        let entries = admitted.iter().map(|bundle| self.entry(None, bundle.instance.clone())).collect();
        let mut entries = self.mapped(entries).await?;
        let (sort, start) = (&self.query.sort, &self.start);
        entries.retain(|entry| start.as_ref().is_none_or(|start| sort.compare(&entry.position, start).is_gt()));
        entries.sort_by(|a, b| sort.compare(&a.position, &b.position));
        Ok((entries.into(), admitted.into_iter().map(|bundle| (bundle.instance.uuid, bundle)).collect()))
    }

    fn entry(&self, cell: Option<Uuid>, instance: Instance) -> Entry {
        Entry { position: self.query.sort.position(&instance), cell, instance: Box::new(instance) }
    }

    /// Reads on in each stream without a next entry, until it has one or is exhausted.
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

    /// Keeps the entries that were read in the mapped cell, in order, and remembers the others. A record that was hidden when it was read
    /// got its mapping later, because a move shows the record before the mapping names its cell.
    async fn mapped(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, DbError> {
        let uuids = entries.iter().map(|entry| entry.instance.uuid).collect();
        let mut mappings = self.registry.inner.api.instance_mappings_of(uuids).await?;
        mappings.retain(|mapping| !mapping.is_hidden());
        self.leaving.extend(mappings.iter().filter(|mapping| mapping.is_leaving()).map(|mapping| mapping.instance_uuid));
        let cells: BTreeMap<Uuid, Option<Uuid>> = mappings.into_iter().map(|mapping| (mapping.instance_uuid, mapping.cell_uuid)).collect();
        let is_mapped = |entry: &Entry| cells.get(&entry.instance.uuid) == Some(&entry.cell) && !entry.instance.hidden;
        let is_other = |entry: &Entry| stands(Guard::MappingAuthority) && !is_mapped(entry);
        let (other, here): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(is_other);
        self.elsewhere.extend(other.iter().map(|entry| entry.instance.uuid));
        Ok(here)
    }

    /// Loads the records that belong to the page's servers, with one question per cell. Servers of a cell that does not answer now leave
    /// the page.
    async fn details(&mut self) -> Result<BTreeMap<Uuid, InstanceDetails>, DbError> {
        let registry = self.registry;
        let questions = registry.inner.cells.values().filter_map(|cell| {
            let here = self.page.iter().filter(|entry| entry.cell == Some(cell.uuid));
            let shown = Shown::of(here.map(|entry| entry.instance.as_ref()));
            if shown.servers.is_empty() {
                return None;
            }
            Some(async move { (cell, cell.health.call(registry.inner.patience.cell, cell.db.instance_details(shown)).await) })
        });
        let mut loaded = BTreeMap::new();
        for (cell, details) in join_all(questions).await {
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

    /// Looks up servers that moved while the streams were read, and inserts those that belong on the page.
    async fn add_moved(&mut self) -> Result<(), DbError> {
        let mut cells: BTreeMap<Uuid, Option<Uuid>> = BTreeMap::new();
        // A second round is needed only if a server moves again during the look-up.
        for _ in 0..CHASES {
            let servers: Vec<Uuid> = self.elsewhere.difference(&self.shown).copied().collect();
            let mut by_cell: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
            for mapping in self.registry.inner.api.instance_mappings_of(servers).await? {
                if mapping.is_hidden() {
                    continue;
                }
                if mapping.is_leaving() {
                    self.leaving.insert(mapping.instance_uuid);
                }
                let before = cells.insert(mapping.instance_uuid, mapping.cell_uuid);
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

    /// Inserts those of these servers that the list may show.
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

/// Returns the number of rows to ask of each of this many cells for a page that lacks `missing`: their share and a little more, so that
/// most pages need one question per cell and few rows are read in vain.
fn batch_of(missing: usize, cells: usize) -> usize {
    let share = missing / cells.max(1);
    (share + share / 10 + 1).max(MIN_BATCH).min(missing)
}
