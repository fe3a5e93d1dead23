//! Follows docs/operating/trouble.md on operations that ask for an operator, in a running service: what the operator sees, what to do, and that the
//! server is well afterwards.

use cellshift::virt::hypervisor::Operation;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{PATIENCE, id_of};
use crate::stage::{Stage, play};

const FAULTS: &str = "/ops/v1/chaos/faults";

fn enabled(config: &mut cellshift::config::Config) {
    config.chaos.enabled = true;
}

/// A start takes long enough for a fault to meet it.
fn starting_slowly(config: &mut cellshift::config::Config) {
    enabled(config);
    config.compute.latency_ms.insert(Operation::Start, 500);
}

async fn inject(stage: &Stage, what: Value) -> Uuid {
    id_of(&stage.admin.post(FAULTS, json!({ "fault": what })).await.expect(202).body["fault"])
}

async fn mend(stage: &Stage, fault: Uuid) {
    stage.admin.delete(&format!("{FAULTS}/{fault}")).await.expect(204);
}

/// Returns the server's newest migration as operators see it.
async fn migration(stage: &Stage, server: Uuid) -> Value {
    let all = stage.admin.get(&format!("/ops/v1/migrations?server={server}")).await.expect(200).body;
    all["migrations"][0].clone()
}

/// Lets the conductor try a debt until it asks for an operator. Returns the number of tries.
async fn until_an_operator_is_asked_for(stage: &Stage, server: Uuid) -> usize {
    let mut tries = 0;
    let wait = async {
        while migration(stage, server).await["state"] != "needs_operator" {
            stage.running.tree.conductor.pay_debts().await;
            tries += 1;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("an operator is asked for");
    tries
}

/// Waits until the conductor has paid the debt by itself.
async fn until_all_is_paid(stage: &Stage, server: Uuid) {
    let paid = async {
        while migration(stage, server).await["debts"] != json!([]) {
            stage.running.tree.conductor.pay_debts().await;
        }
    };
    tokio::time::timeout(PATIENCE, paid).await.expect("what is owed is paid");
}

/// Holds moves at their first request to a host of cell2, until the returned fault is ended.
async fn hold(stage: &Stage) -> Vec<Uuid> {
    let mut pauses = Vec::new();
    for host in ["cell2-host1", "cell2-host2"] {
        pauses.push(inject(stage, json!({"pause": {"actor": format!("cell2/{host}"), "for_ms": 600_000}})).await);
    }
    pauses
}

/// Begins a move of the server, which is held at its target. Returns the fault that holds it, and the server's port.
async fn hold_a_move(stage: &Stage, server: Uuid) -> (Vec<Uuid>, Uuid) {
    let pauses = hold(stage).await;
    stage.member.resize(server, "gen2.small").await.expect(202);
    stage.until("the move waits for its target", async || migration(stage, server).await["step"] == "claim_at_target").await;
    let ports = stage.member.get(&format!("/network/v2.0/ports?device_id={server}")).await.expect(200).body;
    (pauses, id_of(&ports["ports"][0]))
}

/// Lets a move go on, which fails at its pivot, and waits until its server is back.
async fn let_it_come_back(stage: &Stage, server: Uuid, pauses: Vec<Uuid>) {
    stage.refuse("take_ownership");
    for pause in pauses {
        mend(stage, pause).await;
    }
    stage.at_rest(server, "ACTIVE").await;
}

#[test]
fn debts_to_a_refusing_host_ask_for_an_operator() {
    play(enabled, |stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        let broken = inject(&stage, json!({"driver": {"host": source, "operation": "define", "times": 1_000_000}})).await;
        stage.refuse("take_ownership");
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "ERROR").await;
        assert!(until_an_operator_is_asked_for(&stage, server).await > 1, "not at the first refusal");
        let listed = stage.admin.get("/ops/v1/migrations?status=needs_operator").await.expect(200).body;
        assert_eq!(listed["migrations"].as_array().map(Vec::len), Some(1));
        let owing = stage.admin.get("/ops/v1/migrations?owing=true&saga=resize").await.expect(200).body;
        assert_eq!(owing["migrations"], listed["migrations"]);
        assert!(owing["migrations"][0]["error"].as_str().is_some_and(|error| !error.is_empty()), "{owing:#}");
        let debts = migration(&stage, server).await["debts"].to_string();
        assert!(debts.contains("the hypervisor fails at building a guest"), "{debts}");

        mend(&stage, broken).await;
        until_all_is_paid(&stage, server).await;
        stage.at_rest(server, "ACTIVE").await;
        let listed = stage.admin.get("/ops/v1/migrations?status=needs_operator").await.expect(200).body;
        assert_eq!(listed["migrations"], json!([]));
        assert_eq!(stage.runs_on(server).await, [source].into());
    });
}

