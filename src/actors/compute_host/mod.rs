//! The actor of a compute host. It carries requests into the host ([`Host`]) and replies out; its mailbox never waits for a request.

#[cfg(test)]
mod tests;
mod upward;

use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use uuid::Uuid;

use super::supervision::{DeathGuard, supervised};
use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use crate::domain::reason::Reason;
pub use cellshift_host::{Host, HostOptions, HostParts, HostPlace, HostSite, LiveOptions, StoredHosts, Upward};
pub use upward::{HostServices, OwnershipOracle};

/// A request and the channel for its reply. No reply comes if the host dies first.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// The request.
    pub request: HostRequest,
    /// The channel for the reply.
    pub reply: oneshot::Sender<HostReply>,
    /// Held until the reply: it limits the requests at work.
    pub permit: OwnedSemaphorePermit,
}

/// A query and the channel for its answer. No answer comes if the host cannot tell.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ask {
    /// The query.
    pub query: HostQuery,
    /// The channel for the answer.
    pub answer: oneshot::Sender<HostAnswer>,
}

/// Bytes that a running simulated guest writes to its disks and volumes. For tests and the demo.
#[derive(Message)]
#[rtype(result = "()")]
pub struct GuestWrite {
    /// The guest's server.
    pub server: Uuid,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Answered when the bytes are written, or with the reason why they are not.
    pub done: oneshot::Sender<Result<(), Reason>>,
}

/// Asks at once for the interrupted guests, as the host does every few seconds. For tests.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ResumeGuests {
    /// Answered when each guest has been started or may not run now.
    pub done: oneshot::Sender<()>,
}

/// Makes the host panic in this message's handler. For tests and experiments.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Crash;

/// The actor: one incarnation of a host.
pub struct ComputeHost {
    parts: HostParts,
    host: Option<Arc<Host>>,
    _guard: Option<DeathGuard>,
}

impl ComputeHost {
    /// Makes a host that has not started; `guard` reports its death.
    pub fn new(parts: HostParts, guard: Option<DeathGuard>) -> ComputeHost {
        ComputeHost { parts, host: None, _guard: guard }
    }

    /// Runs `work` on the host beside the mailbox, as long as the actor lives.
    fn aside<F>(&self, ctx: &mut Context<Self>, work: impl FnOnce(Arc<Host>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        // Messages wait until the start has ended. So there is a host, unless the start failed and the actor stops.
        if let Some(host) = &self.host {
            ctx.spawn(work(host.clone()).into_actor(self));
        }
    }
}

impl Actor for ComputeHost {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(self.parts.options.max_requests);
        let starting = Host::start(self.parts.clone()).into_actor(self).map(|started, actor, ctx| match started {
            Ok(host) => {
                actor.host = Some(Arc::new(host));
                actor.aside(ctx, Host::keep_up);
            }
            Err(reason) => {
                log::error!(host = actor.parts.site.place.host.as_str(); "the host cannot start: {reason}");
                ctx.stop();
            }
        });
        ctx.wait(starting);
    }
}

impl Handler<Deliver> for ComputeHost {
    type Result = ();

    fn handle(&mut self, Deliver { request, reply, permit }: Deliver, ctx: &mut Self::Context) {
        self.aside(ctx, |host| async move {
            let _permit = permit;
            // The asker may be gone. The effect stands, and the same request learns of it later.
            let _ = reply.send(host.obey(request).await);
        });
    }
}

impl Handler<Ask> for ComputeHost {
    type Result = ();

    fn handle(&mut self, Ask { query, mut answer }: Ask, ctx: &mut Self::Context) {
        self.aside(ctx, |host| async move {
            let outcome = tokio::select! {
                biased;
                outcome = host.answer(query) => outcome,
                // A query changes nothing, so it ends when the asker is gone.
                () = answer.closed() => return,
            };
            if let Some(outcome) = outcome {
                let _ = answer.send(outcome);
            }
        });
    }
}

impl Handler<GuestWrite> for ComputeHost {
    type Result = ();

    fn handle(&mut self, GuestWrite { server, bytes, done }: GuestWrite, ctx: &mut Self::Context) {
        self.aside(ctx, |host| async move {
            let _ = done.send(host.guest_write(server, bytes).await);
        });
    }
}

impl Handler<ResumeGuests> for ComputeHost {
    type Result = ();

    fn handle(&mut self, ResumeGuests { done }: ResumeGuests, ctx: &mut Self::Context) {
        self.aside(ctx, |host| async move {
            host.resume().await;
            let _ = done.send(());
        });
    }
}

impl Handler<Crash> for ComputeHost {
    type Result = ();

    fn handle(&mut self, _: Crash, _: &mut Self::Context) {
        panic!("an experiment crashes host {}", self.parts.site.place.host);
    }
}

supervised!(ComputeHost);
