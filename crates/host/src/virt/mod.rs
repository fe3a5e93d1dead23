//! Compute hosts and their hypervisors: the callers' interface to hosts ([`Hosts`]), and the driver of a host actor ([`Hypervisor`]). The
//! driver [`simulated`] keeps guests as files; [`intercepted`] stands before a driver and sees its calls.

pub mod files;
pub mod hypervisor;
pub mod intercepted;
pub mod record_log;
pub mod simulated;
pub mod written;

use std::time::Duration;

use async_trait::async_trait;
use cellshift_domain::host_protocol::{GuestReport, HostAnswer, HostQuery, HostReply, HostReport, HostRequest};
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_domain::span::span;
use cellshift_domain::standing::Standing;
use chrono::TimeDelta;
use tokio::time::Instant;
use uuid::Uuid;

pub use hypervisor::{Content, DiskFile, GuestRecord, Hypervisor, Operation, StopCause, VirtError};

/// The reason why a host gave no reply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostUnreachable {
    /// The request never reached the host: nothing was done or will be done.
    #[error("the host was not reached: {0}")]
    NotDelivered(Reason),
    /// The host works on as many requests as it takes at once: this one is surely not done.
    #[error("the host is busy: it works on as many requests as it takes at once")]
    Busy,
    /// The host's release does not know the message: it is surely not done.
    #[error("the host's release {release} does not know the message")]
    NotKnown {
        /// The host's release.
        release: String,
    },
    /// No reply came before the deadline, or the host died: the request may be done, still run, or never begin.
    #[error("the host did not answer: {0}")]
    Unknown(Reason),
}

impl HostUnreachable {
    /// Makes the reason when no reply has come within this time.
    pub fn late(waited: Duration) -> HostUnreachable {
        let waited = span(TimeDelta::from_std(waited).unwrap_or(TimeDelta::MAX));
        HostUnreachable::Unknown(reason!("no reply within {waited}"))
    }

    /// True if the request may be done, or may still be done.
    pub fn may_be_done(&self) -> bool {
        matches!(self, HostUnreachable::Unknown(_))
    }
}

/// All hosts of all cells, for sagas. Only a controller has it, never a host.
#[async_trait]
pub trait Hosts: Send + Sync {
    /// Delivers the request, and again every few seconds while the host works on it, and waits for the reply. Whoever has a deadline drops
    /// the future then; a delivered request runs on. A second delivery is harmless.
    async fn request(&self, cell: &str, host: &str, request: HostRequest) -> Result<HostReply, HostUnreachable>;

    /// Asks a question that changes nothing.
    async fn query(&self, cell: &str, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable>;

    /// Returns the whole report of a host, page by page. Each page must come within the time that the deadline leaves. What changes
    /// meanwhile may be in neither page or in its old state, as in any reading that takes time.
    async fn report(&self, cell: &str, host: &str, deadline: Duration) -> Result<HostReport, HostUnreachable> {
        let until = Instant::now() + deadline;
        let mut whole: Option<HostReport> = None;
        loop {
            let after = whole.as_ref().and_then(|report| report.next);
            let query = after.map_or(HostQuery::Report, |after| HostQuery::ReportPage { after: Some(after), limit: None });
            let left = until.saturating_duration_since(Instant::now());
            let HostAnswer::Report(page) = self.query(cell, host, query, left).await? else { return Err(other_answer()) };
            let next = page.next.filter(|next| after.is_none_or(|after| *next > after));
            let report = match whole.take() {
                None => page,
                Some(HostReport { mut claims, mut guests, .. }) => {
                    claims.extend(page.claims);
                    guests.extend(page.guests);
                    HostReport { claims, guests, ..page }
                }
            };
            if next.is_none() {
                return Ok(HostReport { next, ..report });
            }
            whole = Some(report);
        }
    }

    /// Returns what a host has of a server: its guest, or disks that a released guest left.
    async fn guest(&self, cell: &str, host: &str, server: Uuid, deadline: Duration) -> Result<Option<GuestReport>, HostUnreachable> {
        match self.query(cell, host, HostQuery::Guest { server }, deadline).await? {
            HostAnswer::Guest(guest) => Ok(guest.map(|guest| *guest)),
            _ => Err(other_answer()),
        }
    }

    /// Returns the host's standing, as far as its cell knows. An operator's word is not in it.
    async fn standing(&self, cell: &str, host: &str) -> Standing;
}

fn other_answer() -> HostUnreachable {
    HostUnreachable::Unknown("it answered another question".into())
}
