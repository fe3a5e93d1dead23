//! The link to a host in this process: each message is put into the mailbox of the host's actor.

use std::sync::OnceLock;
use std::time::Duration;

use actix::Addr;
use async_trait::async_trait;
use cellshift_host::link::{AtWork, Delivered, HostLink};
use chrono::{DateTime, Utc};

use super::{Ask, ComputeHost, Deliver};
use crate::actors::supervision::requests::{self, Unanswered};
use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use crate::domain::standing::Standing;
use crate::env::Env;
use crate::virt::HostUnreachable;

/// The link to one incarnation of a host's actor.
pub struct MailboxLink {
    address: Addr<ComputeHost>,
    env: Env,
    at_work: AtWork,
    /// The moment at which the actor was first seen dead.
    silent_since: OnceLock<DateTime<Utc>>,
}

impl MailboxLink {
    /// Makes the link to the actor at this address.
    pub fn new(address: Addr<ComputeHost>, env: &Env) -> MailboxLink {
        MailboxLink { address, env: env.clone(), at_work: AtWork::default(), silent_since: OnceLock::new() }
    }
}

#[async_trait]
impl HostLink for MailboxLink {
    async fn request(&self, request: HostRequest, patience: Duration) -> Result<HostReply, HostUnreachable> {
        let counted = self.at_work.count(request.fence);
        received(requests::request(&self.address, patience, |reply| Deliver { request, reply, counted }).await)
    }

    async fn query(&self, query: HostQuery, patience: Duration) -> Result<HostAnswer, HostUnreachable> {
        received(requests::request(&self.address, patience, |answer| Ask { query, answer }).await)
    }

    fn standing(&self) -> Standing {
        if self.address.connected() {
            return Standing::Up;
        }
        let since = *self.silent_since.get_or_init(|| self.env.now());
        Standing::Silent { since, reason: "it has just died".into() }
    }

    fn at_work(&self) -> usize {
        self.at_work.requests()
    }
}

/// Returns what the host says, or why it says nothing.
fn received<T>(delivered: Result<Delivered<T>, Unanswered>) -> Result<T, HostUnreachable> {
    match delivered {
        Ok(delivered) => delivered.received(),
        Err(Unanswered::Busy) => Err(HostUnreachable::Busy),
        Err(Unanswered::Dead) => Err(HostUnreachable::NotDelivered("it has just died".into())),
        Err(Unanswered::Dropped) => Err(HostUnreachable::Unknown("it died with the request".into())),
        Err(Unanswered::Late(waited)) => Err(HostUnreachable::late(waited)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_reported_once() {
        let refusal = |reason| received::<()>(Err(reason)).unwrap_err().to_string();
        assert_eq!(refusal(Unanswered::Late(Duration::from_millis(1))), "the host did not answer: no reply within 1 ms");
        assert_eq!(refusal(Unanswered::Dropped), "the host did not answer: it died with the request");
        assert_eq!(refusal(Unanswered::Dead), "the host was not reached: it has just died");
    }
}
