//! Compute hosts and their hypervisors: how callers see a host ([`Hosts`]), and the driver that a host actor runs
//! ([`Hypervisor`], with one implementation that keeps guests as files, [`simulated`]).

pub mod files;
pub mod hypervisor;
pub mod simulated;
pub mod written;

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
pub use hypervisor::{Content, DiskFile, GuestRecord, Hypervisor, Operation, StopCause, VirtError};

/// Why a host gave no reply of its own.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostUnreachable {
    /// The request never reached the host: nothing was done, and nothing will be.
    #[error("the host was not reached: {0}")]
    NotDelivered(String),
    /// No reply before the deadline, or the host died with the request: it may have been done, may still be running, or
    /// may never begin.
    #[error("the host did not answer: {0}")]
    Unknown(String),
}

/// All hosts of all cells, as sagas address them. Only a controller holds this; a host never does.
#[async_trait]
pub trait Hosts: Send + Sync {
    /// Delivers the request and waits for the reply until the deadline. Delivering twice is harmless.
    async fn request(&self, cell: &str, host: &str, request: HostRequest, deadline: Duration) -> Result<HostReply, HostUnreachable>;

    /// Asks without changing anything.
    async fn query(&self, cell: &str, host: &str, query: HostQuery, deadline: Duration) -> Result<HostAnswer, HostUnreachable>;

    /// True while the host takes requests, as far as its cell knows.
    async fn is_alive(&self, cell: &str, host: &str) -> bool;
}
