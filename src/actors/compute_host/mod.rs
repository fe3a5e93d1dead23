//! The actor of a compute host. It carries messages from its link ([`MailboxLink`]) to the host's end ([`HostEnd`]) and replies back; its
//! mailbox never waits for a request.

mod link;
#[cfg(test)]
mod tests;
pub mod tickets;
mod upward;

use std::sync::Arc;

use actix::prelude::*;
use cellshift_host::link::{Counted, Delivered, HostEnd};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::supervision::{DeathGuard, supervised};
use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use crate::domain::reason::Reason;
pub use cellshift_host::{Host, HostOptions, HostParts, HostPlace, HostSite, LiveOptions, StoredHosts, Upward};
pub use link::MailboxLink;
pub use upward::{HostServices, OwnershipOracle};

/// A request and the channel for the host's word. Nothing comes if the host dies first.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// The request.
    pub request: HostRequest,
    /// The channel for the reply.
    pub reply: oneshot::Sender<Delivered<HostReply>>,
    /// Held until the reply: it counts the requests at work.
    pub counted: Counted,
}

/// A query and the channel for the host's word. Nothing comes if the host dies first.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ask {
    /// The query.
    pub query: HostQuery,
    /// The channel for the answer.
    pub answer: oneshot::Sender<Delivered<HostAnswer>>,
}

/// A started host: its end of the link, and the work that it does by itself.
struct Life {
    end: Arc<dyn HostEnd>,
    upkeep: BoxFuture<'static, ()>,
}

/// The actor: one incarnation of a host.
pub struct ComputeHost {
    name: String,
    /// The number of messages that wait in the mailbox.
    mailbox: usize,
    /// The start, until the actor has begun it.
    starting: Option<BoxFuture<'static, Result<Life, Reason>>>,
    end: Option<Arc<dyn HostEnd>>,
    _guard: Option<DeathGuard>,
}

impl ComputeHost {
    /// Makes a host that has not started; `guard` reports its death.
    pub fn new(parts: HostParts, guard: Option<DeathGuard>) -> ComputeHost {
        let (name, mailbox) = (parts.site.place.host.clone(), parts.options.max_requests);
        let starting = async move {
            let host = Arc::new(Host::start(parts).await?);
            Ok(Life { end: host.clone(), upkeep: host.keep_up().boxed() })
        };
        ComputeHost { name, mailbox, starting: Some(starting.boxed()), end: None, _guard: guard }
    }

    /// Makes an actor that carries messages to this end.
    #[cfg(test)]
    fn carrying(end: Arc<dyn HostEnd>, mailbox: usize) -> ComputeHost {
        ComputeHost { name: "carried".into(), mailbox, starting: None, end: Some(end), _guard: None }
    }

    /// Runs `work` at the host's end beside the mailbox, as long as the actor lives.
    fn aside<F>(&self, ctx: &mut Context<Self>, work: impl FnOnce(Arc<dyn HostEnd>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        // Messages wait until the start has ended. So there is an end, unless the start failed and the actor stops.
        if let Some(end) = &self.end {
            ctx.spawn(work(end.clone()).into_actor(self));
        }
    }
}

impl Actor for ComputeHost {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(self.mailbox);
        let Some(starting) = self.starting.take() else { return };
        ctx.wait(starting.into_actor(self).map(|started, actor, ctx| match started {
            Ok(life) => {
                actor.end = Some(life.end);
                ctx.spawn(life.upkeep.into_actor(actor));
            }
            Err(reason) => {
                log::error!(host = actor.name.as_str(); "the host cannot start: {reason}");
                ctx.stop();
            }
        }));
    }
}

impl Handler<Deliver> for ComputeHost {
    type Result = ();

    fn handle(&mut self, Deliver { request, reply, counted }: Deliver, ctx: &mut Self::Context) {
        self.aside(ctx, |end| async move {
            let _counted = counted;
            // The asker may be gone. The effect stands, and the same request learns of it later.
            let _ = reply.send(end.request(request).await);
        });
    }
}

impl Handler<Ask> for ComputeHost {
    type Result = ();

    fn handle(&mut self, Ask { query, mut answer }: Ask, ctx: &mut Self::Context) {
        self.aside(ctx, |end| async move {
            let acts = query.acts();
            let delivered = tokio::select! {
                biased;
                delivered = end.query(query) => delivered,
                () = answer.closed(), if !acts => return,
            };
            let _ = answer.send(delivered);
        });
    }
}

supervised!(ComputeHost);
