//! The scheduler alone: its actor over placement's and ten cells' records, with hosts that are all up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::Actor;
use async_trait::async_trait;
use uuid::Uuid;

use cellshift::actors::address::Address;
use cellshift::actors::cell::CellHandle;
use cellshift::actors::host_facts::HostFacts;
use cellshift::actors::scheduler::config::SchedulerConfig;
use cellshift::actors::scheduler::host_state::{HostState, HostStates, HostsOfCells};
use cellshift::actors::scheduler::{Scheduler, SchedulerHandle};
use cellshift::config::Config;
use cellshift::db::api::ApiDb;
use cellshift::db::api::operations::Operations;
use cellshift::db::cell::{CellDb, CellTxn};
use cellshift::domain::compute_host::WhichHosts;
use cellshift::domain::compute_node::ComputeNode;
use cellshift::domain::fence::Fence;
use cellshift::domain::flavor::{Flavor, Resources};
use cellshift::domain::host_network::VirtualFunction;
use cellshift::domain::reason::Reason;
use cellshift::domain::request_spec::RequestSpec;
use cellshift::domain::server_group::ServerGroup;
use cellshift::domain::service::Service;
use cellshift::env::Env;
use cellshift::saga::scheduling::{OperationKind, Scheduling, SelectDestinations};
use cellshift::services::placement::{Inventory, PlacementService, ReportedTree};
use cellshift_embedded::placement::EmbeddedPlacement;

use crate::databases::Databases;
use crate::sample::Times;

pub const HEAD: &str = "| hosts | full | choose: median | p99 | choose and claim: median | p99 |\n|---:|---:|---:|---:|---:|---:|";

const CELLS: usize = 10;
/// The number of hosts that one transaction makes.
const BATCH: usize = 500;
/// The first decisions read everything, and are not measured.
const WARM_UP: usize = 3;

/// The records, with every host up: no host runs here.
struct AllUp(HostFacts);

#[async_trait]
impl HostStates for AllUp {
    async fn host_states(&self, cells: Option<Vec<String>>, hosts: WhichHosts) -> HostsOfCells {
        let mut states = self.0.host_states(cells, hosts).await;
        states.hosts.iter_mut().for_each(|host| host.up = true);
        states
    }

    async fn free_functions(&self, hosts: &[HostState]) -> BTreeMap<String, Vec<VirtualFunction>> {
        self.0.free_functions(hosts).await
    }

    async fn server_group(&self, group: Uuid) -> Result<Option<ServerGroup>, Reason> {
        self.0.server_group(group).await
    }

    async fn hosts_of(&self, servers: &[Uuid]) -> Result<BTreeMap<Uuid, Vec<String>>, Reason> {
        self.0.hosts_of(servers).await
    }
}

/// Measures choices among empty hosts, and among hosts of which all but a tenth are full. Returns the table's lines.
pub async fn measure(hosts: usize, quick: bool) -> String {
    let dir = tempfile::Builder::new().prefix("scale-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let env = Env::system();
    let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    // Dropped after its databases are closed.
    let _placed = Databases::place(&mut config, CELLS as u32);
    let open = |part: &str| Databases::open(&config, part, &env);
    let api = ApiDb::new(open("api"));
    let placement = EmbeddedPlacement::new(open("services"));
    let cells: Vec<CellHandle> = (0..CELLS)
        .map(|number| CellHandle::new(env.uuid(), &format!("cell{number}"), CellDb::new(open(&format!("cell{number}"))), &env))
        .collect();
    for (number, cell) in cells.iter().enumerate() {
        let its_hosts: Vec<usize> = (0..hosts).filter(|host| host % CELLS == number).collect();
        for batch in its_hosts.chunks(BATCH) {
            fill(cell, &placement, batch, &env).await;
        }
    }
    let facts = HostFacts {
        operations: Operations::new(api.db().clone()),
        api,
        cells,
        patience: Duration::from_secs(60),
        default_zone: "nova".into(),
    };
    let scheduler = Scheduler::new(SchedulerConfig::default(), Arc::new(placement), Arc::new(AllUp(facts)), &env).expect("a scheduler");
    let scheduler = SchedulerHandle::new(Address::new(scheduler.start()), &env);
    let decisions = if quick { 3 } else { 200 };
    let mut lines = Vec::new();
    for full in [0, 90] {
        let demand = if full == 0 { 1 } else { LARGE };
        let alone = decide(&scheduler, &env, demand, decisions, false).await;
        let claimed = decide(&scheduler, &env, demand, decisions, true).await;
        let [one, two, three, four] = [alone.median(), alone.p99(), claimed.median(), claimed.p99()].map(|time| time.as_secs_f64() * 1e3);
        lines.push(format!("| {hosts} | {full} % | {one:.2} ms | {two:.2} ms | {three:.2} ms | {four:.2} ms |"));
    }
    lines.join("\n")
}

/// The demand that only each tenth host can meet.
const LARGE: i64 = 100;

async fn fill(cell: &CellHandle, placement: &EmbeddedPlacement, hosts: &[usize], env: &Env) {
    let (mut txn, mut trees) = (CellTxn::new(), Vec::new());
    for host in hosts {
        let (name, provider) = (format!("{}-host{host}", cell.name), env.uuid());
        let service = service(&name, env);
        txn = txn.save_compute_node(ComputeNode::new(provider, &name, service.uuid, env.now())).register_service(service);
        // Each tenth host has room for a large server.
        let vcpus = if (host / CELLS).is_multiple_of(10) { 1 << 20 } else { 64 };
        let inventory =
            |total| Inventory { total, reserved: 0, min_unit: 1, max_unit: i32::MAX.into(), step_size: 1, allocation_ratio: 1.0 };
        let inventories =
            [("VCPU", vcpus), ("MEMORY_MB", 1 << 20), ("DISK_GB", 1 << 20)].map(|(class, total)| (class.to_owned(), inventory(total)));
        trees.push(ReportedTree { uuid: provider, name, inventories: inventories.into(), children: Vec::new() });
    }
    cell.db.apply_unfenced(txn).await.expect("the cell's records");
    placement.ensure_trees(trees).await.expect("the providers");
}

fn service(host: &str, env: &Env) -> Service {
    Service { last_seen_up: Some(env.now()), report_count: 1, ..Service::new(env.uuid(), host, "nova-compute", "nova", env.now()) }
}

async fn decide(scheduler: &SchedulerHandle, env: &Env, vcpu: i64, number: usize, claim: bool) -> Times {
    let mut times = Times::default();
    for number in 0..number + WARM_UP {
        let demand = request(env.uuid(), vcpu, claim);
        let began = Instant::now();
        let _chosen = scheduler.select_destinations(demand).await.expect("a host");
        if number >= WARM_UP {
            times.push(began.elapsed());
        }
    }
    times
}

fn request(server: Uuid, vcpu: i64, claim: bool) -> SelectDestinations {
    let flavor = Flavor { id: "1".to_owned(), name: "m1.tiny".to_owned(), vcpus: 1, ..Flavor::default() };
    let request_spec = RequestSpec::new(server, "demo", "user", flavor);
    let resources = Resources { vcpu, memory_mb: 512, disk_gb: 1 };
    let fence = Fence { server, epoch: 0, attempt: 1 };
    SelectDestinations { claim, ..SelectDestinations::of_server_without_host(OperationKind::Create, request_spec, resources, fence) }
}
