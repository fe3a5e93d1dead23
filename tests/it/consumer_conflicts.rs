//! Somebody changes a consumer's allocations in placement between an operation's read and its write: at each write of each operation. The write
//! is refused, and the operation ends at its target or in the prior state; no allocation is left over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use cellshift::domain::fence::Fence;
use cellshift::services::ServiceError;
use cellshift::services::placement::{Allocations, PlacementService};
use cellshift_neighbours::placement::intercepted::{Intercepted, Interceptor};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::databases;
use crate::stage::{Stage, play_altered};

/// A consumer whose allocations are about to be written, and the word that lets the write go on.
type Meeting = (Uuid, oneshot::Sender<()>);

/// Lets the n-th write of allocations wait for a meeting.
struct Met {
    /// The number of writes until the one that waits; 0 if none will.
    left: Arc<AtomicUsize>,
    meetings: mpsc::UnboundedSender<Meeting>,
}

#[async_trait]
impl Interceptor for Met {
    async fn replace_allocations(
        &self,
        placement: &dyn PlacementService,
        fence: Fence,
        changes: Vec<Allocations>,
    ) -> Result<(), ServiceError> {
        if let Some(first) = changes.first()
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) == Ok(1)
        {
            let (go_on, met) = oneshot::channel();
            if self.meetings.send((first.consumer, go_on)).is_ok() {
                drop(met.await);
            }
        }
        placement.replace_allocations(fence, changes).await
    }
}

/// Changes the consumer over placement's API: its generation rises. A consumer without allocations gets one.
async fn meddle(stage: &Stage, consumer: Uuid) {
    let admin = stage.admin.speaking("2.90, placement 1.39");
    let path = format!("/placement/allocations/{consumer}");
    let mut body = admin.get(&path).await.expect(200).body;
    if body["allocations"].as_object().is_none_or(serde_json::Map::is_empty) {
        let provider = admin.get("/placement/resource_providers?name=cell1-host1").await.expect(200).body;
        let id = provider["resource_providers"][0]["uuid"].as_str().expect("a provider");
        body = json!({"allocations": {id: {"resources": {"VCPU": 1}}}, "consumer_generation": null, "consumer_type": "INSTANCE",
            "project_id": "meddler", "user_id": "meddler"});
    }
    for held in body["allocations"].as_object_mut().expect("allocations").values_mut() {
        held.as_object_mut().expect("an allocation").remove("generation");
    }
    admin.put(&path, body).await.expect(204);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Migrate,
    Resize,
    CrossResize,
    Confirm,
    Revert,
    LiveMigrate,
    Evacuate,
    Shelve,
    Unshelve,
    Delete,
}

/// The status of the server after a conflict at each write of the operation, in order. A move that may try a further host arrives there; a write
/// past the pivot is tried again.
const OUTCOMES: &[(Operation, &[&str])] = &[
    (Operation::Migrate, &["ACTIVE", "ACTIVE"]),
    (Operation::Resize, &["ACTIVE", "ACTIVE"]),
    (Operation::CrossResize, &["ACTIVE", "VERIFY_RESIZE"]),
    (Operation::Confirm, &["ACTIVE"]),
    (Operation::Revert, &["ACTIVE"]),
    (Operation::LiveMigrate, &["ACTIVE", "ACTIVE", "ACTIVE"]),
    (Operation::Evacuate, &["ACTIVE", "ACTIVE"]),
    (Operation::Shelve, &["SHELVED_OFFLOADED"]),
    (Operation::Unshelve, &["ACTIVE"]),
    (Operation::Delete, &["gone"]),
];

impl Operation {
    /// Makes a server in the state in which the operation begins.
    async fn begin(self, stage: &Stage) -> Uuid {
        let server = stage.create_by(&stage.admin, stage.server().on_host("cell1-host1")).await;
        match self {
            Operation::Confirm | Operation::Revert => {
                stage.admin.migrate(server, None).await.expect(202);
                stage.at_rest(server, "VERIFY_RESIZE").await;
            }
            Operation::Unshelve => {
                stage.admin.act(server, json!({"shelve": null})).await.expect(202);
                stage.at_rest(server, "SHELVED_OFFLOADED").await;
            }
            Operation::Evacuate => stage.power("cell1-host1", false).await,
            _ => {}
        }
        server
    }

