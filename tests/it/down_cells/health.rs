//! Operators learn that a cell is down from their list of cells and from notifications.

use serde_json::{Value, json};

use super::{quick, set};
use crate::stage::{Stage, play};
use cellshift::chaos::borders::Outage;

async fn cell(stage: &Stage, name: &str) -> Value {
    let body = stage.admin.get("/ops/v1/cells").await.expect(200).body;
    body["cells"].as_array().expect("cells").iter().find(|cell| cell["name"] == name).expect("the cell").clone()
}

/// Names the cell of a host, as the list of all hosts does.
fn of_cell1(mut host: Value) -> Value {
    host["cell"] = json!("cell1");
    host
}

#[test]
fn operators_see_which_cell_is_down_since_when_and_why() {
    play(quick, |stage| async move {
        let since_start = cell(&stage, "cell1").await["since"].clone();
        set(&stage, "cell1", Outage::Refuses).await;
        let down = cell(&stage, "cell1").await;
        assert!(["down", "probing"].contains(&down["health"].as_str().expect("a health")), "{down}");
        assert!(down["since"].as_str() > since_start.as_str(), "{down}");
        assert!(down["reason"].as_str().is_some_and(|reason| reason.contains("holds it down")), "{down}");
        let states: Vec<&Value> = down["hosts"].as_array().expect("hosts").iter().map(|host| &host["state"]).collect();
        assert_eq!(states, ["unknown", "unknown"]);
        assert_eq!((&down["host_counts"]["unknown"], &down["servers"], &down["room"]), (&json!(2), &Value::Null, &Value::Null));
        let listed = stage.admin.get("/ops/v1/hosts?state=unknown").await.expect(200).body;
        assert_eq!(listed["hosts"], down["hosts"].as_array().expect("hosts").iter().map(|host| of_cell1(host.clone())).collect::<Value>());
        let one = stage.admin.get("/ops/v1/hosts/cell1-host1").await.expect(200).body;
        assert_eq!(one["host"], listed["hosts"][0]);
        let well = cell(&stage, "cell2").await;
        assert_eq!((&well["health"], &well["reason"]), (&json!("up"), &Value::Null));

        set(&stage, "cell1", Outage::None).await;
        let back = cell(&stage, "cell1").await;
        assert_eq!((&back["health"], &back["reason"]), (&json!("up"), &Value::Null));
        assert!(back["since"].as_str() > down["since"].as_str(), "{back}");

        let events = stage.admin.events("/ops/v1/notifications", 0, 2).await;
        let of = |at: usize| &events[at].1;
        assert_eq!((&of(0)["event_type"], &of(0)["priority"]), (&json!("cell.down"), &json!("ERROR")));
        assert_eq!((&of(1)["event_type"], &of(1)["priority"]), (&json!("cell.up"), &json!("INFO")));
        for (at, state) in [(0, "down"), (1, "up")] {
            let payload = &of(at)["payload"];
            assert_eq!((&payload["uuid"], &payload["nova_object.name"]), (&back["uuid"], &json!("CellHealthPayload")));
            let data = &payload["nova_object.data"];
            assert_eq!((&data["name"], &data["state"]), (&json!("cell1"), &json!(state)));
        }
        assert!(of(0)["payload"]["nova_object.data"]["reason"].is_string());
    });
}
