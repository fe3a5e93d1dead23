//! The link between the controllers and one host: requests and queries go down, questions and reports go up. All are serde values, so that a
//! mailbox or a broker can carry them, and nothing above the link knows which of the two does.

use std::time::Duration;

use async_trait::async_trait;
use cellshift_domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use cellshift_domain::standing::Standing;
use serde::{Deserialize, Serialize};

use crate::virt::HostUnreachable;

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

    /// Returns the number of requests of this controller that have no reply yet.
    fn at_work(&self) -> usize;
}

/// The host's end of the link: it takes the messages that the link carries.
#[async_trait]
pub trait HostEnd: Send + Sync {
    /// Obeys a request, or says why the request is not taken.
    async fn request(&self, request: HostRequest) -> Delivered<HostReply>;

    /// Answers a query, or says why not.
    async fn query(&self, query: HostQuery) -> Delivered<HostAnswer>;
}

/// The word of a host's end about one message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Delivered<T> {
    /// The reply or the answer.
    Answered(T),
    /// The host works on as many requests as it takes at once: this one is not done.
    Busy,
    /// The host's release does not know the message: it is not done.
    NotKnown {
        /// The host's release.
        release: String,
    },
    /// The host cannot tell; its log says why.
    CannotTell,
}
