//! Reads the world into a [`Snapshot`]. The parts cannot be read at one moment, so operations are read before and after. A server counts as
//! busy if its counter moved meanwhile, or if an operation holds it at either end.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use cellshift_embedded::lost_and_found;
use futures::future::join_all;
use uuid::Uuid;

use super::images::MADE_BY;
use super::snapshot::{CellSnapshot, HostSnapshot, PlacementSnapshot, Snapshot};
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::db::api::instance_mappings::MappingFilter;
use crate::db::api::operations::Operations;
use crate::db::api::ownership::Ownership;
use crate::db::cell::CellDb;
use crate::domain::host_protocol::HostReport;
use crate::domain::reason;
use crate::domain::server::PowerState;
use crate::env::Env;
use crate::saga::steps::shelf::SHELVED_SERVER;
use crate::saga::world::World;
use crate::services::image::ImageService;
use crate::services::network::NetworkService;
use crate::services::placement::{Allocations, PlacementService, Provider};
use crate::services::stored_bytes::StoredBytes;
use crate::services::volume::VolumeService;
use crate::virt::Hosts;

/// The maximum time for the answer of each part.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of readings of placement before its usage is left unchecked.
const PLACEMENT_READINGS: usize = 5;

/// The places that the audit reads.
pub struct Sources<'a> {
    pub env: &'a Env,
    pub operations: &'a Operations,
    pub api: &'a ApiDb,
    /// By name, with cell0.
    pub cells: BTreeMap<String, (Uuid, &'a CellDb)>,
    /// Cells that cannot be asked: id, name and reason.
    pub silent_cells: Vec<(Uuid, String, String)>,
    pub hosts: &'a dyn Hosts,
    pub images: &'a dyn ImageService,
    pub network: &'a dyn NetworkService,
    pub volumes: &'a dyn VolumeService,
    pub placement: &'a dyn PlacementService,
    /// The maximum time for the answer of each part.
    pub patience: Duration,
    /// The directory with lost files; none if there are no files.
    pub data_dir: Option<&'a Path>,
}

