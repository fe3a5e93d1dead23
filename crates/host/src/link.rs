//! The link between the controllers and one host: requests and queries go down, questions and reports go up. All are serde values, so that a
//! mailbox or a broker can carry them, and nothing above the link knows which of the two does.

mod at_work;
#[cfg(feature = "testkit")]
pub mod suite;

use std::time::Duration;

use async_trait::async_trait;
use cellshift_domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use cellshift_domain::reason::Reason;
use cellshift_domain::standing::Standing;
use serde::{Deserialize, Serialize};

use crate::virt::HostUnreachable;
pub use at_work::{AtWork, Counted};

/// The longest time for which a controller waits for the reply to one delivery. A request that takes longer is delivered again, and joins
/// what the host does already.
pub const LONGEST_PATIENCE: Duration = Duration::from_secs(20);

/// A controller's end of the link to one host.
#[async_trait]
pub trait HostLink: Send + Sync {
    /// Delivers the request and waits for the reply, at most for `patience`. A delivered request runs on after that time. The same request,
    /// delivered again, joins the request at work, or gets the remembered reply.
    async fn request(&self, request: HostRequest, patience: Duration) -> Result<HostReply, HostUnreachable>;

    /// Delivers the query and waits for the answer, at most for `patience`.
    async fn query(&self, query: HostQuery, patience: Duration) -> Result<HostAnswer, HostUnreachable>;

    /// Returns the host's standing, as far as the link knows it.
    fn standing(&self) -> Standing;

    /// Returns the number of requests of this controller that have no reply yet. A request that was delivered again counts once.
    fn at_work(&self) -> usize;
}

/// The host's end of the link: it takes the messages that the link carries.
#[async_trait]
pub trait HostEnd: Send + Sync {
    /// Obeys a request, or says why the request is not taken. The link drops this future only if the host dies, because the work breaks off
    /// with it. A request that joins the same request at work is answered after [`LONGEST_PATIENCE`] at the latest.
    async fn request(&self, request: HostRequest) -> Delivered<HostReply>;

    /// Answers a query, or says why not. The link drops this future when nobody waits for the answer any more, unless the query acts
    /// ([`HostQuery::acts`]).
    async fn query(&self, query: HostQuery) -> Delivered<HostAnswer>;
}

/// The word of a host's end about one message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Delivered<T> {
    /// The reply or the answer.
    Answered(T),
    /// The host works on as many requests as it takes at once: this one is not done.
    Busy,
    /// The host is starting, or is left down: the message is not done.
    NotTaken {
        /// The reason why the host takes no messages.
        reason: Reason,
    },
    /// The host's release does not know the message: it is not done.
    NotKnown {
        /// The host's release.
        release: String,
    },
    /// The host cannot tell: its log says why, or it is still at work on the request that this one has joined.
    CannotTell,
}

impl<T> Delivered<T> {
    /// Returns the reply or the answer, or the reason why there is none.
    pub fn received(self) -> Result<T, HostUnreachable> {
        match self {
            Delivered::Answered(reply) => Ok(reply),
            Delivered::Busy => Err(HostUnreachable::Busy),
            Delivered::NotTaken { reason } => Err(HostUnreachable::NotDelivered(reason)),
            Delivered::NotKnown { release } => Err(HostUnreachable::NotKnown { release }),
            Delivered::CannotTell => Err(HostUnreachable::Unknown("it cannot tell".into())),
        }
    }
}
