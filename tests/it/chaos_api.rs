//! Chaos in a running service (`/ops/v1/chaos`): the rights, the effects on actors, cells and moves, and the notifications.

use cellshift::config::Seconds;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{PATIENCE, User};
use crate::stage::{Stage, play, play_default};

const ACTORS: &str = "/ops/v1/chaos/actors";
const FAULTS: &str = "/ops/v1/chaos/faults";
const EXPERIMENT: &str = "/ops/v1/chaos/experiment";
const SHIPPED: &str = "/ops/v1/chaos/experiments";

pub fn enabled(config: &mut cellshift::config::Config) {
    config.chaos.enabled = true;
    config.cells.probe_interval = Seconds::millis(100);
}

async fn actor(stage: &Stage, name: &str) -> Value {
    let body = stage.admin.get(ACTORS).await.expect(200).body;
    let actors = body["actors"].as_array().expect("actors");
    actors.iter().find(|actor| actor["name"] == name).unwrap_or_else(|| panic!("no {name} in {body:#}")).clone()
}

pub async fn inject(stage: &Stage, what: Value) -> Uuid {
    let body = stage.admin.post(FAULTS, json!({ "fault": what })).await.expect(202).body;
    body["fault"]["id"].as_str().and_then(|id| Uuid::parse_str(id).ok()).unwrap_or_else(|| panic!("no id in {body}"))
}

