//! A host that fences itself: the network of its agent is cut, its guests stop by themselves, and its servers are evacuated while no operator
//! says that it is off.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cellshift::client::{ClientError, OPERATORS};
use cellshift::config::{Config, Seconds};
use cellshift::virt::{GuestRecord, record_log};
use cellshift_nats::testkit::proxy::{BOTH_WAYS, Proxy};
use serde_json::{Value, json};

use crate::stage::{SOURCE, Stage, until};

const NEIGHBOUR: &str = "cell1-host2";

/// Hosts fence themselves after a time that is well beyond the one after which they are silent.
fn fence_soon(config: &mut Config) {
    config.compute.heartbeat = Seconds::whole(1);
    config.compute.service_down_time = Seconds::whole(4);
    config.compute.self_fence_after = Seconds::whole(10);
    config.compute.self_fence_margin = Seconds::whole(4);
}

/// Returns whether the guest runs on the source, as the files of the host say.
fn runs_on_source(stage: &Stage, server: &str) -> bool {
    let guest: PathBuf = [stage.data(), "agents", SOURCE, "data", "cells", "cell1", "hosts", SOURCE, "guests", server].iter().collect();
    let definition = std::fs::read(guest.join("guest.json")).expect("its file");
    record_log::last::<GuestRecord>(&definition).expect("its record").runs()
}

async fn source(stage: &Stage) -> Value {
    stage.admin.get(OPERATORS, &format!("/hosts/{SOURCE}")).await.unwrap_or_default()["host"].clone()
}

/// Requests an evacuation. True if it is accepted; a refusal must be a conflict.
async fn is_evacuated(stage: &Stage, server: &str) -> bool {
    match stage.admin.post("compute", &format!("/servers/{server}/action"), json!({"evacuate": {}})).await {
        Ok(_) => true,
        Err(ClientError::Refused { status: 409, .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_host_that_fences_itself_is_evacuated_without_a_word() {
    let mut proxies = BTreeMap::new();
    let way = |host: &str, server| proxies.entry(host.to_owned()).or_insert_with(|| Proxy::before(server)).address();
    let stage = Stage::start(tempfile::tempdir().expect("a directory"), 2, fence_soon, way).await;
    let (evacuated, waiting) = (stage.create_on(SOURCE, "evacuated").await, stage.create_on(SOURCE, "waiting").await);
    assert!(runs_on_source(&stage, &evacuated) && runs_on_source(&stage, &waiting));

    proxies[SOURCE].cut(&BOTH_WAYS);
    until("the source is silent", async || source(&stage).await["standing"]["state"] == "silent").await;
    assert!(!is_evacuated(&stage, &evacuated).await, "a silent host may run its guests");
    until("the evacuation is accepted", async || is_evacuated(&stage, &evacuated).await).await;
    let fenced = source(&stage).await;
    assert_eq!((&fenced["standing"]["by"], &fenced["forced_down"]), (&json!("self_fence"), &json!(false)), "{fenced}");
    assert!(!runs_on_source(&stage, &evacuated) && !runs_on_source(&stage, &waiting), "the agent has stopped its guests");
    until("the server is elsewhere", async || {
        let server = stage.look(&evacuated).await;
        server["OS-EXT-SRV-ATTR:host"] == NEIGHBOUR && server["status"] == "ACTIVE"
    })
    .await;

    proxies[SOURCE].heal();
    stage.rests(&evacuated, &["ACTIVE"]).await;
    assert_eq!(stage.host_of(&evacuated).await, NEIGHBOUR);
    until("the other server runs again", async || runs_on_source(&stage, &waiting)).await;
    stage.rests(&waiting, &["ACTIVE"]).await;
    assert_eq!(stage.host_of(&waiting).await, SOURCE);
    stage.end().await;
}
