//! Unshelve: zones and hosts that a request names, and failures, after which the server is SHELVED_OFFLOADED as before.

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, User, id_of};
use crate::resize_confirm::events;
use crate::shelve::{assert_on_no_host, images_of, shelve};
use crate::stage::{Stage, hosts, play, play_default};

/// Puts cell1-host2 into the zone a2; cell1-host1 stays in the zone cell1.
async fn two_zones(stage: &Stage) {
    let api = &stage.world().api;
    let zone = api.aggregates().await.expect("aggregates").into_iter().find(|one| one.name == "cell1").expect("the zone of cell1");
    api.remove_aggregate_host(zone.id, "cell1-host2").await.expect("it leaves");
    let second = api.create_aggregate(stage.world().env.uuid(), "second", Some("a2")).await.expect("an aggregate");
    api.add_aggregate_host(second.id, "cell1-host2").await.expect("it comes");
}

fn speaking(user: &User) -> User {
    user.speaking("2.96")
}

pub async fn unshelve(stage: &Stage, server: Uuid, request: &Value) -> Answer {
    speaking(&stage.admin).act(server, json!({"unshelve": request})).await
}

/// Makes a server that was booted in this zone, or in none, and shelves it off its host.
async fn shelved(stage: &Stage, zone: Option<&str>) -> Uuid {
    let new = match zone {
        Some(zone) => stage.server().with("availability_zone", json!(zone)),
        None => stage.server(),
    };
    let server = stage.create(new).await;
    shelve(stage, server, "SHELVED_OFFLOADED").await;
    server
}

pub async fn pinned(stage: &Stage, server: Uuid) -> Value {
    speaking(&stage.admin).show(server).await["pinned_availability_zone"].clone()
}

/// The zone at boot, the request, and the end: the hosts that may get the server and its zone from then on; none for 409.
type Row = (Option<&'static str>, Value, Option<(&'static [&'static str], Option<&'static str>)>);

fn rows() -> Vec<Row> {
    const ONE: &[&str] = &["cell1-host1"];
    const TWO: &[&str] = &["cell1-host2"];
    const ANY: &[&str] = &["cell1-host1", "cell1-host2"];
    let (a1, none) = (Some("cell1"), None);
    vec![
        (none, Value::Null, Some((ANY, None))),
        (none, json!({}), Some((ANY, None))),
        (none, json!({"availability_zone": null}), Some((ANY, None))),
        (none, json!({"host": "cell1-host2"}), Some((TWO, None))),
        (none, json!({"availability_zone": null, "host": "cell1-host2"}), Some((TWO, None))),
        (none, json!({"availability_zone": "a2"}), Some((TWO, Some("a2")))),
        (none, json!({"availability_zone": "a2", "host": "cell1-host2"}), Some((TWO, Some("a2")))),
        (none, json!({"availability_zone": "a2", "host": "cell1-host1"}), None),
        (a1, Value::Null, Some((ONE, a1))),
        (a1, json!({"host": "cell1-host1"}), Some((ONE, a1))),
        (a1, json!({"host": "cell1-host2"}), None),
        (a1, json!({"availability_zone": null}), Some((ANY, None))),
        (a1, json!({"availability_zone": null, "host": "cell1-host2"}), Some((TWO, None))),
        (a1, json!({"availability_zone": "a2"}), Some((TWO, Some("a2")))),
        (a1, json!({"availability_zone": "a2", "host": "cell1-host2"}), Some((TWO, Some("a2")))),
        (a1, json!({"availability_zone": "a2", "host": "cell1-host1"}), None),
    ]
}

