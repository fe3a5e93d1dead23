//! Request specs outlive moves: whatever the move and its end, hints, zone, group and flavor are the original ones, byte for byte, and no
//! later move is tied to an earlier destination.

use std::collections::BTreeMap;

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::id_of;
use crate::group_rules::{make_group, shelved};
use crate::live_migration::live;
use crate::stage::{Stage, hosts, play, play_default};

const HOME: &str = "cell1-host1";
const THERE: &str = "cell1-host2";

/// Returns the stored spec's bytes.
async fn stored(stage: &Stage, server: Uuid) -> String {
    let spec = stage.world().api.request_spec(server).await.expect("a spec");
    serde_json::to_string(&spec).expect("JSON")
}

/// The requests of a server, one after the other: microversion, body, and the status at the end.
type Story = (&'static str, &'static [(&'static str, fn() -> Value, &'static str)]);

const CONFIRM: (&str, fn() -> Value, &str) = ("2.90", || json!({"confirmResize": null}), "ACTIVE");
const REVERT: (&str, fn() -> Value, &str) = ("2.90", || json!({"revertResize": null}), "ACTIVE");

fn migrate(host: &str) -> Value {
    json!({"migrate": {"host": host}})
}

fn force_live(host: &str) -> Value {
    json!({"os-migrateLive": {"host": host, "block_migration": "auto", "force": true}})
}

const STORIES: &[Story] = &[
    (
        "cold, confirmed",
        &[("2.90", || migrate(THERE), "VERIFY_RESIZE"), CONFIRM, ("2.90", || json!({"migrate": null}), "VERIFY_RESIZE"), REVERT],
    ),
    ("resized and reverted", &[("2.90", || json!({"resize": {"flavorRef": "gen1.large"}}), "VERIFY_RESIZE"), REVERT]),
    (
        "across cells",
        &[("2.90", || migrate("cell2-host1"), "VERIFY_RESIZE"), CONFIRM, ("2.90", || migrate(THERE), "VERIFY_RESIZE"), REVERT],
    ),
    ("live", &[("2.90", || live(None), "ACTIVE"), ("2.90", || live(Some(HOME)), "ACTIVE"), ("2.90", || live(Some(HOME)), "ACTIVE")]),
    ("forced", &[("2.60", || force_live(THERE), "ACTIVE"), ("2.25", || live(Some(HOME)), "ACTIVE")]),
    ("shelved", &[("2.91", || json!({"shelve": null}), "SHELVED_OFFLOADED"), ("2.91", || json!({"unshelve": {"host": THERE}}), "ACTIVE")]),
    ("to no host", &[("2.90", || migrate(HOME), "ACTIVE"), ("2.60", || force_live(HOME), "ACTIVE")]),
];

/// Makes a server with all that a spec may say.
async fn with_wishes(stage: &Stage, zone: Option<&str>) -> Uuid {
    let group = make_group(&stage.admin, "soft-anti-affinity", None).await;
    let other = stage.create_by(&stage.admin, stage.server().named("other").flavor("m1.tiny").on_host("cell2-host2")).await;
    let hints = json!({"group": group, "different_host": [other], "mine": "is kept"});
    let mut new = stage.server().flavor("m1.tiny").hinting(hints);
    new = match zone {
        Some(zone) => new.with("availability_zone", json!(format!("{zone}:{HOME}"))),
        None => new.on_host(HOME),
    };
    stage.create_by(&stage.admin, new).await
}

