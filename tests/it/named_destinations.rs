//! A host that an operator names is the only one that is tried, however the scheduler would weigh it; without a name the next one is tried.

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::live_migration::live;
use crate::stage::{Stage, hosts, play};

const HOME: &str = "cell1-host1";
const WORST: &str = "cell1-host2";

fn three_hosts(config: &mut Config) {
    config.cells.hosts_per_cell = Some(3);
}

async fn at_home(stage: &Stage) -> Uuid {
    stage.create_by(&stage.admin, stage.server().named("one").flavor("m1.tiny").on_host(HOME)).await
}

/// Ends the server, so that the next row begins alone.
async fn end(stage: &Stage, server: Uuid) {
    stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
    stage.gone(server).await;
}

#[test]
fn a_named_host_is_taken_even_if_it_weighs_least() {
    play(three_hosts, |stage| async move {
        stage.make_flavor("large", 1, 8192, 1).await;
        stage.create_by(&stage.admin, stage.server().named("fills").flavor("large").on_host(WORST)).await;
        let rows: [(&str, Value, Value, &str); 3] = [
            ("live", live(None), live(Some(WORST)), "ACTIVE"),
            ("cold", json!({"migrate": null}), json!({"migrate": {"host": WORST}}), "VERIFY_RESIZE"),
            ("evacuate", json!({"evacuate": {}}), json!({"evacuate": {"host": WORST}}), "ACTIVE"),
        ];
        for (name, free, named, status) in rows {
            for (request, expected) in [(free, "cell1-host3"), (named, WORST)] {
                let server = at_home(&stage).await;
                if name == "evacuate" {
                    stage.power(HOME, false).await;
                }
                let answer = stage.admin.act(server, request).await;
                assert!([200, 202].contains(&answer.status), "{name}: {}", answer.text);
                stage.at_rest(server, status).await;
                assert_eq!(stage.holds(server).await, hosts(&[expected]), "{name}");
                if name == "evacuate" {
                    stage.power(HOME, true).await;
                    stage.paid(server).await;
                }
                end(&stage, server).await;
            }
        }
    });
}

#[test]
fn a_named_host_that_refuses_is_the_only_one_tried() {
    play(three_hosts, |stage| async move {
        let named: [(&str, Value); 3] = [
            ("live", live(Some(WORST))),
            ("cold", json!({"migrate": {"host": WORST}})),
            ("evacuate", json!({"evacuate": {"host": WORST}})),
        ];
        for (name, request) in named {
            let server = at_home(&stage).await;
            if name == "evacuate" {
                stage.power(HOME, false).await;
            }
            stage.refuse("claim_at_target");
            let answer = stage.admin.act(server, request).await;
            assert!([200, 202].contains(&answer.status), "{name}: {}", answer.text);
            stage.at_rest(server, "ACTIVE").await;
            stage.disarm();
            if name == "evacuate" {
                stage.power(HOME, true).await;
                stage.paid(server).await;
            }
            assert_eq!(stage.holds(server).await, hosts(&[HOME]), "{name}");
            stage.until("its guest runs", async || stage.runs_on(server).await == hosts(&[HOME])).await;
            end(&stage, server).await;
        }
    });
}

#[test]
fn a_disabled_host_may_be_left_but_not_entered() {
    play(three_hosts, |stage| async move {
        let service = |host: &str| json!({"host": host, "binary": "nova-compute"});
        let turn = async |host: &str, way: &str| {
            stage.admin.speaking("2.11").put(&format!("/os-services/{way}"), service(host)).await.expect(200);
        };
        for (name, request, status) in [("live", live(None), "ACTIVE"), ("cold", json!({"migrate": null}), "VERIFY_RESIZE")] {
            let server = at_home(&stage).await;
            turn(HOME, "disable").await;
            turn(WORST, "disable").await;
            stage.admin.act(server, request).await.expect(202);
            stage.at_rest(server, status).await;
            assert_eq!(stage.holds(server).await, hosts(&["cell1-host3"]), "{name}");
            turn(HOME, "enable").await;
            turn(WORST, "enable").await;
            end(&stage, server).await;
        }
        let server = at_home(&stage).await;
        stage.power(HOME, false).await;
        for request in [json!({"migrate": null}), json!({"resize": {"flavorRef": "m1.small"}})] {
            let answer = stage.admin.act(server, request).await;
            assert_eq!(answer.status, 409, "{}", answer.text);
        }
        stage.power(HOME, true).await;
        stage.until("its guest runs", async || stage.runs_on(server).await == hosts(&[HOME])).await;
    });
}
