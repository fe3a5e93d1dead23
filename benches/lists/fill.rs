//! Servers by the thousand, written into the databases as creates would have left them.

use chrono::{DateTime, TimeDelta, Utc};
use diesel::connection::SimpleConnection;
use uuid::Uuid;

use cellshift::bootstrap::{CellPlan, Cloud};
use cellshift::db::cell::bundle::InstanceBundle;
use cellshift::db::cell::instances::Instance;
use cellshift::db::cell::{CellDb, CellTxn};
use cellshift::db::{Db, Schema};
use cellshift::domain::flavor::Flavor;
use cellshift::domain::server::VmState;

/// Servers in one transaction.
const CHUNK: usize = 500;

/// What was written.
pub struct Filled {
    /// Of the servers, newest first: the order of the list.
    pub newest_first: Vec<Uuid>,
    pub project_id: String,
    /// All servers in one cell's database, for the floor.
    pub alone: CellDb,
}

/// Writes the servers into the cloud's cells in turn, and once more all of them into a database that no cloud has.
pub async fn fill(cloud: &Cloud, servers: usize) -> Filled {
    let project_id = cloud.services.identity.ensure_project("demo").await.expect("the project").id;
    let cells: Vec<&CellPlan> = cloud.cells.iter().filter(|cell| !cell.hosts.is_empty()).collect();
    let file = cloud.config.data_dir.join("alone.db");
    let alone = CellDb::new(Db::open("alone", &file.to_string_lossy(), Schema::Cell, &cloud.env).expect("a database"));
    let began = cloud.env.now() - TimeDelta::days(10);
    let mut all = Vec::with_capacity(servers);
    let numbers: Vec<usize> = (0..servers).collect();
    for chunk in numbers.chunks(CHUNK) {
        let made: Vec<(usize, Instance)> =
            chunk.iter().map(|number| (number % cells.len(), instance(cloud.env.uuid(), &project_id, *number, began))).collect();
        for (at, cell) in cells.iter().enumerate() {
            write(&cell.db, made.iter().filter(|(cell, _)| *cell == at).map(|(_, instance)| instance)).await;
        }
        write(&alone, made.iter().map(|(_, instance)| instance)).await;
        map(cloud, &cells, &made).await;
        all.extend(made.into_iter().map(|(_, instance)| instance.uuid));
    }
    all.reverse();
    Filled { newest_first: all, project_id, alone }
}

fn instance(uuid: Uuid, project_id: &str, number: usize, began: DateTime<Utc>) -> Instance {
    let flavor = Flavor { id: "m1.tiny".into(), name: "m1.tiny".into(), vcpus: 1, memory_mb: 512, root_gb: 1, ..Flavor::default() };
    let created = began + TimeDelta::milliseconds(i64::try_from(number).expect("a number"));
    let mut instance = Instance::new(uuid, project_id, "a user", &format!("server-{number}"), flavor, created);
    (instance.vm_state, instance.task_state) = (VmState::Active, None);
    instance.launched_at = Some(created);
    instance
}

async fn write(db: &CellDb, instances: impl Iterator<Item = &Instance>) {
    let txn = instances.fold(CellTxn::new(), |txn, instance| txn.create_instance(InstanceBundle::new(instance.clone())));
    db.apply_unfenced(txn).await.expect("the servers are written");
}

async fn map(cloud: &Cloud, cells: &[&CellPlan], made: &[(usize, Instance)]) {
    let row = |(cell, instance): &(usize, Instance)| {
        let (cell, at) = (cells[*cell].uuid, instance.created_at.format("%Y-%m-%d %H:%M:%S%.6f"));
        format!("('{at}', '{at}', '{}', '{cell}', '{}', '{}', FALSE)", instance.uuid, instance.project_id, instance.user_id)
    };
    let rows: Vec<String> = made.iter().map(row).collect();
    let columns = "created_at, updated_at, instance_uuid, cell_uuid, project_id, user_id, queued_for_delete";
    let statement = format!("INSERT INTO instance_mappings ({columns}) VALUES {}", rows.join(", "));
    cloud.api.db().write(move |conn| Ok(conn.batch_execute(&statement)?)).await.expect("the mappings are written");
}
