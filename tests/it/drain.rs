//! Drains over HTTP: all servers leave a host or a cell, alive or cold, and the drain says who could not and why.

use std::collections::BTreeMap;

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cloud::add_policy;
use crate::stage::{Stage, hosts, play, play_default};

/// The reason of a server that has left by an earlier move.
const WAITS: &str = "its move waits for confirm or revert";

/// Begins a drain, and returns its id.
pub async fn begun(stage: &Stage, body: Value) -> String {
    stage.admin.post("/ops/v1/drains", body).await.expect(202).body["id"].as_str().expect("an id").to_owned()
}

/// Returns the drain as operators see it.
pub async fn shown(stage: &Stage, drain: &str) -> Value {
    stage.admin.get(&format!("/ops/v1/drains/{drain}")).await.expect(200).body
}

/// Waits until the drain is done, and returns its servers.
pub async fn done(stage: &Stage, drain: &str) -> BTreeMap<Uuid, Value> {
    stage.until("the drain is done", || async { shown(stage, drain).await["state"] == "done" }).await;
    let servers = stage.admin.get(&format!("/ops/v1/drains/{drain}/servers")).await.expect(200).body["servers"].clone();
    let servers = servers.as_array().expect("servers").iter();
    servers.map(|server| (server["server"].as_str().expect("an id").parse().expect("an id"), server.clone())).collect()
}

pub async fn service_of(stage: &Stage, host: &str) -> Value {
    let path = format!("/os-services?binary=nova-compute&host={host}");
    stage.admin.get(&path).await.expect(200).body["services"][0].clone()
}

/// Makes a stopped server on cell1-host1, with a flavor for any host.
async fn stopped_at_home(stage: &Stage) -> Uuid {
    let server = stage.at_home().await;
    stage.stop(&stage.admin, server).await;
    server
}