/// Waits until the notifications have this event of the fault.
async fn until_event(user: &User, fault: Uuid, event: &str) {
    let mut after = 0;
    let reading = async {
        loop {
            for (id, notification) in user.events("/ops/v1/notifications", after, 1).await {
                after = id;
                if notification["event_type"] == event && notification.to_string().contains(&fault.to_string()) {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("no {event} of {fault}"));
}

#[test]
fn the_api_does_not_exist_unless_it_is_enabled() {
    play_default(|stage| async move {
        for path in [ACTORS, FAULTS, EXPERIMENT, SHIPPED] {
            stage.admin.get(path).await.expect(404);
        }
        stage.admin.post(FAULTS, json!({"fault": {"kill": {"actor": "conductor"}}})).await.expect(404);
        stage.admin.delete(EXPERIMENT).await.expect(404);
    });
}

#[test]
fn only_those_whom_the_policy_allows_may() {
    play(enabled, |stage| async move {
        for path in [ACTORS, FAULTS, EXPERIMENT, SHIPPED] {
            stage.member.get(path).await.expect(403);
        }
        stage.member.post(FAULTS, json!({"fault": {"kill": {"actor": "conductor"}}})).await.expect(403);
        stage.member.delete(EXPERIMENT).await.expect(403);
        assert!(stage.admin.get(EXPERIMENT).await.expect(404).message().contains("No experiment"));
        assert_eq!(actor(&stage, "conductor").await["restarts"], 0);
    });
}

#[test]
fn an_impossible_fault_is_refused_with_the_possible_ones() {
    play(enabled, |stage| async move {
        for (fault, status, part) in [
            (json!({"kill": {"actor": "nobody"}}), 409, "no actor nobody"),
            (json!({"host_crash": {"host": "h9"}}), 409, "no host h9"),
            (json!({"database": {"name": "cell9", "outage": "refuses"}}), 409, "no database cell9"),
            (json!({"step": "refuse"}), 400, "load an experiment"),
            (json!("restart"), 400, "kill its process"),
            (json!({"clock": {"ms": 5}}), 400, "clock"),
            (json!({"explode": {}}), 400, "unknown variant `explode`"),
        ] {
            let answer = stage.admin.post(FAULTS, json!({ "fault": fault })).await.expect(status);
            assert!(answer.message().contains(part), "{}", answer.text);
        }
        for (experiment, part) in [
            (json!({"colour": 1}), "unknown field `colour`"),
            (json!({"faults": [{"when": {"at_ms": 1}, "what": "restart"}]}), "faults[0].what"),
            (json!({"faults": [{"when": {"step": "no"}, "what": {"step": "refuse"}}]}), "prepare_at_target"),
            (json!({"faults": [{"when": {"at_ms": 1}, "what": {"host_crash": {"host": "cell3-host1"}}}]}), "cell2-host2"),
            (json!({"abort": {"violations": 1}}), "after_seconds"),
        ] {
            let answer = stage.admin.post(EXPERIMENT, json!({ "experiment": experiment })).await.expect(400);
            assert!(answer.message().contains(part), "{}", answer.text);
        }
    });
}

#[test]
fn killed_actors_come_back_and_a_move_goes_on() {
    play(enabled, |stage| async move {
        let server = stage.create(stage.server()).await;
        let mut faults = Vec::new();
        for name in ["scheduler", "periodic", "cell1", "hosts/cell1", "cell2/cell2-host2", "conductor"] {
            if name == "conductor" {
                stage.member.resize(server, "gen2.small").await.expect(202);
            }
            faults.push(inject(&stage, json!({"kill": {"actor": name}})).await);
            let back = async || {
                let actor = actor(&stage, name).await;
                actor["restarts"] == 1 && actor["alive"] == true
            };
            stage.until("the actor is back", back).await;
            let up = async || stage.running.tree.cells.iter().all(|cell| cell.hosts.hosts().iter().all(|(_, alive)| *alive));
            stage.until("every host takes requests", up).await;
        }
        stage.at_rest(server, "VERIFY_RESIZE").await;
        let host = actor(&stage, "cell2/cell2-host1").await;
        assert_eq!((&host["restarts"], &host["in_flight"]), (&json!(0), &json!(0)));
        assert_eq!(
            actor(&stage, "cell1/cell1-host1").await["restarts"],
            1,
            "its supervisor was killed, and once only: a cell's death is not its own"
        );
        assert_eq!(actor(&stage, "scheduler").await["in_flight"], Value::Null, "nobody knows");
        for fault in faults {
            until_event(&stage.admin, fault, "chaos.fault.start").await;
        }
        stage.confirm(server).await;
    });
}

#[test]
fn a_paused_host_keeps_a_move_waiting_until_it_is_resumed() {
    play(enabled, |stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        let name = format!("cell1/{source}");
        let fault = inject(&stage, json!({"pause": {"actor": name, "for_ms": 600_000}})).await;
        assert_eq!(actor(&stage, &name).await["paused"], true);
        stage.admin.post(FAULTS, json!({"fault": {"pause": {"actor": name, "for_ms": 1}}})).await.expect(409);
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.until("the host has a request", async || actor(&stage, &name).await["in_flight"] == 1).await;
        stage.admin.delete(&format!("{FAULTS}/{fault}")).await.expect(204);
        stage.admin.delete(&format!("{FAULTS}/{fault}")).await.expect(409);
        stage.admin.delete(&format!("{FAULTS}/{}", Uuid::nil())).await.expect(404);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        assert_eq!(actor(&stage, &name).await["paused"], false);
        until_event(&stage.admin, fault, "chaos.fault.end").await;
        let faults = stage.admin.get(FAULTS).await.expect(200).body;
        assert_eq!((faults["faults"][0]["active"].clone(), faults["faults"].as_array().map(Vec::len)), (json!(false), Some(1)));
    });
}

#[test]
fn a_cell_is_down_for_as_long_as_it_is_told() {
    play(enabled, |stage| async move {
        let server = stage.create(stage.server()).await;
        let fault = inject(&stage, json!({"database": {"name": "cell2", "outage": "refuses", "for_ms": 600_000}})).await;
        let health = async || {
            let cells = stage.admin.get("/ops/v1/cells").await.expect(200).body;
            cells["cells"].as_array().expect("cells").iter().find(|cell| cell["name"] == "cell2").expect("cell2")["health"].clone()
        };
        stage.until("cell2 is down", async || health().await == "down").await;
        stage.admin.delete(&format!("{FAULTS}/{fault}")).await.expect(204);
        stage.until("cell2 answers again", async || health().await == "up").await;
        stage.cross(server).await;
        // The next fault ends by itself.
        let short = inject(&stage, json!({"database": {"name": "cell1", "outage": "loses_replies", "calls": 1, "for_ms": 50}})).await;
        until_event(&stage.admin, short, "chaos.fault.end").await;
    });
}

const REFUSED_ONCE: &str = r#"
title = "The first guest cannot be built, and the first port not be bound, and a message is lost for good"
seed = 1

[[faults]]
when = { step = "prepare_at_target" }
what = { step = "refuse" }

[[faults]]
when = { step = "bind_ports_at_target", occurrence = 2 }
what = { step = "kill_actor" }

[[faults]]
when = { step = "claim_at_target", occurrence = 2 }
what = { message = { again = 20 } }

[[faults]]
when = { at_ms = 1 }
what = { database = { name = "cell2", outage = "refuses", calls = 1, for_ms = 30 } }

[expect]
returned = { at_least = 1 }
arrived = { at_least = 1 }
"#;

pub async fn experiment(stage: &Stage, state: &str) -> Value {
    let is = async || stage.admin.get(EXPERIMENT).await.expect(200).body["experiment"]["state"] == state;
    stage.until("the experiment has come there", is).await;
    stage.admin.get(EXPERIMENT).await.expect(200).body["experiment"].clone()
}

#[test]
fn an_experiment_is_loaded_seen_and_judged() {
    play(enabled, |stage| async move {
        let server = stage.create(stage.server()).await;
        assert_eq!(stage.admin.get(FAULTS).await.expect(200).body["experiment"], Value::Null);
        stage.admin.post_file(EXPERIMENT, "application/toml", REFUSED_ONCE).await.expect(202);
        assert_eq!(stage.admin.get(FAULTS).await.expect(200).body["experiment"], "running");
        let again = stage.admin.post_file(EXPERIMENT, "application/toml", REFUSED_ONCE).await.expect(409);
        assert!(again.message().contains("not over"), "{}", again.text);
        // Ends the outage of one call first, because it would meet the next caller.
        let over = async || {
            let shown = stage.admin.get(EXPERIMENT).await.expect(200).body;
            !shown["experiment"]["injected"][0]["over_ms"].is_null()
        };
        stage.until("the fault with a time is over", over).await;
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        stage.cross(server).await;
        let over = experiment(&stage, "over").await;
        assert_eq!(over["verdict"]["conclusion"], "held", "{over:#}");
        assert_eq!(over["injected"].as_array().map(Vec::len), Some(4), "{over:#}");
        let met = over["verdict"]["migrations"].as_array().expect("migrations").iter().filter(|one| one["faults"] != json!([]));
        assert_eq!(met.map(|one| one["saga"].clone()).collect::<Vec<_>>(), ["resize", "resize"], "{over:#}");
        assert!(stage.notified(server).await.contains(&"chaos.fault.start".to_owned()));
    });
}

#[test]
fn a_stopped_experiment_does_nothing_more() {
    play(enabled, |stage| async move {
        let server = stage.create(stage.server()).await;
        let waits = json!({"when": {"step": "take_ownership", "saga": "resize"}, "what": {"step": "refuse"}});
        let pauses = json!({"when": {"at_ms": 0}, "what": {"pause": {"actor": "cell2/cell2-host1", "for_ms": 600_000}}});
        let body = json!({"experiment": {"title": "it waits in vain", "faults": [waits, pauses]}});
        stage.admin.post(EXPERIMENT, body).await.expect(202);
        stage.until("a host is paused", async || actor(&stage, "cell2/cell2-host1").await["paused"] == true).await;
        stage.admin.delete(EXPERIMENT).await.expect(202);
        let over = experiment(&stage, "over").await;
        assert_eq!(over["verdict"]["conclusion"], "incomplete", "{over:#}");
        assert!(over["verdict"]["aborted"].as_str().is_some_and(|why| why.contains("stopped it")), "{over:#}");
        assert_eq!(actor(&stage, "cell2/cell2-host1").await["paused"], false);
        stage.cross(server).await;
        stage.admin.post(EXPERIMENT, json!({"experiment": {"title": "another", "faults": []}})).await.expect(202);
        assert_eq!(experiment(&stage, "over").await["verdict"]["conclusion"], "held");
    });
}

/// Shipped experiments that a service with two cells, two hosts each and one conductor refuses, and the key in its answer.
const REFUSED: [(&str, &str); 3] =
    [("a-bad-day", "abort.violations"), ("clock-goes-back", "faults[0].what"), ("two-conductors-one-stands-still", "conductor-2")];

#[test]
fn each_shipped_experiment_is_loaded_or_refused_with_its_reason() {
    play(enabled, |stage| async move {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        let mut loaded = 0;
        for entry in std::fs::read_dir(folder).expect("the experiments") {
            let file = entry.expect("a file").path();
            let name = file.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
            let text = std::fs::read_to_string(&file).expect("an experiment");
            if let Some((_, key)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
                let refused = stage.admin.post_file(EXPERIMENT, "application/toml", &text).await.expect(400);
                assert!(refused.message().contains(key), "{name}: {}", refused.text);
                continue;
            }
            let begun = stage.admin.post_file(EXPERIMENT, "application/toml", &text).await.expect(202).body;
            let left_out = begun["experiment"]["left_out"].to_string();
            assert!(left_out.contains("workload: ") && left_out.contains("topology: "), "{name}: {left_out}");
            stage.admin.delete(EXPERIMENT).await.expect(202);
            experiment(&stage, "over").await;
            loaded += 1;
        }
        assert_eq!(loaded, 19);
    });
}

#[test]
fn expectations_about_own_users_need_own_users() {
    play(enabled, |stage| async move {
        let file = "[topology]\ncells = 2\nhosts_per_cell = 2\n[[workload.journeys]]\nservers = 4\n\
                    [[faults]]\nwhen = { at_ms = 1 }\nwhat = { kill = { actor = \"scheduler\" } }\n\
                    [expect]\narrived = { at_least = 4 }\nservers_in_error = { at_most = 0 }\nrecovery_p99_ms = 5000\n";
        let begun = stage.admin.post_file(EXPERIMENT, "application/toml", file).await.expect(202).body;
        assert!(begun.to_string().contains("expect.arrived, expect.servers_in_error: "), "{begun:#}");
        let over = experiment(&stage, "over").await;
        let judged: Vec<&Value> = over["verdict"]["expectations"].as_array().expect("a list").iter().map(|one| &one["what"]).collect();
        assert_eq!(judged, [&json!("recovery, 99th percentile"), &json!("faults that did not happen")], "{over:#}");
        assert_eq!(over["verdict"]["conclusion"], "held", "{over:#}");
    });
}

#[test]
fn the_programs_own_experiments_can_be_read() {
    play(enabled, |stage| async move {
        let shipped = stage.admin.get(SHIPPED).await.expect(200).body;
        let experiments = shipped["experiments"].as_array().expect("experiments");
        let of_a_dead_host =
            experiments.iter().find(|experiment| experiment["name"] == "target-host-dies-mid-spawn").expect("an experiment");
        assert!(of_a_dead_host["title"].as_str().is_some_and(|title| title.contains("loses its power")), "{of_a_dead_host}");
        let text = of_a_dead_host["text"].as_str().expect("a text");
        stage.admin.post_file(EXPERIMENT, "application/toml", text).await.expect(202);
    });
}
