//! A controller dies during a drain. Its successor goes on from the rows, and begins no move twice.

use std::collections::BTreeMap;

use cellshift::domain::context::RequestContext;
use cellshift::domain::drain::{Destination, DrainPlan, DrainServer, DrainServerState, MoveKind};
use cellshift::domain::saga_record::SagaFilter;
use cellshift::domain::saga_state::SagaState;
use cellshift::saga::context::{Context, LiveMigrateRequest, Request};
use cellshift::saga::operations::BeginOperation;
use cellshift::saga::refusal::Refusal;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cloud::{Cloud, PATIENCE};
use crate::stage::{hosts, play_default};

async fn servers_of(cloud: &Cloud, drain: &str) -> Vec<Value> {
    cloud.look(&format!("/ops/v1/drains/{drain}/servers")).await["servers"].as_array().expect("servers").clone()
}

/// Counts the drain's servers by state.
async fn states(cloud: &Cloud, drain: &str) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    for server in servers_of(cloud, drain).await {
        *states.entry(server["state"].as_str().expect("a state").to_owned()).or_insert(0) += 1;
    }
    states
}

#[test]
fn a_drain_survives_its_controllers_and_moves_none_twice() {
    actix_rt::System::new().block_on(async {
        let mut cloud = Cloud::start().await;
        let mut servers = Vec::new();
        for _ in 0..4 {
            let server = cloud.ask_for_server().await;
            assert!(cloud.at_rest(server).await);
            servers.push(server);
        }
        let map = json!({"gen1.small": "gen2.small"});
        let body = json!({"cell": "cell1", "to_cell": "cell2", "flavor_map": map, "confirm": true, "max_in_flight": 2});
        let (status, begun) = cloud.operate("POST", "/ops/v1/drains", body).await;
        assert_eq!(status, 202, "{begun}");
        let drain = begun["id"].as_str().expect("an id").to_owned();
        // The first life ends while the first moves are in flight, the second later, and the third at any moment.
        let mut lives = 0;
        let ended = async {
            loop {
                let states = states(&cloud, &drain).await;
                let moved = states.get("moved").copied().unwrap_or(0);
                if cloud.look(&format!("/ops/v1/drains/{drain}")).await["state"] == "done" {
                    break;
                }
                if lives < 3 && states.contains_key("moving") && moved >= lives {
                    lives += 1;
                    cloud.restart();
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("the drain ends");
        assert!(lives > 0, "the controller died while moves were in flight");
        for server in &servers_of(&cloud, &drain).await {
            assert_eq!(server["state"], "moved", "{server:#}");
        }
        for server in servers {
            assert!(cloud.at_rest(server).await);
            assert_eq!(cloud.status(server).await, "ACTIVE");
            assert_eq!(moves(&cloud, server).await, ["confirm", "resize", "create"], "each began once");
        }
        assert_eq!(cloud.audit().await, Vec::<String>::new());
    });
}

/// Returns the kinds of the server's operations, newest first, without those that came back: the drain tries them again.
async fn moves(cloud: &Cloud, server: Uuid) -> Vec<String> {
    let filter = SagaFilter { server: Some(server), limit: 100, ..SagaFilter::default() };
    let all = cloud.world().operations.list(filter).await.expect("the journal").into_iter();
    all.filter(|saga| saga.state != SagaState::Unwound).map(|saga| saga.kind).collect()
}

/// The first driver dies after it has recorded the move, and before the move begins. Its request arrives all the same, much later.
#[test]
fn a_recorded_move_begins_once_under_its_id() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let (operations, id) = (stage.world().operations.clone(), stage.world().env.uuid());
        let caller = RequestContext { user_id: stage.admin.user_id.clone(), roles: vec!["admin".into()], ..RequestContext::default() };
        let plan = DrainPlan {
            cell: "cell1".into(),
            hosts: vec!["cell1-host1".into()],
            whole_cell: false,
            to: Destination::Cell("cell1".into()),
            flavors: BTreeMap::new(),
            max_in_flight: 4,
            confirm: false,
            confirm_others: false,
            may_leave_cell: false,
            caller: caller.clone(),
        };
        operations.create_drain(id, plan).await.expect("a drain");
        let lease = operations.lease_drain(id, "a driver that dies", None).await.expect("the API database").expect("nobody has it yet");
        operations.add_drain_servers(lease, vec![(server, "cell1-host1".into())], Vec::new()).await.expect("its lease");
        let row = operations.drain_servers_due(id, 1).await.expect("rows").pop().expect("a row");
        let operation = stage.world().env.uuid();
        let moving = DrainServer {
            state: DrainServerState::Moving,
            kind: Some(MoveKind::Live),
            target: Some("cell1-host2".into()),
            operation: Some(operation),
            ..row
        };
        assert!(operations.begin_drain_move(lease, moving).await.expect("its lease"));
        let over = || async { operations.drain(id).await.expect("a drain").expect("a drain").is_settled };
        stage.until("another driver ends the drain", over).await;
        let row = operations.drain_servers(id, None, None, 9).await.expect("rows").pop().expect("a row");
        assert_eq!((row.state, row.operation), (DrainServerState::Moved, Some(operation)));
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host2"]));

        let request = LiveMigrateRequest { host: Some("cell1-host1".into()), block_migration: None, forced: false, unchecked: false };
        let late = Context::new(operation, caller, server, Request::LiveMigrate(request));
        let refused = stage.running.tree.conductor.begin(late).await;
        assert!(matches!(refused, Err(Refusal::Conflict(_))), "{refused:?}");
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host2"]));
    });
}
