//! Cells and their simulated hosts: cell0 without hosts, and the configured number of others. Missing ones are added, present ones stay.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use futures::future::join_all;

use super::agents;
use super::cell_setup::Setup;
use super::deployment::Deployment;
use super::host_records::{AgentRecorder, HostRecords, RecordedHost};
use super::{AgentsPlan, BootstrapError, CellPlan, Services};
use crate::actors::cell::Silent;
use crate::config::{Config, Preset};
use crate::db::api::ApiDb;
use crate::db::api::instance_mappings::MappingFilter;
use crate::db::cell::CellDb;
use crate::domain::cell_mapping::{CELL0, CellMapping, CellMappingChange};
use crate::env::Env;
use crate::services::placement::PlacementService;

/// The default number of cells beside cell0. DevStack has one; its users' tests move servers between any two hosts.
const fn default_cells(preset: Preset) -> u32 {
    match preset {
        Preset::Cellshift => 2,
        Preset::Devstack => 1,
    }
}
/// The default number of hosts of a new cell.
const DEFAULT_HOSTS_PER_CELL: usize = 2;

/// Returns all mapped cells, and the hosts that were not mapped before. Maps each cell's hosts, and records them in its database and in
/// placement unless the cell is silent.
pub(super) async fn ensure_cells(
    config: &Config,
    env: &Env,
    api: &ApiDb,
    services: &Services,
    deployment: &Deployment,
) -> Result<(Vec<CellPlan>, BTreeSet<String>), BootstrapError> {
    let mapped: BTreeSet<String> = api.host_mappings().await?.into_iter().map(|mapping| mapping.host).collect();
    ensure_mappings(config, env, api).await?;
    let mut mappings = api.cell_mappings().await?;
    mappings.sort_by_key(|mapping| mapping.uuid != CELL0);
    let providers = services.placement.providers().await?.into_iter().map(|provider| provider.name).collect();
    // Opens all cells concurrently, so that silent ones are waited for together.
    let opener = Opener { config, env, api, services, deployment, providers: &providers };
    let opening = mappings.into_iter().map(|mapping| opener.open_cell(mapping));
    let cells = join_all(opening).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let new = cells.iter().flat_map(|cell| &cell.hosts).filter(|host| !mapped.contains(*host)).cloned().collect();
    Ok((cells, new))
}

/// Maps the configured cells that are not mapped yet. Refuses a configuration with fewer cells or hosts than exist.
pub(super) async fn ensure_mappings(config: &Config, env: &Env, api: &ApiDb) -> Result<(), BootstrapError> {
    let mappings: BTreeMap<String, CellMapping> = api.cell_mappings().await?.into_iter().map(|cell| (cell.name.clone(), cell)).collect();
    let numbers: Vec<u32> = mappings.keys().filter_map(|name| number_of(name)).collect();
    let hosts: BTreeSet<String> = api.host_mappings().await?.into_iter().map(|mapping| mapping.host).collect();
    check_networks(config, &hosts, number_of_cells(config, mappings.contains_key("cell0")))?;
    not_fewer("cells.count (--cells)", config.cells.count, numbers.iter().map(|number| (*number, format!("cell{number}"))))?;
    let is_here = |host: &String| host.split_once("-host").is_none_or(|(cell, _)| !config.nats.contains_key(cell));
    let numbered = hosts.into_iter().filter(is_here).filter_map(|host| Some((number_of_host(&host)?, host)));
    not_fewer("cells.hosts_per_cell (--hosts-per-cell)", config.cells.hosts_per_cell, numbered)?;
    let count = number_of_cells(config, mappings.contains_key("cell0"));
    let exists = |cell: &str| mappings.contains_key(cell) || number_of(cell).is_some_and(|number| (1..=count).contains(&number));
    if let Some(cell) = config.nats.keys().find(|cell| !exists(cell)) {
        return Err(BootstrapError::NoSuchCell { cell: cell.clone() });
    }
    // cell0 comes last: its mapping shows that the first start has mapped the others.
    for number in (1..=count).chain(numbers.into_iter().filter(|number| *number > count)).chain([0]) {
        ensure_mapping(config, env, api, &mappings, number).await?;
    }
    Ok(())
}

