//! An evacuation whose source counts as down, lives all the same, and has no time: nobody can say that the guest is off, so nothing is taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cellshift::actors::root::Parts;
use cellshift::domain::host_protocol::{HostAnswer, HostCommand, HostQuery, HostReply, HostRequest};
use cellshift::domain::standing::Standing;
use cellshift::virt::{HostUnreachable, Hosts};
use serde_json::json;

use crate::databases;
use crate::evacuate::evacuate;
use crate::stage::{Stage, hosts, play_altered};

const SOURCE: &str = "cell1-host1";

/// Hosts of which the source takes no request to stop a guest while it is busy, as a host with too many requests does.
struct Busy {
    inner: Arc<dyn Hosts>,
    now: Arc<AtomicBool>,
}

#[async_trait]
impl Hosts for Busy {
    async fn request(&self, cell: &str, host: &str, request: HostRequest) -> Result<HostReply, HostUnreachable> {
        let stops = matches!(request.command, HostCommand::StopGuest { .. });
        if stops && host == SOURCE && self.now.load(Ordering::SeqCst) {
            return Err(HostUnreachable::Busy);
        }
        self.inner.request(cell, host, request).await
    }

    async fn query(&self, cell: &str, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable> {
        self.inner.query(cell, host, query, deadline).await
    }

    async fn standing(&self, cell: &str, host: &str) -> Standing {
        self.inner.standing(cell, host).await
    }
}

async fn force(stage: &Stage, down: bool) -> u16 {
    let services = stage.admin.get(&format!("/os-services?binary=nova-compute&host={SOURCE}")).await.expect(200).body;
    let id = services["services"][0]["id"].as_str().expect("an id");
    stage.admin.put(&format!("/os-services/{id}"), json!({"forced_down": down})).await.status
}

#[test]
fn a_busy_source_that_may_run_the_guest_keeps_its_server() {
    let busy = Arc::new(AtomicBool::new(true));
    let now = busy.clone();
    let between = move |parts: &mut Parts| {
        parts.between.hosts = Some(Arc::new(move |inner| Arc::new(Busy { inner, now: now.clone() })));
    };
    play_altered(
        |_| {},
        databases::place,
        between,
        |stage| async move {
            let server = stage.create_by(&stage.admin, stage.server().on_host(SOURCE)).await;
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
        },
    );
}