impl<'a> Sources<'a> {
    /// Returns the sources of a running service, without its lost files.
    pub fn of(world: &'a World) -> Sources<'a> {
        Sources {
            env: &world.env,
            operations: &world.operations,
            api: &world.api,
            cells: world.cells.iter().map(|(name, cell)| (name.clone(), (cell.uuid, &cell.db))).collect(),
            silent_cells: Vec::new(),
            hosts: &*world.hosts,
            images: &*world.images,
            network: &*world.network,
            volumes: &*world.volumes,
            placement: &*world.placement,
            patience: PATIENCE,
            data_dir: None,
        }
    }

    /// Returns the files of images and of volumes.
    pub(super) async fn stored_bytes(&self, snapshot: &mut Snapshot) -> (Option<Vec<StoredBytes>>, Option<Vec<StoredBytes>>) {
        let images = self.ask("the image service", self.images.stored_bytes()).await;
        let images = reply(images, snapshot);
        let volumes = self.ask("the volume service", self.volumes.stored_bytes()).await;
        (images, reply(volumes, snapshot))
    }

    /// Returns an answer, or a sentence that says who did not answer.
    async fn ask<T, E: std::fmt::Display>(&self, who: &str, answer: impl Future<Output = Result<T, E>>) -> Result<T, String> {
        match tokio::time::timeout(self.patience, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(format!("{who}: {error}")),
            Err(_) => Err(format!("{who}: no answer within {} s", self.patience.as_secs())),
        }
    }
}

/// Reads the world. Fails only if the API database is silent.
pub async fn collect(sources: &Sources<'_>) -> Result<Snapshot, DbError> {
    let reading = async {
        // Reads the counters first, so that an operation that begins meanwhile is seen as holding its server.
        let ownership = sources.operations.all_ownership().await?;
        let held = sources.operations.held_servers().await?;
        let host_mappings = sources.api.host_mappings().await?;
        let moving = sources.api.open_group_moves().await?;
        Ok::<_, DbError>((ownership, held, host_mappings, moving))
    };
    let (ownership, held, host_mappings, moving) = within(sources, reading).await?;
    let mut snapshot = Snapshot { at: sources.env.now(), ..Snapshot::default() };
    snapshot.cell_names = sources.cells.iter().map(|(name, (uuid, _))| (*uuid, name.clone())).collect();
    for (uuid, name, reason) in &sources.silent_cells {
        snapshot.cell_names.insert(*uuid, name.clone());
        snapshot.unreachable.push(format!("cell {name}: {reason}"));
    }
    for mapping in host_mappings {
        match snapshot.cell_names.get(&mapping.cell_uuid) {
            Some(cell) => {
                snapshot.host_cells.insert(mapping.host, cell.clone());
            }
            None => snapshot.unreachable.push(format!("host {}: its cell {} is not known here", mapping.host, mapping.cell_uuid)),
        }
    }
    read_cells(sources, &mut snapshot).await;
    read_hosts(sources, &mut snapshot).await;
    read_services(sources, &mut snapshot).await;
    let rest = async {
        let mappings = sources.api.instance_mappings(MappingFilter::default()).await?;
        let building = sources.api.build_requests(None).await?;
        let groups = (sources.api.placed_groups().await?, sources.api.open_group_moves().await?);
        Ok::<_, DbError>((mappings, building, groups, sources.operations.audit_records().await?))
    };
    let (mappings, building, (groups, still_moving), after) = within(sources, rest).await?;
    (snapshot.mappings, snapshot.groups) = (mappings, groups);
    let moving = moving.iter().chain(&still_moving);
    snapshot.reserved = moving.flat_map(|one| one.members.iter().map(|member| member.reservation(one.id))).collect();
    snapshot.build_requests = building.into_iter().map(|bundle| bundle.instance.uuid).collect();
    let attempts =
        |rows: &[Ownership]| -> BTreeMap<Uuid, (i64, i64)> { rows.iter().map(|row| (row.server, (row.epoch, row.attempt))).collect() };
    let (first, last) = (attempts(&ownership), attempts(&after.ownership));
    let moved: BTreeSet<Uuid> = last.iter().filter(|(server, pair)| first.get(*server) != Some(*pair)).map(|(server, _)| *server).collect();
    let still = held.iter().filter(|(server, saga)| after.holders.get(server) == Some(saga) && !moved.contains(server));
    snapshot.at_one_step = still.map(|(server, _)| *server).collect();
    // A queued delete makes its server busy, as an operation does.
    let queued = snapshot.mappings.iter().filter(|mapping| mapping.delete_request.is_some()).map(|mapping| &mapping.instance_uuid);
    snapshot.busy = held.iter().map(|(server, _)| server).chain(after.holders.keys()).chain(&moved).chain(queued).copied().collect();
    snapshot.holders = after.holders;
    snapshot.sagas = after.sagas;
    snapshot.journals = after.journals;
    snapshot.debts = after.debts;
    snapshot.ownership = after.ownership.into_iter().map(|row| (row.server, row)).collect();
    Ok(snapshot)
}

/// Waits for the API database's answer. Silence is an error.
async fn within<T>(sources: &Sources<'_>, reading: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
    tokio::time::timeout(sources.patience, reading).await.unwrap_or_else(|_| {
        Err(DbError::Unavailable { name: "api".into(), reason: reason!("no answer within {} s", sources.patience.as_secs()) })
    })
}

async fn read_cells(sources: &Sources<'_>, snapshot: &mut Snapshot) {
    let answers = sources.cells.iter().map(|(name, (uuid, db))| async move {
        let records = sources.ask(&format!("cell {name}"), db.audit_records()).await;
        (name.clone(), *uuid, records)
    });
    for (name, uuid, records) in join_all(answers).await {
        match records {
            Ok(records) => {
                snapshot.cells.insert(name, CellSnapshot { uuid, records });
            }
            Err(silence) => snapshot.unreachable.push(silence),
        }
    }
}

async fn read_hosts(sources: &Sources<'_>, snapshot: &mut Snapshot) {
    let answers =
        snapshot.host_cells.iter().map(|(host, cell)| async move { (host.clone(), cell.clone(), report(sources, cell, host).await) });
    for (host, cell, answer) in join_all(answers).await {
        match answer {
            Ok(report) => {
                snapshot.hosts.insert(host, HostSnapshot { cell, report });
            }
            Err(silence) => snapshot.unreachable.push(silence),
        }
    }
    look_again(sources, snapshot).await;
}

async fn report(sources: &Sources<'_>, cell: &str, host: &str) -> Result<HostReport, String> {
    let reading = sources.hosts.report(cell, host, sources.patience);
    sources.ask(&format!("host {host}"), reading).await
}

/// If two hosts run a guest of one server, asks the first host again: a guest that moved between the two readings has stopped there by now.
async fn look_again(sources: &Sources<'_>, snapshot: &mut Snapshot) {
    let mut running: BTreeMap<Uuid, Vec<String>> = BTreeMap::new();
    for (name, host) in &snapshot.hosts {
        for guest in host.report.guests.iter().filter(|guest| guest.power_state == PowerState::Running) {
            running.entry(guest.server).or_default().push(name.clone());
        }
    }
    let doubtful: BTreeSet<String> = running.into_values().filter(|hosts| hosts.len() > 1).flatten().collect();
    for name in doubtful {
        let Some(cell) = snapshot.host_cells.get(&name).cloned() else { continue };
        match report(sources, &cell, &name).await {
            Ok(report) => {
                snapshot.hosts.insert(name, HostSnapshot { cell, report });
            }
            Err(silence) => {
                snapshot.hosts.remove(&name);
                snapshot.unreachable.push(silence);
            }
        }
    }
}

async fn read_services(sources: &Sources<'_>, snapshot: &mut Snapshot) {
    let ports = sources.ask("the network service", sources.network.ports_in_use()).await;
    snapshot.ports = reply(ports, snapshot);
    let attachments = sources.ask("the volume service", sources.volumes.all_attachments()).await;
    snapshot.attachments = reply(attachments, snapshot);
    let images = sources.ask("the image service", sources.images.images_with_property("image_type", "snapshot")).await;
    let snapshots = reply(images, snapshot);
    let with = |key: &str| snapshots.as_ref().map(|all| all.iter().filter(|image| image.properties.contains_key(key)).cloned().collect());
    (snapshot.temporary_images, snapshot.shelved_images) = (with(MADE_BY), with(SHELVED_SERVER));
    let placement = sources.ask("the placement service", read_placement(sources.placement)).await;
    snapshot.placement = reply(placement, snapshot);
    read_files(sources, snapshot).await;
    if let Some(data) = sources.data_dir.map(Path::to_owned) {
        let listing = sources.env.run_blocking(move || lost_and_found::list(&data));
        snapshot.lost_and_found = reply(sources.ask("lost+found", listing).await, snapshot).unwrap_or_default();
    }
}

/// Reads files. A file may appear or vanish between the reading of its record and of itself, so files that do not fit are read again, and
/// only those that do not fit twice are violations.
async fn read_files(sources: &Sources<'_>, snapshot: &mut Snapshot) {
    let (images, volumes) = sources.stored_bytes(snapshot).await;
    let unfit =
        |files: &Option<Vec<StoredBytes>>| files.iter().flatten().filter(|file| !file.fits()).map(|file| file.id).collect::<BTreeSet<_>>();
    let before: BTreeSet<Uuid> = unfit(&images).into_iter().chain(unfit(&volumes)).collect();
    (snapshot.image_files, snapshot.volume_files) = (images, volumes);
    if before.is_empty() {
        return;
    }
    let (images, volumes) = sources.stored_bytes(snapshot).await;
    for (kept, again) in [(&mut snapshot.image_files, images), (&mut snapshot.volume_files, volumes)] {
        let again = again.into_iter().flatten().filter(|file| file.fits() || before.contains(&file.id));
        *kept = kept.is_some().then(|| again.collect());
    }
}

fn reply<T>(answer: Result<T, String>, snapshot: &mut Snapshot) -> Option<T> {
    answer.map_err(|silence| snapshot.unreachable.push(silence)).ok()
}

/// Reads providers with their allocations, until no provider's generation changes meanwhile.
async fn read_placement(placement: &dyn PlacementService) -> Result<PlacementSnapshot, crate::services::ServiceError> {
    let mut trees = placement.trees(None).await?;
    let mut allocations = Vec::new();
    for _ in 0..PLACEMENT_READINGS {
        allocations = placement.all_allocations().await?;
        let again = placement.trees(None).await?;
        if again == trees {
            return Ok(placement_of(trees, allocations, true));
        }
        trees = again;
    }
    Ok(placement_of(trees, allocations, false))
}

fn placement_of(trees: Vec<(Provider, Option<Uuid>)>, allocations: Vec<Allocations>, settled: bool) -> PlacementSnapshot {
    let parents = trees.iter().filter_map(|(provider, parent)| Some((provider.uuid, (*parent)?))).collect();
    PlacementSnapshot { providers: trees.into_iter().map(|(provider, _)| provider).collect(), parents, allocations, settled }
}