/// Refuses a network of a host that does not exist and that this start does not make. Nothing is written before. A host with an agent may come
/// at any time, under any name.
fn check_networks(config: &Config, mapped: &BTreeSet<String>, cells: u32) -> Result<(), BootstrapError> {
    if !config.nats.is_empty() {
        return Ok(());
    }
    let is_to_come = |host: &String| {
        let Some((cell, number)) = host.split_once("-host") else { return false };
        let (Some(cell_number), Ok(number)) = (number_of(cell), number.parse::<usize>()) else { return false };
        let cell_is_mapped = mapped.contains(&format!("{cell}-host1"));
        let hosts = match config.cells.hosts_per_cell {
            Some(hosts) => hosts as usize,
            None if cell_is_mapped => 0,
            None => DEFAULT_HOSTS_PER_CELL,
        };
        (cell_is_mapped || (1..=cells).contains(&cell_number)) && (1..=hosts).contains(&number)
    };
    match config.compute.network_of_hosts.keys().find(|host| !mapped.contains(*host) && !is_to_come(host)) {
        Some(host) => Err(BootstrapError::NoSuchHost { host: host.clone() }),
        None => Ok(()),
    }
}

/// Refuses a number below that of a present cell or host.
fn not_fewer(key: &'static str, limit: Option<u32>, there: impl Iterator<Item = (u32, String)>) -> Result<(), BootstrapError> {
    let Some(limit) = limit else { return Ok(()) };
    let more: BTreeMap<u32, String> = there.filter(|(number, _)| *number > limit).collect();
    let Some(least) = more.keys().next_back().copied() else { return Ok(()) };
    let there = more.into_values().collect::<Vec<_>>().join(", ");
    Err(BootstrapError::Fewer { key, limit, there, least })
}

/// Returns the number of cells beside cell0 that a start ensures. The mapping of cell0 shows that an earlier start has mapped the others.
pub(super) fn number_of_cells(config: &Config, cell0_is_mapped: bool) -> u32 {
    config.cells.count.unwrap_or(if cell0_is_mapped { 0 } else { default_cells(config.preset) })
}

/// Maps a cell under its name. A database in the configuration replaces the mapped one, because the database has moved.
async fn ensure_mapping(
    config: &Config,
    env: &Env,
    api: &ApiDb,
    mappings: &BTreeMap<String, CellMapping>,
    number: u32,
) -> Result<(), BootstrapError> {
    let name = format!("cell{number}");
    let configured = config.database.cells.get(&name).cloned();
    match mappings.get(&name) {
        Some(mapping) => {
            let moved = configured.unwrap_or_else(|| in_this_directory(config, &mapping.name, &mapping.database_url));
            if moved != mapping.database_url {
                let change = CellMappingChange { database_url: Some(moved), ..CellMappingChange::default() };
                api.update_cell_mapping(mapping.uuid, change).await?;
            }
        }
        None => {
            let database_url = configured.unwrap_or_else(|| file_of(config, &name));
            let uuid = if number == 0 { CELL0 } else { env.uuid() };
            let mapping = CellMapping { uuid, created_at: env.now(), updated_at: None, name, database_url, disabled: false };
            api.create_cell_mapping(mapping).await?;
        }
    }
    Ok(())
}

/// Returns the number in the name of a default cell.
fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix("cell")?.parse().ok()
}

/// Returns the number in the name of a default cell's host.
fn number_of_host(host: &str) -> Option<u32> {
    let (cell, number) = host.split_once("-host")?;
    number_of(cell)?;
    number.parse().ok()
}

pub(super) fn file_of(config: &Config, name: &str) -> String {
    config.data_dir.join(format!("{name}.db")).to_string_lossy().into_owned()
}

/// Corrects the path of a file in the data directory, which may have been moved or named by another relative path.
pub(super) fn in_this_directory(config: &Config, name: &str, url: &str) -> String {
    let was_ours = Path::new(url).file_name().is_some_and(|file| *file == *format!("{name}.db"));
    if was_ours && !crate::db::connection::is_postgres(url) { file_of(config, name) } else { url.to_owned() }
}