    async fn ask(self, stage: &Stage, server: Uuid) {
        let (body, status) = match self {
            Operation::Migrate => (json!({"migrate": null}), 202),
            Operation::Resize => (json!({"resize": {"flavorRef": "gen1.large"}}), 202),
            Operation::CrossResize => (json!({"resize": {"flavorRef": "gen2.small"}}), 202),
            Operation::Confirm => (json!({"confirmResize": null}), 204),
            Operation::Revert => (json!({"revertResize": null}), 202),
            Operation::LiveMigrate => (json!({"os-migrateLive": {"host": null, "block_migration": "auto"}}), 202),
            Operation::Evacuate => (json!({"evacuate": {}}), 200),
            Operation::Shelve => (json!({"shelve": null}), 202),
            Operation::Unshelve => (json!({"unshelve": null}), 202),
            Operation::Delete => {
                stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
                return;
            }
        };
        stage.admin.act(server, body).await.expect(status);
    }

    /// Lets the server come to rest, and returns what users see.
    async fn end(self, stage: &Stage, server: Uuid) -> String {
        stage.ended(server).await;
        if self == Operation::Evacuate {
            stage.power("cell1-host1", true).await;
        }
        stage.running.tree.conductor.pay_debts().await;
        stage.paid(server).await;
        match stage.admin.get(&format!("/servers/{server}")).await {
            gone if gone.status == 404 => "gone".to_owned(),
            shown => shown.body["server"]["status"].as_str().expect("a status").to_owned(),
        }
    }
}

/// Has the n-th write of the operation meet a change. Returns the outcome; none if there are fewer writes.
async fn case(
    stage: &Stage,
    operation: Operation,
    nth: usize,
    left: &AtomicUsize,
    meetings: &mut mpsc::UnboundedReceiver<Meeting>,
) -> Option<String> {
    let server = operation.begin(stage).await;
    left.store(nth, Ordering::SeqCst);
    operation.ask(stage, server).await;
    let met = tokio::select! {
        biased;
        met = meetings.recv() => met,
        () = stage.ended(server) => meetings.try_recv().ok(),
    };
    left.store(0, Ordering::SeqCst);
    let was_met = met.is_some();
    if let Some((consumer, go_on)) = met {
        meddle(stage, consumer).await;
        go_on.send(()).expect("the write waits");
    }
    let status = operation.end(stage, server).await;
    let shown: Value = stage.admin.get(&format!("/servers/{server}")).await.body["server"]["OS-EXT-SRV-ATTR:host"].clone();
    let holds: Vec<String> = stage.holds(server).await.into_iter().collect();
    assert_eq!(holds, shown.as_str().into_iter().collect::<Vec<_>>(), "{operation:?} {nth}: what the server holds when it is {status}");
    if status != "gone" {
        stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
    }
    was_met.then_some(status)
}

#[test]
fn a_consumer_changed_by_others_leaves_no_allocation_behind() {
    let (meetings, mut met) = mpsc::unbounded_channel();
    let left = Arc::new(AtomicUsize::new(0));
    let writes = left.clone();
    let alter = move |parts: &mut cellshift::actors::root::Parts| {
        parts.placement = Arc::new(Intercepted::new(parts.placement.clone(), Met { left: writes, meetings }));
    };
    play_altered(
        |_| {},
        databases::place,
        alter,
        |stage| async move {
            let mut results = Vec::new();
            for (operation, _) in OUTCOMES {
                let mut outcomes = Vec::new();
                while let Some(status) = case(&stage, *operation, outcomes.len() + 1, &left, &mut met).await {
                    outcomes.push(status);
                }
                results.push((*operation, outcomes));
            }
            let expected: Vec<(Operation, Vec<String>)> =
                OUTCOMES.iter().map(|(operation, outcomes)| (*operation, outcomes.iter().map(|one| (*one).to_owned()).collect())).collect();
            assert_eq!(results, expected, "{results:#?}");
        },
    );
}
