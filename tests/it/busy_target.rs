//! A move past its pivot whose target runs the guest, is forced down, and has no time to say so: the server is not handed back to its source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cellshift::actors::root::Parts;
use cellshift::domain::host_protocol::{HostAnswer, HostCommand, HostQuery, HostReply, HostRequest};
use cellshift::domain::standing::Standing;
use cellshift::virt::{HostUnreachable, Hosts};
use uuid::Uuid;

use crate::databases;
use crate::stage::{Stage, play_altered};

const TARGETS: [&str; 2] = ["cell2-host1", "cell2-host2"];

/// Hosts of which the targets start guests without a reply, and take no other request of a started guest, while they are busy.
struct Busy {
    inner: Arc<dyn Hosts>,
    now: Arc<AtomicBool>,
}

#[async_trait]
impl Hosts for Busy {
    async fn request(&self, cell: &str, host: &str, request: HostRequest) -> Result<HostReply, HostUnreachable> {
        if !self.now.load(Ordering::SeqCst) || !TARGETS.contains(&host) {
            return self.inner.request(cell, host, request).await;
        }
        match request.command {
            HostCommand::Fence => Err(HostUnreachable::Busy),
            HostCommand::StartGuest => {
                self.inner.request(cell, host, request).await?;
                Err(HostUnreachable::Unknown("the reply is lost".into()))
            }
            _ => self.inner.request(cell, host, request).await,
        }
    }

    async fn query(&self, cell: &str, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable> {
        self.inner.query(cell, host, query, deadline).await
    }

    async fn standing(&self, cell: &str, host: &str) -> Standing {
        self.inner.standing(cell, host).await
    }
}

/// Returns the number of tries to hand the server back.
async fn tries_back(stage: &Stage, move_id: Uuid) -> usize {
    let journal = stage.world().operations.entries(move_id).await.expect("the journal");
    let is_try = |step: &str, side: &str, event: &str| (step, side, event) == ("start_at_target", "undo", "begun");
    journal.iter().filter(|entry| is_try(&entry.step, &entry.side, &entry.event)).count()
}

#[test]
fn a_forced_down_target_that_lives_keeps_its_server() {
    let busy = Arc::new(AtomicBool::new(false));
    let now = busy.clone();
    let between = move |parts: &mut Parts| {
        parts.between.hosts = Some(Arc::new(move |inner| Arc::new(Busy { inner, now: now.clone() })));
    };
    play_altered(
        |_| {},
        databases::place,
        between,
        |stage| async move {
            let server = stage.create(stage.server()).await;
            busy.store(true, Ordering::SeqCst);
            stage.member.resize(server, "gen2.small").await.expect(202);
            let move_id = stage.world().operations.holder(server).await.expect("the journal").expect("a move");
            stage.until("the hand-back is tried", async || tries_back(&stage, move_id).await > 0).await;
            for target in TARGETS {
                stage.force_down(target, true).await;
            }
            let before = tries_back(&stage, move_id).await;
            stage.until("the hand-back is tried after that", async || tries_back(&stage, move_id).await > before + 1).await;
            let runs_on = stage.runs_on(server).await;
            assert!(runs_on.len() == 1 && runs_on.iter().all(|host| TARGETS.contains(&host.as_str())), "{runs_on:?}");

            busy.store(false, Ordering::SeqCst);
            stage.at_rest(server, "VERIFY_RESIZE").await;
            for target in TARGETS {
                stage.force_down(target, false).await;
            }
            stage.member.confirm(server).await.expect(204);
            stage.at_rest(server, "ACTIVE").await;
        },
    );
}
