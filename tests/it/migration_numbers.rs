//! A migration has one number for its clients: the number in the first answer, in both cells and after the move.

use serde_json::json;
use uuid::Uuid;

use crate::stage::{Stage, play_default};

/// Returns the numbers of a server's migrations as `os-migrations` lists them, newest first.
async fn listed(stage: &Stage, server: Uuid) -> Vec<i64> {
    let body = stage.admin.get(&format!("/os-migrations?instance_uuid={server}")).await.expect(200).body;
    body["migrations"].as_array().expect("migrations").iter().map(|one| one["id"].as_i64().expect("a number")).collect()
}

#[test]
fn a_migration_keeps_its_number_in_both_cells() {
    play_default(|stage| async move {
        // A move within cell1 takes a number there, so that the numbers of the two cells differ.
        let first = stage.create(stage.server()).await;
        stage.member.resize(first, "gen1.large").await.expect(202);
        stage.at_rest(first, "VERIFY_RESIZE").await;
        assert_eq!(listed(&stage, first).await, [1]);

        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        assert_eq!(listed(&stage, server).await, [2]);
        for cell in ["cell1", "cell2"] {
            let record = stage.migrations(cell, server).await.pop().expect("a record in each cell");
            assert_eq!(record.number(), 2, "{cell}");
        }
        stage.revert(server).await;
        assert_eq!(listed(&stage, server).await, [2], "reverted: the first cell's record alone");

        stage.cross(server).await;
        stage.member.confirm(server).await.expect(204);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-AZ:availability_zone"], json!("cell2"));
        assert_eq!(listed(&stage, server).await, [3, 2], "confirmed: the second cell's records alone");
    });
}
