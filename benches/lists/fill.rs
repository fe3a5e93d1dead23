//! Writes thousands of servers into the databases as creates would have left them: once into a separate database, from which each cloud's
//! cells get their servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use tempfile::TempDir;
use uuid::Uuid;

use cellshift::bootstrap::{CellPlan, Cloud};
use cellshift::db::cell::bundle::InstanceBundle;
use cellshift::db::cell::instances::Instance;
use cellshift::db::cell::{CellDb, CellTxn};
use cellshift::db::{Db, Schema};
use cellshift::domain::flavor::Flavor;
use cellshift::domain::server::VmState;
use cellshift::env::Env;

/// The number of servers per transaction.
const CHUNK: usize = 500;
/// The servers' project until a cloud gets them.
pub const PROJECT: &str = "a project";

/// All servers in one cell's database outside any cloud, to measure the floor and to fill clouds.
pub struct Alone {
    pub db: CellDb,
    pub source: Source,
    _dir: TempDir,
}

/// The file with the servers, and their mappings' data.
#[derive(Clone)]
pub struct Source {
    file: PathBuf,
    /// Oldest first.
    made: Arc<Vec<(Uuid, DateTime<Utc>)>>,
}

impl Source {
    pub fn servers(&self) -> usize {
        self.made.len()
    }

    /// Returns the servers newest first, as the list does.
    pub fn newest_first(&self) -> Vec<Uuid> {
        self.made.iter().rev().map(|(uuid, _)| *uuid).collect()
    }
}

/// Makes `servers` servers.
pub async fn alone(servers: usize) -> Alone {
    let dir = tempfile::Builder::new().prefix("lists-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (env, file) = (Env::system(), dir.path().join("alone.db"));
    let db = CellDb::new(Db::open("alone", &file.to_string_lossy(), Schema::Cell, &env).expect("a database"));
    let began = env.now() - TimeDelta::days(10);
    let mut made = Vec::with_capacity(servers);
    let numbers: Vec<usize> = (0..servers).collect();
    for chunk in numbers.chunks(CHUNK) {
        let instances: Vec<Instance> = chunk.iter().map(|number| instance(env.uuid(), *number, began)).collect();
        made.extend(instances.iter().map(|instance| (instance.uuid, instance.created_at)));
        let txn = instances.into_iter().fold(CellTxn::new(), |txn, instance| txn.create_instance(InstanceBundle::new(instance)));
        db.apply_unfenced(txn).await.expect("the servers are written");
    }
    Alone { db, source: Source { file, made: Arc::new(made) }, _dir: dir }
}

/// Distributes the servers over the cloud's cells, and maps them.
pub async fn fill(cloud: &Cloud, source: &Source) {
    let project_id = cloud.services.identity.ensure_project("demo").await.expect("the project").id;
    let cells: Vec<&CellPlan> = cloud.cells.iter().filter(|cell| !cell.hosts.is_empty()).collect();
    for (at, cell) in cells.iter().enumerate() {
        let file = cloud.config.data_dir.join(format!("{}.db", cell.name));
        copy(source, &file, &project_id, at, cells.len());
    }
    let numbered: Vec<(usize, &(Uuid, DateTime<Utc>))> = source.made.iter().enumerate().collect();
    for chunk in numbered.chunks(CHUNK) {
        map(cloud, &cells, &project_id, chunk).await;
    }
}

/// Copies the servers whose number modulo `cells` is `at`.
fn copy(source: &Source, cell: &Path, project_id: &str, at: usize, cells: usize) {
    let mut conn = SqliteConnection::establish(&cell.to_string_lossy()).expect("the cell's file");
    let statements = format!(
        "PRAGMA busy_timeout = 10000;
         ATTACH '{}' AS source;
         BEGIN;
         INSERT INTO instances SELECT * FROM source.instances WHERE (id - 1) % {cells} = {at};
         UPDATE instances SET project_id = '{project_id}';
         INSERT INTO instance_info_caches
             SELECT * FROM source.instance_info_caches WHERE instance_uuid IN (SELECT uuid FROM instances);
         COMMIT;
         DETACH source;",
        source.file.display()
    );
    conn.batch_execute(&statements).expect("the servers are copied");
}

fn instance(uuid: Uuid, number: usize, began: DateTime<Utc>) -> Instance {
    let flavor = Flavor { id: "m1.tiny".into(), name: "m1.tiny".into(), vcpus: 1, memory_mb: 512, root_gb: 1, ..Flavor::default() };
    let created = began + TimeDelta::milliseconds(i64::try_from(number).expect("a number"));
    let mut instance = Instance::new(uuid, PROJECT, "a user", &format!("server-{number}"), flavor, created);
    (instance.vm_state, instance.task_state) = (VmState::Active, None);
    instance.launched_at = Some(created);
    instance
}

async fn map(cloud: &Cloud, cells: &[&CellPlan], project_id: &str, servers: &[(usize, &(Uuid, DateTime<Utc>))]) {
    let row = |(number, (uuid, created)): &(usize, &(Uuid, DateTime<Utc>))| {
        let (cell, at) = (cells[number % cells.len()].uuid, created.format("%Y-%m-%d %H:%M:%S%.6f"));
        format!("('{at}', '{at}', '{uuid}', '{cell}', '{project_id}', 'a user', FALSE)")
    };
    let rows: Vec<String> = servers.iter().map(row).collect();
    let columns = "created_at, updated_at, instance_uuid, cell_uuid, project_id, user_id, queued_for_delete";
    let statement = format!("INSERT INTO instance_mappings ({columns}) VALUES {}", rows.join(", "));
    cloud.api.db().write(move |conn| Ok(conn.batch_execute(&statement)?)).await.expect("the mappings are written");
}
