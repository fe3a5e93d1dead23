//! Operations that a release cannot read are left to an operator with a reason; their state is never guessed.

use serde_json::{Value, json};
use uuid::Uuid;

use super::dead_in_a_stop;
use crate::cloud::Cloud;
use crate::databases;

/// Returns the server's operation that waits for an operator.
async fn waiting(cloud: &Cloud, server: Uuid) -> Value {
    let path = format!("/ops/v1/migrations?status=needs_operator&server={server}");
    loop {
        let listed = cloud.look(&path).await["migrations"].as_array().expect("a list").clone();
        if let [one] = &listed[..] {
            return one.clone();
        }
        tokio::task::yield_now().await;
    }
}

/// A change of the journal by which this release cannot read it, the change back, and a part of the reason.
fn parked_and_finished(change: &str, back: &str, reason: &str) {
    actix_rt::System::new().block_on(async {
        let (mut cloud, server) = dead_in_a_stop(|_| {}).await;
        cloud.restart_after(|config| databases::execute_in_api(config, change));
        let parked = tokio::time::timeout(crate::cloud::PATIENCE, waiting(&cloud, server)).await.expect("it is parked");
        assert!(parked["reason"].as_str().is_some_and(|why| why.contains(reason)), "{parked:#}");
        // No other operation gets the server meanwhile, and its caller is told why.
        let path = format!("/compute/v2.1/servers/{server}/action");
        let (status, body) = cloud.send("POST", &path, Some(json!({"os-start": null}))).await;
        assert!(matches!(status, 409 | 503), "{status} {body}");
        let other = cloud.ask_for_server().await;
        assert!(cloud.at_rest(other).await, "others are not concerned");
        assert_eq!(cloud.status(other).await, "ACTIVE");
        // A release that can read the operation finishes it.
        cloud.restart_after(|config| databases::execute_in_api(config, back));
        assert!(cloud.at_rest(server).await);
        assert_eq!(cloud.status(server).await, "SHUTOFF");
        assert_eq!(cloud.audit().await, Vec::<String>::new());
    });
}

#[test]
fn a_line_of_the_wrong_step_is_parked() {
    parked_and_finished(
        "UPDATE journal SET step = 'start_guest' WHERE step = 'stop_guest'",
        "UPDATE journal SET step = 'stop_guest' WHERE step = 'start_guest' AND saga_id IN (SELECT id FROM sagas WHERE kind = 'stop')",
        "is about act start_guest, expected act stop_guest",
    );
}

#[test]
fn an_unknown_event_is_parked() {
    parked_and_finished(
        "UPDATE journal SET event = 'weighed' WHERE event = 'begun' AND step = 'stop_guest'",
        "UPDATE journal SET event = 'begun' WHERE event = 'weighed'",
        "\"weighed\", which this release does not know",
    );
}
