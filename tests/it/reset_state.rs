//! An administrator resets a server's state: not while a move waits or an operation runs, so that all that they hold is given back.

use std::collections::BTreeSet;

use serde_json::json;

use crate::stage::{hosts, play_default};

/// The move is confirmed or reverted afterwards, as if nobody had asked.
#[test]
fn a_server_whose_move_waits_keeps_its_state() {
    play_default(|stage| async move {
        for (before, after, confirms) in
            [("m1.tiny", "m1.small", true), ("gen1.small", "gen2.small", true), ("gen1.small", "gen2.small", false)]
        {
            let server = stage.create(stage.server().flavor(before)).await;
            stage.member.resize(server, after).await.expect(202);
            stage.at_rest(server, "VERIFY_RESIZE").await;
            for state in ["active", "error"] {
                let refused = stage.admin.act(server, json!({"os-resetState": {"state": state}})).await.expect(409);
                assert!(refused.text.contains("vm_state resized") && refused.text.contains("revertResize"), "{}", refused.text);
                assert_eq!(stage.admin.status(server).await, "VERIFY_RESIZE");
            }
            if confirms {
                stage.member.confirm(server).await.expect(204);
            } else {
                stage.member.act(server, json!({"revertResize": null})).await.expect(202);
            }
            stage.at_rest(server, "ACTIVE").await;
            stage.member.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
            assert_eq!(stage.holds(server).await, BTreeSet::new());
        }
    });
}

#[test]
fn a_server_at_rest_is_reset() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let host = stage.runs_on(server).await.pop_first().expect("a host");
        for (state, status) in [("error", "ERROR"), ("active", "ACTIVE")] {
            stage.admin.act(server, json!({"os-resetState": {"state": state}})).await.expect(202);
            stage.at_rest(server, status).await;
        }
        assert_eq!(stage.runs_on(server).await, hosts(&[&host]));
    });
}
