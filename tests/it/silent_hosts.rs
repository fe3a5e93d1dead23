//! Hosts that are silent. Nobody knows whether they run their guests, so no other host runs these before a word says that they are off.

use std::sync::Arc;
use std::time::Duration;

use cellshift::actors::cell::CellHandle;
use cellshift::actors::root::Parts;
use cellshift::chaos::point::Moment;
use cellshift::domain::host_trial::HostTrial;
use cellshift::virt::HostUnreachable;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::PATIENCE;
use crate::databases;
use crate::evacuate::evacuate;
use crate::held::Held;
use crate::stage::{Stage, hosts, play_altered};

const SOURCE: &str = "cell1-host1";
const TARGET: &str = "cell1-host2";

/// Leaves hosts down after their first death.
fn left_down(parts: &mut Parts) {
    parts.host_options.intensity.max = 0;
    parts.host_options.revive_after = Duration::from_secs(3600);
}

fn play_silence<F: Future<Output = ()>>(story: impl FnOnce(Arc<Stage>) -> F) {
    play_altered(|_| {}, databases::place, left_down, story);
}

fn cell(stage: &Stage) -> &CellHandle {
    stage.running.tree.cell("cell1").expect("a cell")
}

/// Makes a server on the source, and has the source fall silent while the guest runs on.
async fn unheard(stage: &Stage) -> Uuid {
    let server = stage.create_by(&stage.admin, stage.server().on_host(SOURCE)).await;
    let crashed = cell(stage).hosts.trial(SOURCE, HostTrial::Crash, PATIENCE).await;
    assert!(matches!(crashed, Err(HostUnreachable::Unknown(_))), "{crashed:?}");
    stage.until("the host is silent", || async { standing(stage).await["state"] == "silent" }).await;
    server
}

/// Returns the source's standing as operators see it.
async fn standing(stage: &Stage) -> Value {
    stage.admin.get(&format!("/ops/v1/hosts/{SOURCE}")).await.expect(200).body["host"]["standing"].clone()
}

/// Switches the source's machine off behind the back of its controllers.
fn switch_off(stage: &Stage) {
    cell(stage).hosts_here.hypervisor(SOURCE).expect("a driver").interrupted(true).expect("it is off");
}

/// Has the source come back, and checks that nothing of the server is left there.
async fn source_is_cleaned(stage: &Stage, server: Uuid) {
    stage.power(SOURCE, true).await;
    stage.paid(server).await;
    assert!(stage.guest(SOURCE, server).await.is_none());
    assert_eq!(stage.runs_on(server).await, hosts(&[TARGET]));
}

#[test]
fn a_silent_host_is_evacuated_once_it_is_forced_down() {
    play_silence(|stage| async move {
        let server = unheard(&stage).await;
        let refused = evacuate(&stage, "2.90", server, json!({})).await.expect(409);
        for part in ["has not answered since", "Wait until it answers", "compute service set --down cell1-host1 nova-compute"] {
            assert!(refused.message().contains(part), "{part}: {}", refused.message());
        }
        stage.at_rest(server, "ACTIVE").await;
        assert!(stage.migrations("cell1", server).await.is_empty());

        switch_off(&stage);
        stage.force_down(SOURCE, true).await;
        assert_eq!(standing(&stage).await, json!({"state": "off", "by": "operator"}));
        evacuate(&stage, "2.90", server, json!({})).await.expect(200);
        assert_eq!(stage.at_rest(server, "ACTIVE").await["OS-EXT-SRV-ATTR:host"], TARGET);
        assert_eq!(stage.runs_on(server).await, hosts(&[TARGET]));
        source_is_cleaned(&stage, server).await;
        stage.force_down(SOURCE, false).await;
    });
}

#[test]
fn a_silent_host_is_evacuated_once_its_power_is_cut() {
    play_silence(|stage| async move {
        let server = unheard(&stage).await;
        evacuate(&stage, "2.90", server, json!({})).await.expect(409);
        stage.power(SOURCE, false).await;
        assert_eq!(standing(&stage).await, json!({"state": "off", "by": "host"}));
        evacuate(&stage, "2.90", server, json!({})).await.expect(200);
        assert_eq!(stage.at_rest(server, "ACTIVE").await["OS-EXT-SRV-ATTR:host"], TARGET);
        source_is_cleaned(&stage, server).await;
    });
}

#[test]
fn a_silent_host_keeps_its_server_when_its_force_down_goes() {
    play_silence(|stage| async move {
        let server = unheard(&stage).await;
        stage.force_down(SOURCE, true).await;
        let held = Held::at(&stage, "fence_source", Moment::BeforeEffect);
        evacuate(&stage, "2.90", server, json!({})).await.expect(200);
        held.met().await;
        stage.force_down(SOURCE, false).await;
        held.release();
        stage.ended(server).await;
        stage.disarm();
        assert_eq!(stage.admin.show(server).await["OS-EXT-SRV-ATTR:host"], SOURCE);
        assert_eq!(stage.migration_status("cell1", server).await, "failed");
        assert!(stage.runs_on(server).await.is_empty(), "no other host runs it");
        assert!(stage.guest(TARGET, server).await.is_none());

        stage.power(SOURCE, true).await;
        stage.paid(server).await;
        stage.until("its guest runs there", async || stage.runs_on(server).await == hosts(&[SOURCE])).await;
        stage.until("the server works", async || stage.admin.status(server).await == "ACTIVE").await;
        assert_eq!(stage.holds(server).await, hosts(&[SOURCE]));
    });
}
