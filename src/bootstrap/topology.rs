//! Cells and their simulated hosts: cell0 without hosts, and as many others as configured. What is missing is added, what is
//! there stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use uuid::Uuid;

use super::{BootstrapError, CellPlan, HostPlan, Services, open_db};
use crate::config::{Compute, Config};
use crate::db::Schema;
use crate::db::api::ApiDb;
use crate::db::api::cell_mappings::{CELL0, CellMapping, CellMappingChange};
use crate::db::cell::compute_nodes::ComputeNode;
use crate::db::cell::services::Service;
use crate::db::cell::{CellDb, CellTxn};
use crate::env::Env;
use crate::services::placement::{Inventory, PlacementService};

/// What a compute service of this program is: old enough ones would bar cross-cell moves (spec §3).
const COMPUTE_SERVICE_VERSION: i32 = 70;
/// Cells beside cell0, when nobody says how many.
const DEFAULT_CELLS: u32 = 2;
/// Hosts of a new cell, when nobody says how many.
const DEFAULT_HOSTS_PER_CELL: usize = 2;
/// The simulated hypervisor's version, in libvirt's way of counting.
const HYPERVISOR_VERSION: i32 = 1_000_000;

/// Every cell that is mapped, opened, with its hosts recorded in its database, in the API's and in placement; and the names of
/// hosts that were not mapped before.
pub(super) async fn ensure_cells(
    config: &Config,
    env: &Env,
    api: &ApiDb,
    services: &Services,
) -> Result<(Vec<CellPlan>, BTreeSet<String>), BootstrapError> {
    let mapped: BTreeSet<String> = api.host_mappings().await?.into_iter().map(|mapping| mapping.host).collect();
    let known: BTreeMap<String, CellMapping> = api.cell_mappings().await?.into_iter().map(|cell| (cell.name.clone(), cell)).collect();
    // cell0 comes last: that it is mapped says that the first start has mapped the others.
    let count = config.cells.count.unwrap_or(if known.contains_key("cell0") { 0 } else { DEFAULT_CELLS });
    let others = known.keys().filter_map(|name| number_of(name)).filter(|number| *number > count);
    for number in (1..=count).chain(others).chain([0]) {
        ensure_mapping(config, env, api, &known, number).await?;
    }
    let mut mappings = api.cell_mappings().await?;
    mappings.sort_by_key(|mapping| mapping.uuid != CELL0);
    let mut cells = Vec::new();
    for mapping in mappings {
        let db = open_db(&mapping.name, Some(&mapping.database_url), Path::new(""), Schema::Cell, env)?;
        let dir = config.data_dir.join("cells").join(&mapping.name);
        let mut cell = CellPlan { uuid: mapping.uuid, name: mapping.name, db: CellDb::new(db), dir, hosts: Vec::new() };
        if cell.uuid != CELL0 {
            cell.hosts = ensure_hosts(config, env, api, services, &cell).await?;
        }
        cells.push(cell);
    }
    let hosts = cells.iter().flat_map(|cell| &cell.hosts).map(|host| host.name.clone());
    let new = hosts.filter(|host| !mapped.contains(host)).collect();
    Ok((cells, new))
}

