//! Lists of servers over all cells: a merge of each cell's page, in which the mapping decides, never short and never wrong
//! while servers move (L22, L33).
//!
//! Reading order: build requests, then cells, then mappings. A server whose mapping stood still meanwhile is in the cell that
//! the mapping names for all of that time, so its row was read. One whose mapping changed may have been read in neither
//! place; those are few, and are looked up by name at the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chrono::TimeDelta;
use futures::future::join_all;
use uuid::Uuid;

use super::{CHASES, CellRegistry, ServerRecord, matching};
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::db::cell::bundle::InstanceBundle;
use crate::db::cell::instance_filter::InstanceFilter;
use crate::db::cell::instance_sort::{SortSpec, SortValue};
use crate::db::cell::instances::Instance;

/// Clocks of several controllers may differ by this much.
const CLOCK_MARGIN_SECONDS: i64 = 5;

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

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// No server that the list could show carries the marker.
    #[error("marker [{0}] not found")]
    MarkerNotFound(Uuid),
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
}

impl CellRegistry {
    /// One page. A cell that does not answer in time is left out.
    pub async fn list_servers(&self, mut query: ListQuery) -> Result<Vec<ServerRecord>, ListError> {
        query.filter.with_hidden = true;
        let began = self.inner.api.db().env().now() - TimeDelta::seconds(CLOCK_MARGIN_SECONDS);
        let start = match query.marker {
            Some(marker) => Some(self.position_of(marker, &query).await?),
            None => None,
        };
        let builds = self.inner.api.build_requests(query.filter.project_id.as_deref()).await?;
        let mut merge =
            Merge { registry: self, query: &query, start, page: Vec::new(), shown: BTreeSet::new(), elsewhere: BTreeSet::new() };
        let builds_by_id = merge.run(builds).await?;
        merge.elsewhere.extend(self.inner.api.mappings_changed_since(began, query.filter.project_id.as_deref()).await?);
        merge.add_moved().await?;
        let page = merge.page;
        Ok(self.records(page, builds_by_id, query.details).await?)
    }

    async fn position_of(&self, marker: Uuid, query: &ListQuery) -> Result<Vec<SortValue>, ListError> {
        let found = self.find_even_deleted(marker).await.map_err(|error| match error {
            DbError::NotFound(_) => ListError::MarkerNotFound(marker),
            other => other.into(),
        })?;
        match &query.filter.project_id {
            Some(project) if *project != found.instance.project_id => Err(ListError::MarkerNotFound(marker)),
            _ => Ok(query.sort.position(&found.instance)),
        }
    }

    /// The page's servers with what belongs to them: one question to each cell.
    async fn records(
        &self,
        page: Vec<Entry>,
        mut builds: BTreeMap<Uuid, InstanceBundle>,
        details: bool,
    ) -> Result<Vec<ServerRecord>, DbError> {
        let mut loaded = BTreeMap::new();
        if details {
            let asked = self.inner.cells.values().map(|cell| {
                let here = page.iter().filter(|entry| entry.cell == Some(cell.uuid));
                let uuids: Vec<Uuid> = here.map(|entry| entry.instance.uuid).collect();
                async move {
                    if uuids.is_empty() {
                        return Ok(BTreeMap::new());
                    }
                    cell.health.call(self.inner.patience.cell, cell.db.instance_details(uuids)).await
                }
            });
            for details in join_all(asked).await {
                loaded.extend(details?);
            }
        }
        let mut records = Vec::with_capacity(page.len());
        for Entry { cell, instance, .. } in page {
            let uuid = instance.uuid;
            records.push(match cell {
                Some(cell) => {
                    let name = self.cell_by_uuid(cell)?.name.clone();
                    ServerRecord::new(Some(name), instance, loaded.remove(&uuid).unwrap_or_default())
                }
                None => match builds.remove(&uuid) {
                    Some(bundle) => ServerRecord::of_build(bundle),
                    None => ServerRecord::new(None, instance, Default::default()),
                },
            });
        }
        Ok(records)
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
        let mut entries = self.mapped(None, entries).await?;
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
            let missing = self.query.limit - self.page.len();
            let (query, patience) = (self.query, self.registry.inner.patience.cell);
            let dry = streams.iter_mut().filter(|stream| stream.read.is_empty() && !stream.exhausted);
            let reads = join_all(dry.map(|stream| async move {
                let cell = stream.cell;
                let read = cell.db.list_instances(query.filter.clone(), query.sort.clone(), stream.after.clone(), missing);
                let rows = cell.health.call(patience, read).await;
                (stream, rows)
            }))
            .await;
            if reads.is_empty() {
                return Ok(());
            }
            for (stream, rows) in reads {
                let rows = match rows {
                    Ok(rows) => rows,
                    Err(error @ DbError::Unavailable { .. }) => {
                        log::warn!("cell {} is left out of a list: {error}", stream.cell.name);
                        stream.exhausted = true;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                stream.exhausted = rows.len() < missing;
                stream.after = rows.last().map(|last| query.sort.position(last)).or(stream.after.take());
                let cell = Some(stream.cell.uuid);
                let entries = rows.into_iter().map(|instance| self.entry(cell, instance)).collect();
                stream.read = self.mapped(cell, entries).await?.into();
            }
        }
    }

    /// Keeps what the mapping names this place for; the rest is remembered.
    async fn mapped(&mut self, place: Option<Uuid>, entries: Vec<Entry>) -> Result<Vec<Entry>, DbError> {
        let uuids = entries.iter().map(|entry| entry.instance.uuid).collect();
        let mut mappings = self.registry.inner.api.instance_mappings_of(uuids).await?;
        mappings.retain(|mapping| mapping.delete_request.is_none());
        let cells: BTreeMap<Uuid, Option<Uuid>> = mappings.into_iter().map(|mapping| (mapping.instance_uuid, mapping.cell_uuid)).collect();
        let (here, other): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| cells.get(&entry.instance.uuid) == Some(&place));
        self.elsewhere.extend(other.iter().map(|entry| entry.instance.uuid));
        Ok(here)
    }

    /// Looks up servers that moved while the streams were read and puts those that belong on the page into their places.
    async fn add_moved(&mut self) -> Result<(), DbError> {
        let mut asked: BTreeMap<Uuid, Option<Uuid>> = BTreeMap::new();
        // More than one round only for a server that moves again under the look-up.
        for _ in 0..CHASES {
            let wanted: Vec<Uuid> = self.elsewhere.difference(&self.shown).copied().collect();
            let mut by_cell: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
            for mapping in self.registry.inner.api.instance_mappings_of(wanted).await? {
                if mapping.delete_request.is_some() {
                    continue;
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
            Err(error @ DbError::Unavailable { .. }) => {
                log::warn!("cell {} is left out of a list: {error}", handle.name);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