/// Returns the names of the cell's hosts, all mapped.
async fn ensure_hosts(config: &Config, api: &ApiDb, cell: &CellMapping) -> Result<Vec<String>, BootstrapError> {
    let mapped: BTreeSet<String> = api.hosts_of_cell(cell.uuid).await?.into_iter().map(|mapping| mapping.host).collect();
    if cell.uuid == CELL0 {
        return Ok(Vec::new());
    }
    let host = |number| format!("{}-host{number}", cell.name);
    // Only cells of the default cloud get hosts here; a cell mapped by hand has its own. The mapping of the first host shows that a start
    // has mapped the others, because all are mapped at once.
    let count = match (number_of(&cell.name), config.cells.hosts_per_cell) {
        _ if config.nats.contains_key(&cell.name) => 0,
        (Some(_), Some(hosts)) => hosts as usize,
        (Some(_), None) if !mapped.contains(&host(1)) => DEFAULT_HOSTS_PER_CELL,
        _ => 0,
    };
    let missing: Vec<String> = (1..=count).map(host).filter(|host| !mapped.contains(host)).collect();
    if !missing.is_empty() {
        api.map_hosts(missing, cell.uuid).await?;
    }
    let mut hosts: Vec<String> = mapped.into_iter().chain((1..=count).map(host)).collect();
    hosts.sort();
    hosts.dedup();
    Ok(hosts)
}

/// True if servers or hosts were recorded in the cell's database, so that it must exist.
async fn holds_records(api: &ApiDb, cell: &CellMapping, hosts: &[String], providers: &BTreeSet<String>) -> Result<bool, BootstrapError> {
    if hosts.iter().any(|host| providers.contains(host)) {
        return Ok(true);
    }
    let any = MappingFilter { cell: Some(Some(cell.uuid)), limit: Some(1), ..MappingFilter::default() };
    Ok(!api.instance_mappings(any).await?.is_empty())
}

/// The parts needed to open cells.
struct Opener<'a> {
    config: &'a Config,
    env: &'a Env,
    api: &'a ApiDb,
    services: &'a Services,
    deployment: &'a Deployment,
    /// The hosts that placement knows.
    providers: &'a BTreeSet<String>,
}

impl Opener<'_> {
    /// Opens the cell and records its hosts. If its database does not answer, the cell is down, and the start continues.
    async fn open_cell(&self, mapping: CellMapping) -> Result<CellPlan, BootstrapError> {
        let Opener { config, env, api, services, deployment, providers } = *self;
        let hosts = ensure_hosts(config, api, &mapping).await?;
        let holds_records = holds_records(api, &mapping, &hosts, providers).await?;
        let db = CellDb::new(deployment.unopened_cell(&mapping, mapping.database_url.clone(), holds_records, env));
        let CellMapping { uuid, name, .. } = mapping;
        let records = HostRecords {
            env: env.clone(),
            compute: config.compute.clone(),
            cell: name.clone(),
            db: db.clone(),
            placement: services.placement.clone(),
            api: api.clone(),
        };
        let (hosts, agents) = match config.nats.contains_key(&name) {
            true => (Vec::new(), Some(self.agents_of(&name, hosts, &records).await?)),
            false => (hosts, None),
        };
        let here = hosts.iter().map(|host| RecordedHost::simulated(&config.compute, host.clone())).collect();
        let setup = Setup { records, hosts: here, note: deployment.note_for(api, uuid) };
        // A cell that has just not answered a look is not waited for again.
        let reason = match deployment.unanswered.get(&name) {
            Some(reason) => Some(reason.clone()),
            None => setup.try_now(config.cells.timeout.duration()).await?,
        };
        let silent = reason.map(|reason| {
            log::error!(cell = name.as_str(); "cell {name} is down, the service starts without it: {reason}");
            Silent { reason, setup: Arc::new(setup) }
        });
        let dir = config.data_dir.join("cells").join(&name);
        Ok(CellPlan { uuid, name, db, dir, hosts, agents, silent })
    }

    /// Returns the agents of a cell with these mapped hosts.
    async fn agents_of(&self, cell: &str, hosts: Vec<String>, records: &HostRecords) -> Result<AgentsPlan, BootstrapError> {
        let (config, name) = (self.config.clone(), cell.to_owned());
        self.env.run_blocking(move || agents::mark(&config, &name)).await?;
        let recorder = AgentRecorder { records: records.clone(), patience: self.config.cells.timeout.duration() };
        Ok(AgentsPlan { hosts, recorder: Arc::new(recorder) })
    }
}
