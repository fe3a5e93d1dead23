//! The controller is killed at five moments of moves, and started again. Its agents live on.

use cellshift::client::OPERATORS;
use cellshift::cluster::Role;
use serde_json::{Value, json};

use super::{FATAL_STEP, settle};
use crate::stage::{SOURCE, Stage, TARGET, until};
use crate::witness::Witness;

/// A kill at a moment of a step. An experiment makes the process end itself there, as `kill -9` does.
struct Kill {
    saga: &'static str,
    step: &'static str,
    moment: &'static str,
    request: &'static str,
    /// The server's host at the end.
    home: &'static str,
}

const KILLS: [Kill; 4] = [
    // The request is accepted, and nothing is done.
    Kill { saga: "resize", step: "record_migration", moment: "before_effect", request: "resize", home: TARGET },
    // The pivot is committed, and its journal does not know it.
    Kill { saga: "resize", step: "take_ownership", moment: "after_effect", request: "resize", home: TARGET },
    Kill { saga: "confirm", step: "clean_source_host", moment: "after_effect", request: "confirmResize", home: TARGET },
    Kill { saga: "revert", step: "take_ownership_back", moment: "after_effect", request: "revertResize", home: SOURCE },
];

#[tokio::test]
async fn a_controller_killed_at_five_moments_loses_no_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut stage = Stage::start(dir, 1, |config| config.chaos.enabled = true, |_, server| server).await;
    killed_during_the_copy(&mut stage).await;
    for kill in KILLS {
        kill.happens(&mut stage).await;
    }
    stage.end().await;
}

/// Kills the controller while the target reads the disks.
async fn killed_during_the_copy(stage: &mut Stage) {
    let server = stage.create("copied").await;
    let mut witness = witness(stage, &server).await;
    witness.requests("resize", action("resize")).await;
    let story = async {
        stage.is_at(&server, FATAL_STEP).await;
        stage.cluster.kill(&Role::Controller).expect("it is killed");
        starts_again(stage).await;
        settle(stage, &server).await;
    };
    witness.during(story).await;
    assert_eq!(witness.accepted_moves(), 1);
}

impl Kill {
    /// Brings a server to the moment, and sees it at rest where the operation brings it.
    async fn happens(&self, stage: &mut Stage) {
        let (server, moves) = (stage.create(self.step).await, self.saga == "resize");
        if !moves {
            stage.begin_move(&server).await;
            stage.rests(&server, &["VERIFY_RESIZE"]).await;
        }
        let fault = json!({"when": {"saga": self.saga, "step": self.step, "moment": self.moment}, "what": "restart"});
        let experiment = json!({"experiment": {"title": "killed at a moment", "faults": [fault]}});
        stage.admin.post(OPERATORS, "/chaos/experiment", experiment).await.expect("the experiment is loaded");
        let mut witness = witness(stage, &server).await;
        witness.requests(self.request, action(self.request)).await;
        let story = async {
            until("the controller is killed", async || stage.cluster.ended().iter().any(|(role, _)| *role == Role::Controller)).await;
            starts_again(stage).await;
            if moves {
                stage.rests(&server, &["VERIFY_RESIZE"]).await;
                stage.confirm(&server).await;
            }
            stage.rests(&server, &["ACTIVE"]).await;
        };
        witness.during(story).await;
        assert_eq!(stage.host_of(&server).await, self.home, "{}", self.step);
        witness.accepted_moves();
    }
}

/// Returns the body of a request.
fn action(request: &str) -> Value {
    let arguments = if request == "resize" { json!({"flavorRef": "gen2.small"}) } else { Value::Null };
    json!({ request: arguments })
}

async fn witness(stage: &Stage, server: &str) -> Witness {
    Witness::log_in(&stage.cluster.clouds_file(), "cellshift", server).await
}

async fn starts_again(stage: &mut Stage) {
    stage.cluster.restart(&Role::Controller).expect("it starts again");
    stage.cluster.until_ready().await.expect("it is ready");
}
