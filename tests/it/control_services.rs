//! Conductors and schedulers as operators see them: in `os-services` and in the zone `internal`, with the state that they report.

use cellshift::config::{Config, Seconds};
use serde_json::{Value, json};

use crate::chaos_api::{enabled, inject};
use crate::stage::{Stage, play};

const BINARIES: [&str; 2] = ["nova-conductor", "nova-scheduler"];

fn reporting_often(config: &mut Config) {
    enabled(config);
    config.conductor.workers = 2;
    config.compute.heartbeat = Seconds::millis(50);
    config.compute.service_down_time = Seconds::whole(2);
}

async fn listed(stage: &Stage, binary: &str) -> Vec<Value> {
    let body = stage.admin.get(&format!("/os-services?binary={binary}")).await.expect(200).body;
    body["services"].as_array().expect("services").clone()
}

/// Waits until the only service of this binary has this state, and returns it.
async fn in_state(stage: &Stage, binary: &str, state: &str) -> Value {
    let is = async || matches!(listed(stage, binary).await.as_slice(), [service] if service["state"] == state);
    stage.until(&format!("{binary} is {state}"), is).await;
    listed(stage, binary).await.remove(0)
}

#[test]
fn conductors_and_the_scheduler_live_in_the_zone_internal() {
    play(reporting_often, |stage| async move {
        for binary in BINARIES {
            let service = in_state(&stage, binary, "up").await;
            assert_eq!((&service["zone"], &service["status"]), (&json!("internal"), &json!("enabled")), "{service}");
            assert_eq!(service["host"], stage.running.cloud.controller.as_str(), "the conductors of one process are one service");
            let host = service["host"].as_str().expect("a host");
            let detail = stage.admin.get("/os-availability-zone/detail").await.expect(200).body;
            let zones = detail["availabilityZoneInfo"].as_array().expect("zones");
            let internal = zones.iter().find(|zone| zone["zoneName"] == "internal").expect("the zone internal");
            let service = &internal["hosts"][host][binary];
            assert_eq!((&service["active"], service["updated_at"].is_string()), (&json!(true), true), "{internal}");
        }
        let zones = stage.member.get("/os-availability-zone").await.expect(200).body;
        assert!(!zones.to_string().contains("internal"), "no zone to create servers in: {zones}");
    });
}

#[test]
fn only_compute_services_are_enabled_and_disabled() {
    play(reporting_often, |stage| async move {
        for binary in BINARIES {
            let service = in_state(&stage, binary, "up").await;
            let path = format!("/os-services/{}", service["id"].as_str().expect("an id"));
            let body = json!({"status": "disabled", "disabled_reason": "being looked at"});
            let refused = stage.admin.put(&path, body).await.expect(400);
            assert!(refused.message().contains("Only nova-compute services can be updated"), "{}", refused.message());
            let by_name = json!({"host": service["host"], "binary": binary});
            for action in ["enable", "disable"] {
                stage.admin.speaking("2.52").put(&format!("/os-services/{action}"), by_name.clone()).await.expect(400);
            }
            assert_eq!(in_state(&stage, binary, "up").await["status"], "enabled");
        }
    });
}

#[test]
fn a_scheduler_that_stands_still_is_down_until_it_goes_on() {
    play(reporting_often, |stage| async move {
        in_state(&stage, "nova-scheduler", "up").await;
        let pause = inject(&stage, json!({"pause": {"actor": "scheduler", "for_ms": 600_000}})).await;
        let silent = in_state(&stage, "nova-scheduler", "down").await;
        let later = in_state(&stage, "nova-scheduler", "down").await;
        assert_eq!(later["updated_at"], silent["updated_at"], "nobody reports in its place");
        stage.admin.delete(&format!("/ops/v1/chaos/faults/{pause}")).await.expect(204);
        let back = in_state(&stage, "nova-scheduler", "up").await;
        assert!(back["updated_at"].as_str() > silent["updated_at"].as_str(), "{back}");
        assert_eq!(back["id"], silent["id"], "it is the same service");
    });
}

#[test]
fn the_service_of_a_process_that_is_gone_can_be_removed() {
    play(reporting_often, |stage| async move {
        let service = in_state(&stage, "nova-conductor", "up").await;
        let mut old = stage.cell("cell0").services().await.expect("services").remove(0);
        (old.host, old.uuid) = ("a-process-that-is-gone".to_owned(), stage.world().env.uuid());
        let binary = old.binary.clone();
        let record = cellshift::db::cell::CellTxn::new().service_reports(old);
        stage.cell("cell0").apply_unfenced(record).await.expect("it is recorded");
        let id_of = async || {
            let all = listed(&stage, &binary).await;
            all.iter().find(|service| service["host"] == "a-process-that-is-gone").map(|gone| gone["id"].as_str().unwrap().to_owned())
        };
        let gone = id_of().await.expect("it is listed beside the one that lives");
        stage.admin.delete(&format!("/os-services/{gone}")).await.expect(204);
        assert_eq!(id_of().await, None);
        assert_eq!(in_state(&stage, "nova-conductor", "up").await["id"], service["id"]);
    });
}