#[test]
fn a_host_is_drained_and_the_drain_says_who_stays_and_why() {
    play_default(|stage| async move {
        let (active, stopped, locked) = (stage.at_home().await, stopped_at_home(&stage).await, stage.at_home().await);
        stage.admin.act(locked, json!({"lock": {"locked_reason": "do not touch"}})).await.expect(202);
        let drain = begun(&stage, json!({"host": "cell1-host1", "confirm": true})).await;
        let servers = done(&stage, &drain).await;
        assert_eq!((&servers[&active]["state"], &servers[&active]["kind"]), (&json!("moved"), &json!("live")), "{servers:#?}");
        assert_eq!((&servers[&stopped]["state"], &servers[&stopped]["kind"]), (&json!("moved"), &json!("cold")));
        assert_eq!(servers[&stopped]["reason"], Value::Null, "its move is confirmed");
        assert_eq!((&servers[&locked]["state"], &servers[&locked]["tries"]), (&json!("refused"), &json!(3)));
        assert_eq!(servers[&locked]["reason"], "the server is locked: do not touch");

        assert_eq!(stage.at_rest(active, "ACTIVE").await["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        assert_eq!(stage.at_rest(stopped, "SHUTOFF").await["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        assert_eq!(stage.runs_on(locked).await, hosts(&["cell1-host1"]));
        let service = service_of(&stage, "cell1-host1").await;
        assert_eq!(service["status"], "disabled", "{service:#}");
        assert_eq!(service["disabled_reason"], format!("drained by drain {drain}"));
        let counts = shown(&stage, &drain).await["servers"].clone();
        assert_eq!(counts, json!({"pending": 0, "moving": 0, "moved": 2, "refused": 1, "gone": 0}));

        stage.admin.act(locked, json!({"unlock": null})).await.expect(202);
        let again = begun(&stage, json!({"host": "cell1-host1", "to_zone": "cell1"})).await;
        let servers = done(&stage, &again).await;
        assert_eq!(servers.keys().collect::<Vec<_>>(), [&locked]);
        assert_eq!(stage.at_rest(locked, "ACTIVE").await["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        assert_eq!(service_of(&stage, "cell1-host1").await["disabled_reason"], service["disabled_reason"], "the first reason is kept");
    });
}

#[test]
fn a_dry_run_tells_where_servers_could_go_and_starts_nothing() {
    play_default(|stage| async move {
        let (active, stopped, locked) = (stage.at_home().await, stopped_at_home(&stage).await, stage.at_home().await);
        let bound = stage.create_by(&stage.admin, stage.server().on_host("cell1-host1")).await;
        stage.admin.act(locked, json!({"lock": null})).await.expect(202);
        let kinds = |answer: &Value| -> BTreeMap<String, Value> {
            let servers = answer["servers"].as_array().expect("servers").iter();
            servers.map(|server| (server["server"].as_str().expect("an id").to_owned(), server.clone())).collect()
        };
        let plan = stage.admin.post("/ops/v1/drains", json!({"host": "cell1-host1", "dry_run": true})).await.expect(200).body;
        let near = kinds(&plan);
        assert_eq!((&near[&active.to_string()]["kind"], &near[&active.to_string()]["target"]), (&json!("live"), &json!("cell1-host2")));
        assert_eq!(near[&stopped.to_string()]["kind"], "cold");
        assert_eq!(
            (&near[&locked.to_string()]["kind"], &near[&locked.to_string()]["reason"]),
            (&Value::Null, &json!("the server is locked"))
        );

        let body = json!({"cell": "cell1", "to_cell": "cell2", "dry_run": true});
        let far = kinds(&stage.admin.post("/ops/v1/drains", body).await.expect(200).body);
        assert_eq!((&far[&active.to_string()]["kind"], &far[&active.to_string()]["cell"]), (&json!("cold"), &json!("cell2")));
        let why = far[&bound.to_string()]["reason"].as_str().expect("a reason");
        assert!(why.contains("(cell2-host1)") || why.contains("(2 hosts)"), "its hardware is only in cell1: {why}");
        let body = json!({"cell": "cell1", "to_cell": "cell2", "dry_run": true, "flavor_map": {"gen1.small": "gen2.small"}});
        let mapped = kinds(&stage.admin.post("/ops/v1/drains", body).await.expect(200).body);
        assert_eq!(mapped[&bound.to_string()]["flavor"], "gen2.small");

        assert_eq!(stage.admin.get("/ops/v1/drains").await.expect(200).body, json!({"drains": []}));
        assert_eq!(service_of(&stage, "cell1-host1").await["status"], "enabled");
        for server in [active, stopped, locked, bound] {
            assert_eq!(stage.record("cell1", server).await.expect("a record").host.as_deref(), Some("cell1-host1"));
        }
    });
}

#[test]
fn a_cell_is_drained_to_another_with_new_flavors_and_confirmed() {
    play_default(|stage| async move {
        let mapped = stage.create(stage.server()).await;
        let (active, stopped) = (stage.at_home().await, stopped_at_home(&stage).await);
        let waiting = stage.at_home().await;
        stage.admin.migrate(waiting, None).await.expect(202);
        stage.at_rest(waiting, "VERIFY_RESIZE").await;
        let map = json!({"gen1.small": "gen2.small"});
        let drain = begun(&stage, json!({"cell": "cell1", "to_cell": "cell2", "flavor_map": map, "confirm": true})).await;
        let servers = done(&stage, &drain).await;
        for (server, status) in [(mapped, "ACTIVE"), (active, "ACTIVE"), (stopped, "SHUTOFF")] {
            assert_eq!((&servers[&server]["state"], &servers[&server]["kind"]), (&json!("moved"), &json!("cold")), "{servers:#?}");
            let host = stage.at_rest(server, status).await["OS-EXT-SRV-ATTR:host"].clone();
            assert!(host.as_str().expect("a host").starts_with("cell2"), "{host}");
            assert!(stage.record("cell1", server).await.is_none(), "confirmed: nothing is left in the old cell");
        }
        assert_eq!(stage.record("cell2", mapped).await.expect("a record").flavor.name, "gen2.small");
        assert_eq!(stage.record("cell2", active).await.expect("a record").flavor.name, "m1.tiny");
        let left = stage.at_rest(waiting, "ACTIVE").await["OS-EXT-SRV-ATTR:host"].clone();
        assert!(left.as_str().expect("a host").starts_with("cell2"), "its move was confirmed, and then it left: {left}");
        for host in ["cell1-host1", "cell1-host2"] {
            assert_eq!(service_of(&stage, host).await["status"], "disabled");
        }
    });
}

/// Moves two servers off cell1-host1, within its cell and to the other, and one onto it. All wait for confirm or revert.
async fn left_and_came(stage: &Stage) -> [Uuid; 3] {
    let far = stage.create_by(&stage.admin, stage.server().on_host("cell1-host1")).await;
    let (near, came) = (stage.at_home().await, stage.at_home().await);
    stage.admin.act(came, json!({"os-migrateLive": {"host": "cell1-host2", "block_migration": "auto"}})).await.expect(202);
    stage.at_rest(came, "ACTIVE").await;
    stage.admin.resize(far, "gen2.small").await.expect(202);
    stage.at_rest(far, "VERIFY_RESIZE").await;
    for (server, host) in [(near, "cell1-host2"), (came, "cell1-host1")] {
        stage.admin.migrate(server, Some(host)).await.expect(202);
        assert_eq!(stage.at_rest(server, "VERIFY_RESIZE").await["OS-EXT-SRV-ATTR:host"], host);
    }
    [near, far, came]
}

#[test]
fn a_drain_tells_of_moves_that_wait_and_confirms_them_if_asked() {
    play_default(|stage| async move {
        let [near, far, came] = left_and_came(&stage).await;
        let body = |confirm: bool, dry_run: bool| json!({"host": "cell1-host1", "confirm": confirm, "dry_run": dry_run});
        let tried = stage.admin.post("/ops/v1/drains", body(false, true)).await.expect(200).body;
        let waits = tried["servers"].as_array().expect("servers").iter().filter(|one| one["reason"] == WAITS);
        assert_eq!(waits.map(|one| &one["server"]).collect::<Vec<_>>(), [&json!(near), &json!(far)], "newest first: {tried:#}");

        let drain = begun(&stage, json!({"host": "cell1-host1"})).await;
        let servers = done(&stage, &drain).await;
        for (server, host) in [(near, "cell1-host2"), (far, "cell2-host")] {
            assert_eq!((&servers[&server]["state"], &servers[&server]["reason"]), (&json!("gone"), &json!(WAITS)), "{servers:#?}");
            assert!(servers[&server]["target"].as_str().expect("a host").starts_with(host));
            stage.at_rest(server, "VERIFY_RESIZE").await;
        }
        assert_eq!(servers[&came]["state"], "refused");
        assert_eq!(servers[&came]["reason"], "the server waits for the confirm or the revert of an earlier move");

        let tried = stage.admin.post("/ops/v1/drains", body(true, true)).await.expect(200).body;
        let confirms = tried["servers"].as_array().expect("servers").iter().filter(|one| one["kind"] == "confirm").count();
        assert_eq!(confirms, 2, "{tried:#}");
        let servers = done(&stage, &begun(&stage, body(true, false)).await).await;
        for server in [near, far, came] {
            assert_eq!((&servers[&server]["state"], &servers[&server]["reason"]), (&json!("moved"), &Value::Null), "{servers:#?}");
            stage.at_rest(server, "ACTIVE").await;
            assert!(!stage.holds(server).await.contains("cell1-host1"), "nothing is kept there");
        }
    });
}

#[test]
fn policy_decides_whether_a_drain_confirms_the_moves_of_others() {
    let confined = |config: &mut Config| add_policy(config, "\"os_compute_api:servers:confirm_resize\": \"!\"\n");
    play(confined, |stage| async move {
        let server = stage.at_home().await;
        stage.admin.migrate(server, None).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        let servers = done(&stage, &begun(&stage, json!({"host": "cell1-host1", "confirm": true})).await).await;
        assert_eq!((&servers[&server]["state"], &servers[&server]["reason"]), (&json!("gone"), &json!(WAITS)), "{servers:#?}");
        stage.at_rest(server, "VERIFY_RESIZE").await;
    });
}

#[test]
fn a_paused_drain_begins_no_moves_until_it_is_resumed() {
    play_default(|stage| async move {
        let mut servers = Vec::new();
        for _ in 0..4 {
            servers.push(stage.at_home().await);
        }
        let drain = begun(&stage, json!({"host": "cell1-host1", "max_in_flight": 1})).await;
        let act = |verb: &str| format!("/ops/v1/drains/{drain}/{verb}");
        let count = |state: &'static str| {
            let (stage, drain) = (&stage, &drain);
            async move { shown(stage, drain).await["servers"][state].as_i64().expect("a number") }
        };
        stage.until("one has moved", || async { count("moved").await > 0 }).await;
        let paused = stage.admin.post(&act("pause"), json!({})).await.expect(200).body;
        assert_eq!(paused["state"], "paused");
        stage.admin.post(&act("pause"), json!({})).await.expect(409);
        stage.until("nothing is in flight", || async { count("moving").await == 0 }).await;
        assert!(count("pending").await > 0, "some wait");
        stage.admin.post(&act("resume"), json!({})).await.expect(200);
        let ended = done(&stage, &drain).await;
        assert!(ended.values().all(|server| server["state"] == "moved"), "{ended:#?}");
        for server in servers {
            assert_eq!(stage.at_rest(server, "ACTIVE").await["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        }
        let answer = stage.admin.post(&act("cancel"), json!({})).await.expect(409);
        assert!(answer.message().contains("is done"), "{}", answer.text);
    });
}

#[test]
fn of_two_drains_of_one_host_the_second_is_refused() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.admin.act(server, json!({"lock": null})).await.expect(202);
        let drain = begun(&stage, json!({"host": "cell1-host1"})).await;
        stage.admin.post(&format!("/ops/v1/drains/{drain}/pause"), json!({})).await.expect(200);
        for second in [json!({"host": "cell1-host1", "to_cell": "cell2"}), json!({"cell": "cell1", "to_cell": "cell2"})] {
            let answer = stage.admin.post("/ops/v1/drains", second).await.expect(409);
            assert!(answer.message().contains(&drain), "{}", answer.text);
        }
        let cancelled = stage.admin.post(&format!("/ops/v1/drains/{drain}/cancel"), json!({})).await.expect(200).body;
        assert_eq!(cancelled["state"], "cancelled");
        stage.admin.post(&format!("/ops/v1/drains/{drain}/resume"), json!({})).await.expect(409);
        let other = begun(&stage, json!({"host": "cell1-host1"})).await;
        assert_eq!(done(&stage, &other).await[&server]["state"], "refused");
        let page = stage.admin.get("/ops/v1/drains?limit=1").await.expect(200).body;
        assert_eq!(page["drains"][0]["id"], other);
        let next = page["drains_links"][0]["href"].as_str().expect("a link");
        let rest = stage.admin.get(&next[next.find("/ops").expect("a path")..]).await.expect(200).body;
        assert_eq!(rest["drains"][0]["id"], drain);
    });
}

#[test]
fn a_drain_of_what_is_not_there_is_refused_in_clear_words() {
    play_default(|stage| async move {
        let wrong = [
            (json!({"host": "nowhere"}), "Compute host nowhere could not be found."),
            (json!({"cell": "cell9", "to_cell": "cell1"}), "Cell cell9 could not be found."),
            (json!({"cell": "cell0", "to_cell": "cell1"}), "Cell cell0 could not be found."),
            (json!({"host": "cell1-host1", "to_cell": "cell9"}), "Cell cell9 could not be found."),
            (json!({"host": "cell1-host1", "to_zone": "moon"}), "availability zone moon is not available"),
            (json!({"host": "cell1-host1", "flavor_map": {"huge": "m1.tiny"}}), "Flavor huge could not be found."),
            (json!({"host": "cell1-host1", "flavor_map": {"m1.tiny": "m1.tiny"}}), "mapped to itself"),
            (json!({"cell": "cell1", "to_cell": "cell1"}), "Cell cell1 cannot be drained to itself."),
            (json!({"cell": "cell1"}), "needs a destination"),
            (json!({"host": "cell1-host1", "cell": "cell1"}), "either a host or a cell"),
            (json!({}), "either a host or a cell"),
            (json!({"host": "cell1-host1", "to_cell": "cell2", "to_zone": "cell2"}), "one destination"),
            (json!({"host": "cell1-host1", "max_in_flight": 0}), "max_in_flight"),
            (json!({"host": "cell1-host1", "max_in_flight": 65}), "max_in_flight"),
            (json!({"host": "cell1-host1", "colour": "red"}), "colour"),
        ];
        for (body, part) in wrong {
            let answer = stage.admin.post("/ops/v1/drains", body.clone()).await.expect(400);
            assert!(answer.message().contains(part), "{body}: {}", answer.text);
        }
        let unknown = "/ops/v1/drains/00000000-0000-0000-0000-000000000001";
        stage.admin.get(unknown).await.expect(404);
        stage.admin.get(&format!("{unknown}/servers")).await.expect(404);
        stage.admin.get("/ops/v1/drains/nonsense").await.expect(404);
        stage.admin.get("/ops/v1/drains?marker=00000000-0000-0000-0000-000000000001").await.expect(400);
        let drain = begun(&stage, json!({"host": "cell2-host1"})).await;
        done(&stage, &drain).await;
        let answer = stage.admin.get(&format!("/ops/v1/drains/{drain}/servers?state=happy")).await.expect(400);
        assert!(answer.message().contains("refused"), "{}", answer.text);
    });
}