/// Maps a cell under its name. A database that the configuration names beats the one that was mapped before: it has moved.
async fn ensure_mapping(
    config: &Config,
    env: &Env,
    api: &ApiDb,
    known: &BTreeMap<String, CellMapping>,
    number: u32,
) -> Result<(), BootstrapError> {
    let name = format!("cell{number}");
    let configured = config.database.cells.get(&name).cloned();
    match known.get(&name) {
        Some(mapping) => {
            let moved = configured.unwrap_or_else(|| in_this_directory(config, mapping));
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

/// The number in the name of a cell of the default cloud.
fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix("cell")?.parse().ok()
}

fn file_of(config: &Config, name: &str) -> String {
    config.data_dir.join(format!("{name}.db")).to_string_lossy().into_owned()
}

/// A data directory may have been moved, or may be named by another relative path: its own files are found again.
pub(super) fn in_this_directory(config: &Config, mapping: &CellMapping) -> String {
    let was_ours = Path::new(&mapping.database_url).file_name().is_some_and(|file| *file == *format!("{}.db", mapping.name));
    if was_ours && !crate::db::connection::is_postgres(&mapping.database_url) {
        file_of(config, &mapping.name)
    } else {
        mapping.database_url.clone()
    }
}

async fn ensure_hosts(
    config: &Config,
    env: &Env,
    api: &ApiDb,
    services: &Services,
    cell: &CellPlan,
) -> Result<Vec<HostPlan>, BootstrapError> {
    let mapped = api.hosts_of_cell(cell.uuid).await?;
    let first_is_mapped = mapped.iter().any(|mapping| mapping.host == format!("{}-host1", cell.name));
    // Only cells of the default cloud get hosts from here; one that was mapped by hand has its own. The first host comes last:
    // that it is mapped says that a start has mapped the others.
    let wanted = match (number_of(&cell.name), config.cells.hosts_per_cell) {
        (Some(_), Some(hosts)) => hosts as usize,
        (Some(_), None) if !first_is_mapped => DEFAULT_HOSTS_PER_CELL,
        _ => 0,
    };
    for number in (1..=wanted.max(mapped.len())).rev() {
        let host = format!("{}-host{number}", cell.name);
        api.map_host(&host, cell.uuid).await?;
        ensure_records(config, env, cell, &host).await?;
    }
    let mut hosts = Vec::new();
    for node in cell.db.compute_nodes().await? {
        let ratios = &config.compute;
        services.placement.ensure_provider(node.uuid, &node.host, inventories(ratios), Vec::new()).await?;
        hosts.push(HostPlan { name: node.host, node: node.uuid, service: node.service_id });
    }
    Ok(hosts)
}

/// The host's service and compute node in its cell's database.
async fn ensure_records(config: &Config, env: &Env, cell: &CellPlan, host: &str) -> Result<(), BootstrapError> {
    let now = env.now();
    let service = Service {
        id: 0,
        uuid: env.uuid(),
        created_at: now,
        updated_at: None,
        host: host.to_owned(),
        binary: "nova-compute".into(),
        topic: "compute".into(),
        availability_zone: cell.name.clone(),
        disabled: false,
        disabled_reason: None,
        forced_down: false,
        last_seen_up: None,
        report_count: 0,
        version: COMPUTE_SERVICE_VERSION,
    };
    cell.db.apply_unfenced(CellTxn::new().register_service(service)).await?;
    let service = cell.db.service_on(host, "nova-compute").await?.uuid;
    let node = compute_node(&config.compute, now, host, env.uuid(), service);
    cell.db.apply_unfenced(CellTxn::new().save_compute_node(node)).await?;
    Ok(cell.db.recount_usage(host).await?)
}

fn compute_node(compute: &Compute, now: chrono::DateTime<chrono::Utc>, host: &str, uuid: Uuid, service: Uuid) -> ComputeNode {
    ComputeNode {
        id: 0,
        uuid,
        created_at: now,
        updated_at: None,
        host: host.to_owned(),
        hypervisor_hostname: host.to_owned(),
        hypervisor_type: "simulated".into(),
        hypervisor_version: HYPERVISOR_VERSION,
        host_ip: "127.0.0.1".into(),
        vcpus: whole(compute.vcpus),
        memory_mb: whole(compute.memory_mb),
        local_gb: whole(compute.disk_gb),
        vcpus_used: 0,
        memory_mb_used: 0,
        local_gb_used: 0,
        running_vms: 0,
        current_workload: 0,
        cpu_allocation_ratio: compute.cpu_allocation_ratio,
        ram_allocation_ratio: compute.ram_allocation_ratio,
        disk_allocation_ratio: compute.disk_allocation_ratio,
        cpu_info: "{}".into(),
        service_id: service,
        mapped: true,
    }
}

fn inventories(compute: &Compute) -> BTreeMap<String, Inventory> {
    let inventory = |total: u32, allocation_ratio| Inventory {
        total: total.into(),
        reserved: 0,
        min_unit: 1,
        max_unit: total.into(),
        step_size: 1,
        allocation_ratio,
    };
    [
        ("VCPU", inventory(compute.vcpus, compute.cpu_allocation_ratio)),
        ("MEMORY_MB", inventory(compute.memory_mb, compute.ram_allocation_ratio)),
        ("DISK_GB", inventory(compute.disk_gb, compute.disk_allocation_ratio)),
    ]
    .into_iter()
    .map(|(class, inventory)| (class.to_owned(), inventory))
    .collect()
}

fn whole(amount: u32) -> i32 {
    i32::try_from(amount).unwrap_or(i32::MAX)
}
