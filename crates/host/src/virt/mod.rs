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
use cellshift_domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use cellshift_domain::reason::Reason;
use cellshift_domain::standing::Standing;

pub use hypervisor::{Content, DiskFile, GuestRecord, Hypervisor, Operation, StopCause, VirtError};

/// The reason why a host gave no reply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostUnreachable {
    /// The request never reached the host: nothing was done or will be done.
    #[error("the host was not reached: {0}")]
    NotDelivered(Reason),
    /// No reply came before the deadline, or the host died: the request may be done, still run, or never begin.
    #[error("the host did not answer: {0}")]
    Unknown(Reason),
}

/// All hosts of all cells, for sagas. Only a controller has it, never a host.
#[async_trait]
pub trait Hosts: Send + Sync {
    /// Delivers the request and waits for the reply until the deadline. A second delivery is harmless.
    async fn request(&self, cell: &str, host: &str, request: HostRequest, deadline: Duration) -> Result<HostReply, HostUnreachable>;

    /// Asks a question that changes nothing.
    async fn query(&self, cell: &str, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable>;

    /// Returns the host's standing, as far as its cell knows. An operator's word is not in it.
    async fn standing(&self, cell: &str, host: &str) -> Standing;
}
