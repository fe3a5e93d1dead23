//! Writes thousands of servers into the databases as creates would have left them: all into a separate database, and distributed into the
//! cells of each cloud.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::connection::SimpleConnection;
use tempfile::TempDir;
use uuid::Uuid;

use cellshift::bootstrap::{CellPlan, Cloud};
use cellshift::config::Config;
use cellshift::db::cell::{CellDb, CellTxn};
use cellshift::domain::flavor::Flavor;
use cellshift::domain::instance::Instance;
use cellshift::domain::instance_bundle::InstanceBundle;
use cellshift::domain::server::VmState;
use cellshift::env::Env;

use crate::databases::Databases;

/// The number of servers per transaction.
const CHUNK: usize = 500;
/// The servers' project until a cloud gets them.
pub const PROJECT: &str = "a project";

/// All servers in one cell's database outside any cloud, to measure the floor.
pub struct Alone {
    pub db: CellDb,
    pub source: Source,
    _placed: Databases,
    _dir: TempDir,
}

/// The servers, oldest first.
#[derive(Clone)]
pub struct Source(Arc<Vec<Instance>>);

impl Source {
    pub fn servers(&self) -> usize {
        self.0.len()
    }

    /// Returns the servers newest first, as the list does.
    pub fn newest_first(&self) -> Vec<Uuid> {
        self.0.iter().rev().map(|instance| instance.uuid).collect()
    }
}

/// Makes `servers` servers.
pub async fn alone(servers: usize) -> Alone {
    let dir = tempfile::Builder::new().prefix("lists-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    let placed = Databases::place(&mut config, 1);
    let env = Env::system();
    let db = CellDb::new(Databases::open(&config, "cell1", &env));
    let began = env.now() - TimeDelta::days(10);
    let made: Vec<Instance> = (0..servers).map(|number| instance(env.uuid(), number, began)).collect();
    let all: Vec<&Instance> = made.iter().collect();
    write(&db, &all, PROJECT).await;
    Alone { db, source: Source(Arc::new(made)), _placed: placed, _dir: dir }
}

/// Distributes the servers over the cloud's cells, and maps them.
pub async fn fill(cloud: &Cloud, source: &Source) {
    let project_id = cloud.services.identity.ensure_project("demo").await.expect("the project").id;
    let cells: Vec<&CellPlan> = cloud.cells.iter().filter(|cell| !cell.hosts.is_empty()).collect();
    for (at, cell) in cells.iter().enumerate() {
        let own: Vec<&Instance> = source.0.iter().skip(at).step_by(cells.len()).collect();
        write(&cell.db, &own, &project_id).await;
    }
    let numbered: Vec<(usize, &Instance)> = source.0.iter().enumerate().collect();
    for chunk in numbered.chunks(CHUNK) {
        map(cloud, &cells, &project_id, chunk).await;
    }
}

/// Writes servers of a project into a cell.
async fn write(cell: &CellDb, servers: &[&Instance], project_id: &str) {
    for chunk in servers.chunks(CHUNK) {
        let owned = chunk.iter().map(|instance| Instance { project_id: project_id.to_owned(), ..(*instance).clone() });
        let txn = owned.fold(CellTxn::new(), |txn, instance| txn.create_instance(InstanceBundle::new(instance)));
        cell.apply_unfenced(txn).await.expect("the servers are written");
    }
}

fn instance(uuid: Uuid, number: usize, began: DateTime<Utc>) -> Instance {
    let flavor = Flavor { id: "m1.tiny".into(), name: "m1.tiny".into(), vcpus: 1, memory_mb: 512, root_gb: 1, ..Flavor::default() };
    let created = began + TimeDelta::milliseconds(i64::try_from(number).expect("a number"));
    let mut instance = Instance::new(uuid, PROJECT, "a user", &format!("server-{number}"), flavor, created);
    (instance.vm_state, instance.task_state) = (VmState::Active, None);
    instance.launched_at = Some(created);
    instance
}

async fn map(cloud: &Cloud, cells: &[&CellPlan], project_id: &str, servers: &[(usize, &Instance)]) {
    let row = |(number, instance): &(usize, &Instance)| {
        let (cell, uuid) = (cells[number % cells.len()].uuid, instance.uuid);
        let at = instance.created_at.format("%Y-%m-%d %H:%M:%S%.6f");
        format!("('{at}', '{at}', '{uuid}', '{cell}', '{project_id}', 'a user', FALSE)")
    };
    let rows: Vec<String> = servers.iter().map(row).collect();
    let columns = "created_at, updated_at, instance_uuid, cell_uuid, project_id, user_id, queued_for_delete";
    let statement = format!("INSERT INTO instance_mappings ({columns}) VALUES {}", rows.join(", "));
    cloud.api.db().write(move |conn| Ok(conn.batch_execute(&statement)?)).await.expect("the mappings are written");
}
