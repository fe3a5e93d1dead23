//! `cellshift db populate-queued-for-delete` and `populate-user-id` as operators run them, on data that an older release left: in
//! batches, again, with a cell down, and on no data (DOWN-CELLS A-18).

use std::path::Path;

use cellshift::bootstrap::{self, Cloud};
use cellshift::config::Config;
use cellshift::db::Conn;
use cellshift::db::api::instance_mappings::MappingFilter;
use cellshift::db::api::publications::NewServer;
use cellshift::db::cell::CellTxn;
use cellshift::domain::fence::Fence;
use cellshift::domain::flavor::Flavor;
use cellshift::domain::instance::Instance;
use cellshift::domain::instance_bundle::InstanceBundle;
use cellshift::domain::instance_mapping::InstanceMapping;
use cellshift::domain::quota_grant::QuotaGrant;
use cellshift::domain::request_spec::RequestSpec;
use cellshift::env::Env;
use diesel::connection::SimpleConnection;
use uuid::Uuid;

use crate::databases;
use crate::service::{self, Ended};

fn config_in(dir: &Path) -> Config {
    let mut config = Config { data_dir: dir.join("data"), ..Config::default() };
    databases::place(&mut config);
    config
}

/// Runs the command with a configuration.
fn run(config: &Config, command: &[&str]) -> Ended {
    let file = config.data_dir.with_extension("toml");
    std::fs::write(&file, config.to_toml().expect("TOML")).expect("a file");
    service::run(&[&["db"], command, &["--config", file.to_str().expect("a path")]].concat())
}

/// Makes an accepted server; if a cell is named, the server is in it.
async fn add(cloud: &Cloud, cell: Option<&str>, deleted: bool) -> Uuid {
    let server = cloud.env.uuid();
    let flavor = Flavor { id: "1".into(), name: "small".into(), vcpus: 1, memory_mb: 64, ..Flavor::default() };
    let instance = Instance::new(server, "demo", "alice", "s", flavor.clone(), cloud.env.now());
    let request_spec = RequestSpec::new(server, "demo", "alice", flavor);
    let fence = Fence { server, epoch: 1, attempt: 1 };
    let bundle = InstanceBundle::new(instance);
    cloud
        .api
        .create_server(fence, NewServer { instance: bundle.clone(), request_spec }, QuotaGrant::without_check("a test"))
        .await
        .expect("it is accepted");
    if let Some(name) = cell {
        let cell = cloud.cells.iter().find(|cell| cell.name == name).expect("a cell");
        cell.db.apply(fence, CellTxn::new().create_instance(bundle)).await.expect("a record");
        if deleted {
            cell.db.apply(fence, CellTxn::new().soft_delete_instance(server, cloud.env.now())).await.expect("it is deleted");
        }
        cloud.api.publish_build(fence, server, cell.uuid).await.expect("it is mapped");
    }
    server
}

/// Makes a cloud whose mappings are incomplete: three servers in cell1 of which one is deleted, two in cell2 of which one is deleted, one
/// in none.
async fn old_cloud(config: &Config) -> Cloud {
    std::fs::create_dir_all(&config.data_dir).expect("a directory");
    let cloud = bootstrap::open(config.clone(), Env::system()).await.expect("a cloud");
    for (cell, deleted) in [("cell1", false), ("cell1", true), ("cell1", false), ("cell2", true), ("cell2", false)] {
        add(&cloud, Some(cell), deleted).await;
    }
    add(&cloud, None, false).await;
    let sql = "UPDATE instance_mappings SET queued_for_delete = NULL, user_id = NULL";
    cloud.api.db().write(move |conn: &mut Conn| Ok(conn.batch_execute(sql)?)).await.expect("a write");
    cloud
}

async fn mappings(cloud: &Cloud) -> Vec<InstanceMapping> {
    cloud.api.instance_mappings(MappingFilter::default()).await.expect("mappings")
}

async fn open_flags(cloud: &Cloud) -> usize {
    mappings(cloud).await.iter().filter(|mapping| mapping.queued_for_delete.is_none()).count()
}

#[test]
fn flags_and_users_are_filled_in_batch_by_batch_and_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = config_in(dir.path());
    actix_rt::System::new().block_on(async {
        let cloud = old_cloud(&config).await;
        for (command, batches) in [("populate-queued-for-delete", [4, 2]), ("populate-user-id", [4, 2])] {
            for (count, code) in [(batches[0], Some(3)), (batches[1], Some(0)), (0, Some(0))] {
                let ended = run(&config, &[command, "--max-count", "4"]);
                assert_eq!(ended.code, code, "{command}: {}{}", ended.stdout, ended.stderr);
                assert!(ended.stdout.starts_with(&format!("{count} mappings were filled in.")), "{command}: {}", ended.stdout);
            }
        }
        for mapping in mappings(&cloud).await {
            let cell = cloud.cells.iter().find(|cell| Some(cell.uuid) == mapping.cell_uuid);
            let deleted = match cell {
                Some(cell) => cell.db.instance_even_deleted(mapping.instance_uuid).await.expect("a record").deleted,
                None => false,
            };
            assert_eq!((mapping.queued_for_delete, mapping.user_id.as_deref()), (Some(deleted), Some("alice")));
        }
    });
}

#[test]
fn a_cell_that_is_down_is_named_and_left_for_later() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = config_in(dir.path());
    actix_rt::System::new().block_on(async {
        let cloud = old_cloud(&config).await;
        let (mut down, file) = (config.clone(), config.data_dir.join("cell2.db"));
        match down.database.cells.get_mut("cell2") {
            Some(url) => databases::refuse(url),
            None => std::fs::rename(&file, file.with_extension("away")).expect("the file moves"),
        }
        for command in ["populate-queued-for-delete", "populate-user-id"] {
            for count in [4, 0] {
                let ended = run(&down, &[command]);
                assert_eq!(ended.code, Some(4), "{command}: {}{}", ended.stdout, ended.stderr);
                assert!(ended.stdout.starts_with(&format!("{count} mappings")), "{command}: {}", ended.stdout);
                assert!(ended.stdout.contains("cell2 does not answer"), "{command}: {}", ended.stdout);
            }
        }
        assert_eq!(open_flags(&cloud).await, 2);
        if config.database.cells.is_empty() {
            std::fs::rename(file.with_extension("away"), &file).expect("the file moves");
        }
        // A mapping that is complete meanwhile is not overwritten.
        let one = mappings(&cloud).await.into_iter().find(|mapping| mapping.queued_for_delete.is_none()).expect("one is open");
        cloud.api.set_queued_for_delete(one.instance_uuid, true).await.expect("a write");
        assert_eq!(run(&config, &["populate-queued-for-delete"]).code, Some(0));
        assert_eq!(cloud.api.instance_mapping(one.instance_uuid).await.expect("a mapping").queued_for_delete, Some(true));
        assert_eq!(open_flags(&cloud).await, 0);
    });
}

#[test]
fn where_nothing_can_be_done_it_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    for command in ["populate-queued-for-delete", "populate-user-id"] {
        let missing = dir.path().join("missing");
        let ended = service::run(&["db", command, "--data-dir", missing.to_str().expect("a path")]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains("there is no data directory"), "{}", ended.stderr);
        let ended = service::run(&["db", command, "--max-count", "0"]);
        assert!(ended.code == Some(2) && ended.stderr.contains("--max-count"), "{}", ended.stderr);
    }
}
