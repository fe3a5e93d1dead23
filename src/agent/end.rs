//! The host's end of the link in an agent: it hands each message to the actor that the host has now. The actor may die and come back while the
//! agent's life goes on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_host::link::{Delivered, HostEnd, LONGEST_PATIENCE};

use super::fence::SelfFence;
use crate::actors::cell::HostDirectory;
use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use crate::domain::reason;
use crate::virt::HostUnreachable;

/// A request is waited for as long as the actor lives: whoever asks over NATS has a bound of its own, and asks again.
const UNTIL_ITS_END: Duration = Duration::MAX;

/// The end of the link to a host of this process.
pub struct LocalEnd {
    hosts: HostDirectory,
    host: String,
    fence: Arc<SelfFence>,
}

impl LocalEnd {
    /// Makes the end of a host that the directory has. It takes no requests when the time of its fence is over.
    pub(super) fn new(hosts: HostDirectory, host: &str, fence: Arc<SelfFence>) -> LocalEnd {
        LocalEnd { hosts, host: host.to_owned(), fence }
    }

    /// Returns the word for the sender of a message.
    fn word<T>(&self, outcome: Result<T, HostUnreachable>) -> Delivered<T> {
        match outcome {
            Ok(answer) => Delivered::Answered(answer),
            Err(HostUnreachable::Busy) => Delivered::Busy,
            Err(HostUnreachable::NotKnown { release }) => Delivered::NotKnown { release },
            Err(HostUnreachable::NotDelivered(reason)) => Delivered::NotTaken { reason },
            Err(HostUnreachable::Unknown(reason)) => {
                log::warn!(host = self.host.as_str(); "the host has not answered: {reason}");
                Delivered::CannotTell
            }
        }
    }
}

#[async_trait]
impl HostEnd for LocalEnd {
    async fn request(&self, request: HostRequest) -> Delivered<HostReply> {
        if self.fence.is_over() {
            return Delivered::NotTaken { reason: reason!("its agent has not renewed its word in time, and stops its guests") };
        }
        match self.hosts.open(&self.host) {
            Ok(link) => self.word(link.request(request, UNTIL_ITS_END).await),
            Err(refusal) => self.word(Err(refusal)),
        }
    }

    async fn query(&self, query: HostQuery) -> Delivered<HostAnswer> {
        match self.hosts.open(&self.host) {
            Ok(link) => self.word(link.query(query, LONGEST_PATIENCE).await),
            Err(refusal) => self.word(Err(refusal)),
        }
    }
}
