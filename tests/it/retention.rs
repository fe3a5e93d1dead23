//! Old records are removed by `cellshift db purge` and `db archive`, and by the running service; what is needed stays.

use std::path::PathBuf;

use cellshift::config::{Config, Seconds};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cloud::Cloud;
use crate::databases;
use crate::service::{self, Ended};
use crate::stage::until;

/// Runs `cellshift db` with the configuration of a stopped service.
fn run(config: &Config, command: &[&str]) -> Ended {
    let file = config.data_dir.with_extension("toml");
    std::fs::write(&file, config.to_toml().expect("TOML")).expect("a file");
    service::run(&[&["db"], command, &["--config", file.to_str().expect("a path")]].concat())
}

fn now() -> String {
    cellshift::env::Env::system().now().to_rfc3339()
}

async fn done(cloud: &Cloud, server: Uuid, action: Value) {
    cloud.act(server, action).await;
    assert!(cloud.at_rest(server).await);
}

/// Three servers: one deleted after a move, one that was moved and confirmed, one whose move to the other cell waits for its confirm.
async fn used(cloud: &Cloud) -> [Uuid; 3] {
    let servers = [cloud.ask_for_server().await, cloud.ask_for_server().await, cloud.ask_for_server().await];
    for server in servers {
        assert!(cloud.at_rest(server).await);
        done(cloud, server, json!({"resize": {"flavorRef": "gen2.small"}})).await;
        assert_eq!(cloud.status(server).await, "VERIFY_RESIZE");
    }
    let [gone, moved, _] = servers;
    done(cloud, moved, json!({"confirmResize": null})).await;
    let (status, body) = cloud.send("DELETE", &format!("/compute/v2.1/servers/{gone}"), None).await;
    assert_eq!(status, 204, "{body}");
    assert!(cloud.at_rest(gone).await);
    servers
}

/// Returns the kinds of a server's operations that the journal has.
async fn operations(cloud: &Cloud, server: Uuid) -> Vec<String> {
    let operations = cloud.world().operations.operations_of(server).await.expect("the API database answers");
    operations.into_iter().map(|(operation, _)| operation.kind).collect()
}

/// Returns the logs in which hosts remember the server.
fn logs_of_hosts(config: &Config, server: Uuid) -> Vec<PathBuf> {
    let (mut paths, mut folders) = (Vec::new(), vec![config.data_dir.join("cells")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name.to_string_lossy() == format!("{server}.log")) {
                paths.push(path);
            }
        }
    }
    paths
}

/// Checks the records that are left after everything old has been removed.
async fn assert_purged(cloud: &Cloud, [gone, moved, waiting]: [Uuid; 3]) {
    assert_eq!(operations(cloud, gone).await, Vec::<String>::new());
    assert_eq!(operations(cloud, moved).await, Vec::<String>::new());
    assert_eq!(operations(cloud, waiting).await, ["resize"], "its move waits");
    assert_eq!(cloud.world().operations.ownership(gone).await.expect("an answer"), None);
    for (name, cell) in &cloud.world().cells {
        assert!(cell.db.instance_even_deleted(gone).await.is_err(), "{name} has a record of the server that is gone");
    }
    let actions = cloud.look(&format!("/compute/v2.1/servers/{moved}/os-instance-actions")).await;
    assert_eq!(actions["instanceActions"], json!([]));
    assert_eq!(cloud.audit().await, Vec::<String>::new());
}

/// Each server that stayed can go on.
async fn assert_usable(cloud: &Cloud, [_, moved, waiting]: [Uuid; 3]) {
    done(cloud, waiting, json!({"revertResize": null})).await;
    assert_eq!(cloud.status(waiting).await, "ACTIVE");
    done(cloud, moved, json!({"resize": {"flavorRef": "gen1.small"}})).await;
    assert_eq!(cloud.status(moved).await, "VERIFY_RESIZE");
    assert_eq!(cloud.audit().await, Vec::<String>::new());
}

