//! The first list after a restart is complete: it contains each server whose create was in flight when the process ended.

use std::sync::Arc;

use cellshift::chaos::point::{FaultPlan, Moment, Point, StepFault};
use serde_json::json;
use tokio::sync::Notify;

use crate::cloud::{Cloud, PATIENCE};

/// Stops each create before or after the effect of its acceptance, as the death of the process would, and reports that.
struct StopsCreates {
    moment: Moment,
    stopped: Arc<Notify>,
}

impl FaultPlan for StopsCreates {
    fn at(&self, point: &Point<'_>) -> StepFault {
        if (point.saga, point.step, point.side, point.moment) != ("create", "accept", "act", self.moment) {
            return StepFault::None;
        }
        self.stopped.notify_one();
        StepFault::Freeze
    }
}

#[test]
fn the_first_list_after_a_restart_has_each_server_begun() {
    actix_rt::System::new().block_on(async {
        let mut cloud = Cloud::start().await;
        for (moment, count) in [(Moment::BeforeEffect, 1), (Moment::AfterEffect, 2)] {
            let stopped = Arc::new(Notify::new());
            cloud.faults().arm(Some(Arc::new(StopsCreates { moment, stopped: stopped.clone() })));
            let body = json!({"server": {
                "name": "begun", "flavorRef": "m1.tiny", "imageRef": cloud.image(), "networks": "none",
            }});
            tokio::select! {
                answer = cloud.try_send("POST", "/compute/v2.1/servers", Some(body)) => panic!("the create is stopped first: {answer:?}"),
                stopped = tokio::time::timeout(PATIENCE, stopped.notified()) => stopped.expect("the create begins"),
            }
            cloud.restart();
            let (status, list) = cloud.send("GET", "/compute/v2.1/servers", None).await;
            assert_eq!((status, list["servers"].as_array().map(Vec::len)), (200, Some(count)), "{moment:?}: {list}");
            for server in list["servers"].as_array().expect("servers") {
                let id = server["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
                assert!(cloud.at_rest(id).await);
                assert_eq!(cloud.status(id).await, "ACTIVE");
            }
        }
        assert_eq!(cloud.audit().await, Vec::<String>::new());
    });
}
