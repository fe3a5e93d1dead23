//! The services around a host, as far as it needs them: the images that it reads and writes, the ports that it plugs, and the owners of the
//! guests that it lost.

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_domain::reason::Reason;
use cellshift_env::streams::{ByteStream, Keep};
use uuid::Uuid;

/// The reason why a service around the host did not do what the host asked. Each is a sentence for the operator.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NeighbourError {
    /// The image or the port does not exist.
    #[error("{0}")]
    Missing(Reason),
    /// The state of the image or the port does not allow it.
    #[error("{0}")]
    Conflict(Reason),
    /// The service refuses for another reason, and will refuse again.
    #[error("{0}")]
    Refused(Reason),
    /// The service does not answer: whether it did the work is unknown.
    #[error("{0}")]
    Unavailable(Reason),
}

/// The record of an image's bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ImageBytes {
    /// Their number; none if it is not recorded.
    pub size: Option<u64>,
    /// Their SHA-256 in hex; none if it is not recorded.
    pub sha256: Option<String>,
}

/// The images from which guests are built, and into which their disks are copied.
#[async_trait]
pub trait Images: Send + Sync {
    /// Returns the record of an image's bytes.
    async fn image(&self, id: Uuid) -> Result<ImageBytes, NeighbourError>;

    /// Reads the bytes of an image that has its bytes.
    async fn download(&self, id: Uuid) -> Result<(ImageBytes, ByteStream), NeighbourError>;

    /// Stores the bytes of an image that has none yet. Returns their SHA-256 in hex. [`NeighbourError::Conflict`] if it has its bytes.
    async fn upload(&self, id: Uuid, data: ByteStream, keep: Keep) -> Result<String, NeighbourError>;
}

/// How far a port is plugged on a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plugging {
    /// The host has not plugged it.
    Unplugged,
    /// The host has plugged it, and the network has not confirmed that the port is active here.
    Plugged,
    /// The network has confirmed it: traffic flows.
    Confirmed,
}

/// The ports of guests.
#[async_trait]
pub trait Ports: Send + Sync {
    /// Returns how far the port is plugged on the host. [`NeighbourError::Missing`] if there is no such port.
    async fn plugging(&self, port: Uuid, host: &str) -> Result<Plugging, NeighbourError>;

    /// Records that the host has plugged or unplugged the port. [`NeighbourError::Missing`] if there is no such port.
    async fn set_plugged(&self, port: Uuid, host: &str, plugged: bool) -> Result<(), NeighbourError>;
}

/// Says whether a host may run a guest that it ran before it went away.
#[async_trait]
pub trait OwnershipOracle: Send + Sync {
    /// Returns the owner's epoch and the server's attempt counter if the host owns the server and its guest should run. None if another
    /// host owns it, the guest should be off, an operation has the server, or nobody can tell now; the host asks again later.
    async fn may_run(&self, cell: &str, host: &str, server: Uuid) -> Option<(i64, i64)>;

    /// True if no attempt later than this fence has begun for its server. None if nobody can tell now.
    async fn is_latest(&self, fence: Fence) -> Option<bool>;

    /// Returns those of the servers whose fences the deployment has forgotten; none if nobody can tell now.
    async fn forgotten(&self, servers: Vec<Uuid>) -> Vec<Uuid>;
}