#[test]
fn a_purge_removes_old_records_and_nothing_that_is_needed() {
    actix_rt::System::new().block_on(async {
        let mut cloud = Cloud::start_with(|config| config.retention.interval = Seconds::whole(0)).await;
        let servers = used(&cloud).await;
        let [gone, ..] = servers;
        cloud.restart_after(|config| {
            let early = run(config, &["purge", "--before", "2020-01-01"]);
            assert_eq!((early.code, early.stdout.contains("Removed 0 servers")), (Some(0), true), "{}{}", early.stdout, early.stderr);
            let late = run(config, &["purge", "--before", "2999-01-01"]);
            assert_eq!((late.code, late.stderr.contains("future")), (Some(5), true), "{}{}", late.stdout, late.stderr);
            let unknown = run(config, &["purge", "--before", &now(), "--cell", "cell9"]);
            assert!(unknown.code == Some(5) && unknown.stderr.contains("none is called \"cell9\""), "{}{}", unknown.stdout, unknown.stderr);
            let other = run(config, &["purge", "--before", &now(), "--dry-run", "--cell", "cell1"]);
            assert!(other.stdout.contains("Would remove 0 servers"), "it was deleted in cell2: {}", other.stdout);
            let dry = run(config, &["purge", "--before", &now(), "--dry-run"]);
            assert!(dry.stdout.contains("Would remove 1 server"), "{}{}", dry.stdout, dry.stderr);

            let copy = config.data_dir.with_extension("jsonl");
            let archived = run(config, &["archive", "--before", &now(), "--to", copy.to_str().expect("a path")]);
            assert!(archived.code == Some(0) && archived.stdout.contains("Removed 1 server"), "{}{}", archived.stdout, archived.stderr);
            let copy = std::fs::read_to_string(copy).expect("the copy");
            let lines: Vec<Value> = copy.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            assert_eq!(lines.len(), 1);
            assert_eq!((&lines[0]["server"], &lines[0]["cell"]), (&json!(gone), &json!("cell2")));
            assert_eq!(lines[0]["records"]["instance"]["display_name"], "one");
            let kinds: Vec<&Value> = lines[0]["operations"].as_array().expect("operations").iter().map(|one| &one["kind"]).collect();
            assert_eq!(kinds, ["create", "resize", "delete"]);
            let again = run(config, &["purge", "--before", &now()]);
            assert!(again.stdout.contains("Removed 0 servers") && again.stdout.contains("and 0 fences"), "{}", again.stdout);
        });
        assert_purged(&cloud, servers).await;
        assert_usable(&cloud, servers).await;
    });
}

#[test]
fn a_cell_that_is_down_is_purged_when_it_answers() {
    actix_rt::System::new().block_on(async {
        let mut cloud = Cloud::start_with(|config| config.retention.interval = Seconds::whole(0)).await;
        let servers = used(&cloud).await;
        cloud.restart_after(|config| {
            let (mut down, file) = (config.clone(), config.data_dir.join("cell2.db"));
            match down.database.cells.get_mut("cell2") {
                Some(url) => databases::refuse(url),
                None => std::fs::rename(&file, file.with_extension("away")).expect("the file moves"),
            }
            let silent = run(&down, &["purge", "--before", &now()]);
            assert_eq!(silent.code, Some(4), "{}{}", silent.stdout, silent.stderr);
            assert!(silent.stdout.contains("Removed 0 servers") && silent.stdout.contains("cell2 does not answer"), "{}", silent.stdout);
            if down.database.cells.is_empty() {
                std::fs::rename(file.with_extension("away"), &file).expect("the file moves");
            }
            let whole = run(config, &["purge", "--before", &now()]);
            assert!(whole.code == Some(0) && whole.stdout.contains("Removed 1 server"), "{}{}", whole.stdout, whole.stderr);
        });
        assert_purged(&cloud, servers).await;
        assert_usable(&cloud, servers).await;
    });
}

#[test]
fn hosts_forget_a_server_that_the_deployment_has_forgotten() {
    actix_rt::System::new().block_on(async {
        let mut cloud = Cloud::start_with(|config| config.retention.interval = Seconds::millis(200)).await;
        let servers = used(&cloud).await;
        let [gone, moved, waiting] = servers;
        assert_eq!(logs_of_hosts(&cloud.config, gone).len(), 2, "its source and its target");
        cloud.restart_after(|config| {
            let purged = run(config, &["purge", "--before", &now()]);
            assert_eq!(purged.code, Some(0), "{}{}", purged.stdout, purged.stderr);
        });
        until("the hosts forget it", async || logs_of_hosts(&cloud.config, gone).is_empty()).await;
        assert_eq!((logs_of_hosts(&cloud.config, moved).len(), logs_of_hosts(&cloud.config, waiting).len()), (2, 2));
        assert_usable(&cloud, servers).await;
    });
}