#[test]
fn specs_are_equal_byte_for_byte_after_every_move() {
    play_default(|stage| async move {
        for (name, requests) in STORIES {
            let zone = (*name != "across cells").then_some("cell1");
            let server = with_wishes(&stage, zone).await;
            let before = stored(&stage, server).await;
            assert!(before.contains("is kept") && !before.contains(HOME), "{name}: {before}");
            for (version, request, status) in *requests {
                let answer = stage.admin.speaking(version).act(server, request()).await;
                assert!(answer.status < 500, "{name}: {}", answer.text);
                stage.at_rest(server, status).await;
                if *status != "VERIFY_RESIZE" {
                    assert_eq!(stored(&stage, server).await, before, "{name}");
                }
            }
            stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}

#[test]
fn specs_are_equal_after_evacuations() {
    play_default(|stage| async move {
        let bodies: [(&str, Value); 3] =
            [("2.90", json!({})), ("2.90", json!({"host": THERE})), ("2.60", json!({"host": THERE, "force": true}))];
        for (version, body) in bodies {
            let server = with_wishes(&stage, Some("cell1")).await;
            let before = stored(&stage, server).await;
            stage.power(HOME, false).await;
            stage.admin.speaking(version).act(server, json!({ "evacuate": body })).await.expect(200);
            stage.at_rest(server, "ACTIVE").await;
            stage.power(HOME, true).await;
            stage.paid(server).await;
            assert_eq!(stage.holds(server).await, hosts(&[THERE]));
            assert_eq!(stored(&stage, server).await, before, "{body}");
            stage.admin.act(server, live(None)).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.holds(server).await, hosts(&[HOME]), "no later move is tied to the earlier destination");
            assert_eq!(stored(&stage, server).await, before);
            stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}

/// Makes a server on a named host, by `host` or by the zone's name.
async fn placed_by_name(stage: &Stage, by_zone: bool) -> Uuid {
    let new = stage.server().flavor("m1.tiny");
    let new = if by_zone { new.with("availability_zone", json!(format!("cell1:{HOME}"))) } else { new.on_host(HOME) };
    let server = stage.create_by(&stage.admin, new).await;
    assert_eq!(stage.holds(server).await, hosts(&[HOME]));
    server
}

#[test]
fn a_server_that_was_created_on_a_host_moves_freely() {
    play_default(|stage| async move {
        for by_zone in [false, true] {
            let moves: BTreeMap<&str, (Value, &str)> = BTreeMap::from([
                ("cold", (json!({"migrate": null}), "VERIFY_RESIZE")),
                ("resize", (json!({"resize": {"flavorRef": "gen1.large"}}), "VERIFY_RESIZE")),
                ("live", (live(None), "ACTIVE")),
                ("evacuate", (json!({"evacuate": {}}), "ACTIVE")),
                ("unshelve", (json!({"unshelve": null}), "ACTIVE")),
            ]);
            for (name, (request, status)) in moves {
                let server = placed_by_name(&stage, by_zone).await;
                if name == "unshelve" {
                    shelved(&stage, server).await;
                    disable(&stage, HOME, true).await;
                }
                if name == "evacuate" {
                    stage.power(HOME, false).await;
                }
                stage.admin.act(server, request).await;
                stage.at_rest(server, status).await;
                if name == "evacuate" {
                    stage.power(HOME, true).await;
                    stage.paid(server).await;
                }
                disable(&stage, HOME, false).await;
                let held = stage.holds(server).await;
                assert!(held != hosts(&[HOME]) && held.len() == 1, "{name}: {held:?}");
                assert!(!by_zone || held == hosts(&[THERE]), "{name}: the zone holds: {held:?}");
                stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
                stage.gone(server).await;
            }
        }
    });
}

/// Nova's bug 1718455: a later move must not look for room for all of them.
#[test]
fn servers_made_together_move_one_at_a_time() {
    let for_two = |config: &mut Config| config.compute.memory_mb = 1024;
    play(for_two, |stage| async move {
        let two = stage.server().flavor("m1.tiny").on_host(HOME).with("min_count", json!(2));
        stage.create_by(&stage.admin, two).await;
        let shown = stage.admin.get("/servers").await.expect(200).body;
        let servers: Vec<Uuid> = shown["servers"].as_array().expect("servers").iter().map(id_of).collect();
        assert_eq!(servers.len(), 2);
        for server in &servers {
            stage.at_rest(*server, "ACTIVE").await;
        }
        // A host has room for two, so the other host has room for one more.
        stage.create_by(&stage.admin, stage.server().flavor("m1.tiny").on_host(THERE)).await;
        stage.admin.act(servers[0], live(None)).await.expect(202);
        stage.at_rest(servers[0], "ACTIVE").await;
        assert_eq!((stage.holds(servers[0]).await, stage.holds(servers[1]).await), (hosts(&[THERE]), hosts(&[HOME])));
    });
}

async fn disable(stage: &Stage, host: &str, disabled: bool) {
    let action = if disabled { "disable" } else { "enable" };
    let service = json!({"host": host, "binary": "nova-compute"});
    stage.admin.speaking("2.11").put(&format!("/os-services/{action}"), service).await.expect(200);
}