#[test]
fn zones_and_hosts_are_followed_row_by_row() {
    play_default(|stage| async move {
        two_zones(&stage).await;
        for (zone, request, end) in rows() {
            let server = shelved(&stage, zone).await;
            let answer = unshelve(&stage, server, &request).await;
            let what = format!("{zone:?} {request}: {}", answer.text);
            match end {
                None => {
                    assert_eq!(answer.status, 409, "{what}");
                    stage.at_rest(server, "SHELVED_OFFLOADED").await;
                    assert_eq!(pinned(&stage, server).await, json!(zone), "{what}");
                }
                Some((on, pin)) => {
                    assert_eq!(answer.status, 202, "{what}");
                    let shown = stage.at_rest(server, "ACTIVE").await;
                    let host = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host");
                    assert!(on.contains(&host), "{what} on {host}");
                    let its_zone = if host == "cell1-host2" { "a2" } else { "cell1" };
                    assert_eq!(shown["OS-EXT-AZ:availability_zone"], its_zone, "{what}");
                    assert_eq!(pinned(&stage, server).await, json!(pin), "{what}");
                }
            }
            stage.member.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}

#[test]
fn a_place_that_cannot_be_is_refused_at_once() {
    play(
        |config: &mut Config| config.compute.shelved_offload_time = -1,
        |stage| async move {
            let server = stage.create(stage.server()).await;
            unshelve(&stage, server, &json!({"host": "cell1-host1"})).await.expect(409);
            shelve(&stage, server, "SHELVED").await;
            for request in [json!({"host": "cell1-host1"}), json!({"availability_zone": "cell1"}), json!({"availability_zone": null})] {
                unshelve(&stage, server, &request).await.expect(409);
            }
            stage.admin.act(server, json!({"shelveOffload": null})).await.expect(202);
            stage.at_rest(server, "SHELVED_OFFLOADED").await;
            for request in [
                json!({"host": "nowhere"}),
                json!({"availability_zone": "nowhere"}),
                json!({"availability_zone": 1}),
                json!({"host": null}),
                json!({"zone": "cell1"}),
                json!("cell1"),
            ] {
                let answer = unshelve(&stage, server, &request).await;
                assert_eq!(answer.status, 400, "{request}: {}", answer.text);
            }
            // Only operators name hosts.
            speaking(&stage.member).act(server, json!({"unshelve": {"host": "cell1-host1"}})).await.expect(403);
            stage.admin.speaking("2.77").act(server, json!({"unshelve": {}})).await.expect(400);
            stage.admin.speaking("2.90").act(server, json!({"unshelve": {"availability_zone": null}})).await.expect(400);
            stage.admin.speaking("2.76").act(server, json!({"unshelve": {"anything": "goes"}})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
        },
    );
}

/// Disables the compute service of a host.
pub async fn disable(stage: &Stage, host: &str) {
    let listed = stage.admin.get(&format!("/os-services?binary=nova-compute&host={host}")).await.expect(200).body;
    let path = format!("/os-services/{}", listed["services"][0]["id"].as_str().expect("an id"));
    stage.admin.put(&path, json!({"status": "disabled"})).await.expect(200);
}

/// Checks that the failed unshelve has changed nothing, and returns its events.
pub async fn is_as_before(stage: &Stage, server: Uuid, zone: Option<&str>) -> Vec<(String, String)> {
    stage.at_rest(server, "SHELVED_OFFLOADED").await;
    assert_on_no_host(stage, server).await;
    assert_eq!(pinned(stage, server).await, json!(zone));
    let action = stage.admin.action(server, "unshelve").await;
    assert_eq!(action["message"], "Error", "{action:#}");
    events(&action)
}

#[test]
fn a_named_host_that_does_not_fit_leaves_server_and_zone() {
    play_default(|stage| async move {
        two_zones(&stage).await;
        let server = shelved(&stage, Some("cell1")).await;
        disable(&stage, "cell1-host2").await;
        for request in [json!({"availability_zone": "a2"}), json!({"availability_zone": null, "host": "cell1-host2"})] {
            unshelve(&stage, server, &request).await.expect(202);
            let results = is_as_before(&stage, server, Some("cell1")).await;
            assert!(results.contains(&("schedule_instances".to_owned(), "Error".to_owned())), "{request}: {results:?}");
        }
        unshelve(&stage, server, &Value::Null).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_failure_on_the_host_leaves_the_server_shelved() {
    play_default(|stage| async move {
        let server = shelved(&stage, None).await;
        for step in ["bind_ports_at_target", "prepare_at_target", "take_ownership", "start_at_target"] {
            stage.refuse(step);
            unshelve(&stage, server, &json!({"availability_zone": "cell1"})).await.expect(202);
            is_as_before(&stage, server, None).await;
            stage.disarm();
            assert_eq!(images_of(&stage, server).await.len(), 1, "{step}");
        }
        unshelve(&stage, server, &Value::Null).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_server_whose_image_is_gone_stays_shelved_with_the_reason() {
    play_default(|stage| async move {
        let server = shelved(&stage, None).await;
        let image = id_of(&images_of(&stage, server).await[0]);
        stage.member.delete(&format!("/image/v2/images/{image}")).await.expect(204);
        unshelve(&stage, server, &Value::Null).await.expect(202);
        let results = is_as_before(&stage, server, None).await;
        assert_eq!(results, [("get_image_info".to_owned(), "Error".to_owned())]);
        let action = stage.admin.speaking("2.84").action(server, "unshelve").await;
        assert!(action.to_string().contains("could not be found"), "{action:#}");
    });
}

#[test]
fn an_unshelve_needs_room_in_the_quota() {
    play(
        |config: &mut Config| {
            config.quota.count_usage_from_placement = true;
            config.quota.cores = 2;
        },
        |stage| async move {
            stage.make_flavor("two", 2, 64, 1).await;
            let server = stage.create(stage.server().flavor("two")).await;
            shelve(&stage, server, "SHELVED_OFFLOADED").await;
            let other = stage.create(stage.server().named("other").flavor("two")).await;
            let answer = stage.member.act(server, json!({"unshelve": null})).await;
            assert_eq!(answer.status, 403, "{}", answer.text);
            stage.at_rest(server, "SHELVED_OFFLOADED").await;
            stage.member.delete(&format!("/servers/{other}")).await.expect(204);
            stage.gone(other).await;
            stage.member.act(server, json!({"unshelve": null})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
        },
    );
}

#[test]
fn a_host_that_is_down_gets_no_server() {
    play_default(|stage| async move {
        let server = shelved(&stage, None).await;
        stage.power("cell1-host1", false).await;
        unshelve(&stage, server, &Value::Null).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host2"]));
        stage.power("cell1-host1", true).await;
    });
}