#[test]
fn a_deleted_port_stops_no_move_and_no_way_back() {
    play(enabled, |stage| async move {
        let server = stage.create(stage.server()).await;
        let (pauses, port) = hold_a_move(&stage, server).await;
        stage.member.delete(&format!("/network/v2.0/ports/{port}")).await.expect(204);
        let_it_come_back(&stage, server, pauses).await;
        stage.disarm();
        assert_eq!(migration(&stage, server).await["state"], "unwound");

        stage.member.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        stage.cross(server).await;
        stage.revert(server).await;
        stage.cross(server).await;
        stage.confirm(server).await;
    });
}

#[test]
fn a_foreign_active_binding_gives_way_and_is_audited() {
    play(enabled, |stage| async move {
        let server = stage.create(stage.server()).await;
        let (pauses, port) = hold_a_move(&stage, server).await;
        let bindings = format!("/network/v2.0/ports/{port}/bindings");
        stage.admin.post(&bindings, json!({"binding": {"host": "elsewhere"}})).await.expect(201);
        stage.admin.put(&format!("{bindings}/elsewhere/activate"), json!({})).await.expect(200);
        let_it_come_back(&stage, server, pauses).await;
        let audit = stage.admin.get("/ops/v1/audit").await.expect(200).body;
        let violations = audit["violations"].as_array().expect("violations");
        assert!(violations.iter().any(|one| one["invariant"] == "I14" && one["message"].to_string().contains("elsewhere")), "{audit:#}");
        stage.admin.delete(&format!("{bindings}/elsewhere")).await.expect(204);
    });
}

#[test]
fn a_deleted_allocation_is_audited_and_made_again() {
    play(enabled, |stage| async move {
        let server = stage.create(stage.server()).await;
        let path = format!("/placement/allocations/{server}");
        let before = stage.admin.get(&path).await.expect(200).body["allocations"].clone();
        stage.admin.delete(&path).await.expect(204);
        let audit = stage.admin.get("/ops/v1/audit").await.expect(200).body;
        let violations = audit["violations"].as_array().expect("violations");
        assert!(violations.iter().any(|one| one["invariant"] == "I4" && one["message"].to_string().contains("no allocation")), "{audit:#}");

        let again = |(provider, held): (&String, &Value)| json!({"resource_provider": {"uuid": provider}, "resources": held["resources"]});
        let again: Vec<Value> = before.as_object().expect("allocations").iter().map(again).collect();
        let body = json!({ "allocations": again });
        stage.admin.put(&path, body).await.expect(204);
    });
}

#[test]
fn a_target_forced_down_hands_its_server_back() {
    play(starting_slowly, |stage| async move {
        let server = stage.create(stage.server()).await;
        let fault = json!({
            "when": {"step": "start_at_target", "saga": "resize"},
            "what": {"host_off": {"host": "target", "for_ms": 600_000, "resume_guests": false}},
        });
        let body = json!({"experiment": {"title": "the target never comes back", "faults": [fault]}});
        stage.admin.post("/ops/v1/chaos/experiment", body).await.expect(202);
        stage.member.resize(server, "gen2.small").await.expect(202);
        let injected = async || stage.admin.get("/ops/v1/chaos/experiment").await.expect(200).body["experiment"]["injected"][0].clone();
        stage.until("the target has lost its power", async || injected().await["what"].is_string()).await;
        let what = injected().await["what"].as_str().expect("words").to_owned();
        let target = what.split(' ').nth(1).expect("a host").to_owned();
        let services = stage.admin.get("/os-services?binary=nova-compute").await.expect(200).body;
        let services = services["services"].as_array().expect("services");
        let service = services.iter().find(|service| service["host"] == target.as_str()).expect("its service");
        let service = format!("/os-services/{}", service["id"].as_str().expect("an id"));
        // The guest may run on that host, so the move waits until an operator says that it does not. Tries to undo the move wait, too.
        let waiting = migration(&stage, server).await;
        assert!(["running", "unwinding"].contains(&waiting["state"].as_str().expect("a state")), "{waiting}");

        stage.admin.put(&service, json!({"forced_down": true})).await.expect(200);
        stage.ended(server).await;
        let owing = migration(&stage, server).await;
        assert_eq!(owing["state"], "unwound", "{owing:#}");
        stage.at_rest(server, "ACTIVE").await;
        assert_ne!(owing["debts"], json!([]), "the target's leftovers");
        stage.cross(server).await;
        assert_ne!(stage.runs_on(server).await, [target.clone()].into());

        stage.admin.delete("/ops/v1/chaos/experiment").await.expect(202);
        stage.admin.put(&service, json!({"forced_down": false})).await.expect(200);
        stage
            .until("its debts are paid", async || {
                stage.running.tree.conductor.pay_debts().await;
                stage.world().operations.debts(Some(server)).await.expect("debts").is_empty()
            })
            .await;
    });
}
