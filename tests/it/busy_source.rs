//! An evacuation whose source counts as down, lives all the same, and has no time: nobody can say that the guest is off, so nothing is taken.

use std::sync::atomic::Ordering;

use cellshift::domain::host_protocol::HostCommand;
use serde_json::json;

use crate::busy::{Treatment, play_busy};
use crate::evacuate::evacuate;
use crate::stage::{Stage, hosts};

const SOURCE: &str = "cell1-host1";

/// A busy source takes no request to stop a guest.
fn rule(host: &str, command: &HostCommand) -> Treatment {
    if host == SOURCE && matches!(command, HostCommand::StopGuest { .. }) { Treatment::Refuses } else { Treatment::Does }
}

async fn force(stage: &Stage, down: bool) -> u16 {
    let services = stage.admin.get(&format!("/os-services?binary=nova-compute&host={SOURCE}")).await.expect(200).body;
    let id = services["services"][0]["id"].as_str().expect("an id");
    stage.admin.put(&format!("/os-services/{id}"), json!({"forced_down": down})).await.status
}

#[test]
fn a_busy_source_that_may_run_the_guest_keeps_its_server() {
    play_busy(rule, |stage, busy| async move {
        let server = stage.create_by(&stage.admin, stage.server().on_host(SOURCE)).await;
        busy.store(true, Ordering::SeqCst);
        assert_eq!(force(&stage, true).await, 200);
        evacuate(&stage, "2.90", server, json!({})).await.expect(200);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], SOURCE);
        assert_eq!((stage.runs_on(server).await, stage.holds(server).await), (hosts(&[SOURCE]), hosts(&[SOURCE])));
        let failed = stage.migrations("cell1", server).await.pop().expect("a migration");
        assert_eq!(failed.status.to_string(), "failed");

        busy.store(false, Ordering::SeqCst);
        evacuate(&stage, "2.90", server, json!({})).await.expect(200);
        assert_eq!(stage.at_rest(server, "ACTIVE").await["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host2"]));
        stage.paid(server).await;
        stage.until("the source is cleaned up", async || force(&stage, false).await == 200).await;
    });
}
