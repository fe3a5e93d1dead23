//! `GET /ready`: requests should be sent to a process as long as its own databases answer and its conductors work.

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::config::{Config, Seconds};
use serde_json::{Value, json};

use crate::stage::{Stage, play};

fn quick(config: &mut Config) {
    config.cells.probe_interval = Seconds::millis(20);
    config.cells.timeout = Seconds::whole(2);
}

async fn ask(stage: &Stage) -> (u16, Value) {
    let answer = reqwest::get(format!("http://{}/ready", stage.running.address)).await.expect("an answer");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

#[test]
fn a_process_is_ready_as_long_as_its_own_databases_answer() {
    play(quick, |stage| async move {
        let (status, whole) = ask(&stage).await;
        assert_eq!(status, 200, "{whole}");
        let cells = stage.running.tree.cells.len();
        let expected = json!({"api": true, "services": true});
        assert_eq!((&whole["ready"], &whole["databases"]), (&json!(true), &expected));
        assert_eq!(whole["cells"], json!({"up": cells, "down": 0}));
        assert_eq!(whole["conductors"]["asleep"], 0, "{whole}");

        // The other cells' servers are served meanwhile.
        stage.cell("cell1").db().set_outage(Outage::Refuses);
        stage.until("the cell is told as down", || async { ask(&stage).await.1["cells"]["down"] == 1 }).await;
        assert_eq!(ask(&stage).await.0, 200);
        stage.cell("cell1").db().set_outage(Outage::None);

        for (database, service) in [("api", "api"), ("services", "placement")] {
            let db = stage.running.cloud.databases()[service].clone();
            db.set_outage(Outage::Refuses);
            stage.until("the process is not ready", || async { ask(&stage).await.0 == 503 }).await;
            let (_, state) = ask(&stage).await;
            assert_eq!((&state["ready"], &state["databases"][database]), (&json!(false), &json!(false)), "{state}");
            db.set_outage(Outage::None);
            stage.until("the process is ready again", || async { ask(&stage).await.0 == 200 }).await;
        }
    });
}

#[test]
fn many_readers_cost_few_looks_at_the_databases() {
    let hasty = |config: &mut Config| config.cells.timeout = Seconds::millis(300);
    play(hasty, |stage| async move {
        let db = stage.running.cloud.databases()["placement"].clone();
        let before = db.calls().reads;
        for _ in 0..100 {
            assert_eq!(ask(&stage).await.0, 200);
        }
        assert!(db.calls().reads - before < 100, "a look holds for a second");

        db.set_outage(Outage::Hangs);
        stage.until("the process is not ready", || async { ask(&stage).await.0 == 503 }).await;
        assert_eq!(futures::future::join_all((0..50).map(|_| ask(&stage))).await.iter().filter(|(status, _)| *status == 503).count(), 50);
        db.set_outage(Outage::None);
        stage.until("the process is ready again", || async { ask(&stage).await.0 == 200 }).await;
    });
}
