//! Operations of a newer release's tables are left alone by an older one, whatever lease they have: they go on when the newer release runs
//! again.

use cellshift::config::{Config, Seconds};
use serde_json::{Value, json};

use super::dead_in_a_stop;
use crate::client::{NewServer, id_of};
use crate::databases;
use crate::service::{Service, run};
use crate::stage::until;

/// Gives the stop that is in flight a version of its table that this release does not know.
const TO_NEWER: &str = "UPDATE sagas SET table_version = 99 WHERE state = 'running'";
const BACK: &str = "UPDATE sagas SET table_version = 1 WHERE table_version = 99";

fn summary_of_one(table: &str) -> Value {
    let remedy = "start the release that began them, let them end, then change releases";
    json!({"operations": 1, "debts": 0, "tables": [table], "remedy": remedy})
}

/// Conductors look for operations whose leases have run out many times in a second.
fn quick(config: &mut Config) {
    config.migration.lease = Seconds::millis(300);
}

#[test]
fn an_operation_of_a_newer_table_waits_for_its_release() {
    let system = actix_rt::System::new();
    let (cloud, stopped) = system.block_on(dead_in_a_stop(quick));
    let config = cloud.config.clone();
    let dir = cloud.abandon();
    let (file, log) = (dir.path().join("config.toml"), dir.path().join("log"));
    std::fs::write(&file, config.to_toml().expect("TOML")).expect("a file");
    let options = ["--config", file.to_str().expect("a path")];
    databases::execute_in_api(&config, TO_NEWER);

    let service = Service::start_logging(dir.path(), &options, &log);
    system.block_on(async {
        let (user, admin) = (service.user(dir.path(), "cellshift").await, service.user(dir.path(), "cellshift-admin").await);
        let table = "version 99 of the table of stop";
        until("it is named in the log", async || std::fs::read_to_string(&log).is_ok_and(|log| log.contains(table))).await;
        let summary = admin.get("/ops/v1/summary").await.expect(200).body;
        assert_eq!(summary["left_alone"], summary_of_one(table));
        assert_eq!(summary["operations"], json!({"running": 0, "unwinding": 0, "needs_operator": 0}));
        // Nobody else gets its server. Other servers are not concerned, and the leases are looked for again and again meanwhile.
        let refused = user.act(stopped, json!({"os-start": null})).await;
        assert!(matches!(refused.status, 409 | 503), "{refused:?}");
        let image = id_of(&user.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
        let other = id_of(&NewServer::of_image(image).ask(&user).await.expect(202).body["server"]);
        admin.settled(other).await;
        for action in ["os-stop", "os-start"] {
            user.act(other, json!({action: null})).await.expect(202);
            admin.settled(other).await;
        }
        let listed = admin.get(&format!("/ops/v1/migrations?server={stopped}&saga=stop")).await.expect(200).body;
        let one = &listed["migrations"][0];
        assert_eq!((&one["state"], &one["reason"]), (&json!("running"), &json!(format!("this release knows no {table}"))), "{listed:#}");
    });
    let status = run(&["status", "--config", options[1], "--data-dir", dir.path().to_str().expect("a path")]);
    assert!(status.stdout.contains("\nleft alone        1 of another release: start the release"), "{}{}", status.stdout, status.stderr);
    service.stop();
    let said = std::fs::read_to_string(&log).expect("a log");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("left alone")).collect();
    assert!(matches!(lines[..], [line] if line.contains("1 operations are left alone until the release that began them")), "{said}");

    // The release that began it knows this version.
    databases::execute_in_api(&config, BACK);
    let service = Service::start_logging(dir.path(), &options, &log);
    system.block_on(async {
        service.user(dir.path(), "cellshift-admin").await.settled(stopped).await;
        assert_eq!(service.user(dir.path(), "cellshift").await.status(stopped).await, "SHUTOFF");
    });
    service.stop();
    let audit = run(&["audit", "--config", options[1], "--data-dir", dir.path().to_str().expect("a path")]);
    assert_eq!(audit.code, Some(0), "{}{}", audit.stdout, audit.stderr);
    databases::remove(&config);
}

/// A change of the stop in flight, the change back, and the table that is not known.
fn left_and_finished(change: &str, back: &str, table: &str) {
    actix_rt::System::new().block_on(async {
        let (mut cloud, server) = dead_in_a_stop(|_| {}).await;
        cloud.restart_after(|config| databases::execute_in_api(config, change));
        let other = cloud.ask_for_server().await;
        assert!(cloud.at_rest(other).await);
        assert_eq!(cloud.look("/ops/v1/summary").await["left_alone"], summary_of_one(table));
        let held = cloud.world().operations.holder(server).await.expect("the journal answers");
        assert!(held.is_some());
        cloud.restart_after(|config| databases::execute_in_api(config, back));
        assert!(cloud.at_rest(server).await);
        assert_eq!(cloud.status(server).await, "SHUTOFF");
        assert_eq!(cloud.look("/ops/v1/summary").await["left_alone"]["operations"], 0);
        assert_eq!(cloud.audit().await, Vec::<String>::new());
    });
}

#[test]
fn an_operation_of_an_unknown_kind_is_left_alone() {
    left_and_finished(
        "UPDATE sagas SET kind = 'teleport' WHERE state = 'running'",
        "UPDATE sagas SET kind = 'stop' WHERE kind = 'teleport'",
        "version 1 of the table of teleport",
    );
}

#[test]
fn an_operation_that_an_earlier_release_parked_goes_on() {
    left_and_finished(
        "UPDATE sagas SET table_version = 99, state = 'needs_operator', error = 'this release knows no version 99' WHERE state = 'running'",
        BACK,
        "version 99 of the table of stop",
    );
}
