//! Moves that wait for confirm or revert: operators see them with the room that they hold, in the list, the summary and the metrics.

use serde_json::json;

use crate::stage::{Stage, play_default};

/// Waits until the metric of the cell's unconfirmed moves has this value.
async fn counted(stage: &Stage, cell: &str, number: u32) {
    let sample = format!("cellshift_unconfirmed_moves{{cell=\"{cell}\"}} {number}\n");
    stage.until(&sample, || async { stage.admin.get("/metrics").await.expect(200).text.contains(&sample) }).await;
}

#[test]
fn an_unconfirmed_move_is_listed_until_it_is_confirmed() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        let list = stage.admin.get("/ops/v1/unconfirmed-moves").await.expect(200).body;
        let waiting = &list["unconfirmed_moves"][0];
        assert_eq!((&waiting["server"], &waiting["target"]["cell"]), (&json!(server), &json!("cell2")), "{list:#}");
        assert_eq!((&waiting["source"]["cell"], &waiting["flavor"]), (&json!("cell1"), &json!("gen1.small")), "{list:#}");
        let room = waiting["room"].clone();
        assert!(room["VCPU"].as_i64() > Some(0) && room["MEMORY_MB"].as_i64() > Some(0), "{room}");

        let summary = stage.admin.get("/ops/v1/summary").await.expect(200).body["unconfirmed_moves"].clone();
        assert_eq!(summary, json!({"count": 1, "oldest_since": waiting["since"], "room": room}));
        let cells = stage.admin.get("/ops/v1/cells?hosts=false").await.expect(200).body["cells"].clone();
        let servers = cells.as_array().expect("cells").iter().map(|cell| (cell["name"].clone(), cell["servers"].clone()));
        assert_eq!(servers.collect::<Vec<_>>()[1..], [(json!("cell1"), json!(0)), (json!("cell2"), json!(1))], "a server is counted once");
        counted(&stage, "cell2", 1).await;
        counted(&stage, "cell1", 0).await;

        stage.confirm(server).await;
        let list = stage.admin.get("/ops/v1/unconfirmed-moves").await.expect(200).body;
        assert_eq!(list, json!({"unconfirmed_moves": [], "silent_cells": []}));
        counted(&stage, "cell2", 0).await;
        let lost = stage.admin.get(&format!("/ops/v1/unconfirmed-moves?marker={server}")).await.expect(400);
        assert!(lost.message().contains("marker"), "{}", lost.text);
    });
}
