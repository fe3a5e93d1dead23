//! Stories with hosts that at times have no time for a request, as a host with too many requests does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cellshift::actors::root::Parts;
use cellshift::domain::host_protocol::{HostAnswer, HostCommand, HostQuery, HostReply, HostRequest};
use cellshift::domain::standing::Standing;
use cellshift::virt::{HostUnreachable, Hosts};

use crate::databases;
use crate::stage::{Stage, play_altered};

/// The way in which a busy host treats a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    Does,
    /// The host does it, and its reply is lost.
    LosesReply,
    Refuses,
}

/// Says how the host of this name treats a command while it is busy.
pub type Rule = fn(&str, &HostCommand) -> Treatment;

struct Busy {
    inner: Arc<dyn Hosts>,
    rule: Rule,
    now: Arc<AtomicBool>,
}

#[async_trait]
impl Hosts for Busy {
    async fn request(&self, cell: &str, host: &str, request: HostRequest) -> Result<HostReply, HostUnreachable> {
        let treatment = if self.now.load(Ordering::SeqCst) { (self.rule)(host, &request.command) } else { Treatment::Does };
        if treatment == Treatment::Refuses {
            return Err(HostUnreachable::Busy);
        }
        let reply = self.inner.request(cell, host, request).await?;
        if treatment == Treatment::LosesReply { Err(HostUnreachable::Unknown("the reply is lost".into())) } else { Ok(reply) }
    }

    async fn query(&self, cell: &str, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable> {
        self.inner.query(cell, host, query, deadline).await
    }

    async fn standing(&self, cell: &str, host: &str) -> Standing {
        self.inner.standing(cell, host).await
    }
}

/// Plays a story on hosts that follow the rule while the story's flag is set. It is not set at first.
pub fn play_busy<F, S>(rule: Rule, story: S)
where
    F: Future<Output = ()>,
    S: FnOnce(Arc<Stage>, Arc<AtomicBool>) -> F,
{
    let busy = Arc::new(AtomicBool::new(false));
    let now = busy.clone();
    let between = move |parts: &mut Parts| {
        parts.between.hosts = Some(Arc::new(move |inner| Arc::new(Busy { inner, rule, now: now.clone() })));
    };
    play_altered(|_| {}, databases::place, between, |stage| story(stage, busy));
}
