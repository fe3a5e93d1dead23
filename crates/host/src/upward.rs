//! A host's way to the things outside that it needs: its images, its ports, and the owners of its guests.

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_domain::guest::DiskPart;
use cellshift_domain::host_protocol::{Asker, ExportTicket, HostQuestion, ImageBytes, NeighbourError, Plugging, QuestionAnswer};
use cellshift_domain::reason;
use cellshift_env::streams::{ByteStream, Keep};
use uuid::Uuid;

/// The way from a host upwards. Questions are values, so that a broker can carry them to any controller; the bytes of images are streams and
/// never go that way. Whoever implements this writes the three calls without a body.
#[async_trait]
pub trait Upward: Send + Sync {
    /// Asks a question, or tells something. The answer is the one to this question.
    async fn ask(&self, asker: &Asker, question: HostQuestion) -> Result<QuestionAnswer, NeighbourError>;

    /// Reads the bytes of an image that has its bytes, for the operation of this server. [`NeighbourError::Refused`] if the operation does not
    /// have this host read the image.
    async fn download(&self, server: Uuid, image: Uuid) -> Result<(ImageBytes, ByteStream), NeighbourError>;

    /// Stores the bytes of an image that has none yet, for the operation of this server. Returns their SHA-256 in hex.
    /// [`NeighbourError::Conflict`] if it has its bytes, [`NeighbourError::Refused`] if the operation does not have this host store the image.
    async fn upload(&self, server: Uuid, image: Uuid, data: ByteStream, keep: Keep) -> Result<String, NeighbourError>;

    /// Reads a disk, or the memory, that another host of the cell has exported of a server. None if the export lies in a transfer area that
    /// both hosts share, as those of one process do. [`NeighbourError::Refused`] if the server's operation does not have this host read it.
    async fn export(&self, _source: &str, _server: Uuid, _part: &DiskPart) -> Result<Option<ByteStream>, NeighbourError> {
        Ok(None)
    }

    /// Gives another host of the cell a ticket for what this host has exported of a server. None if both hosts share the transfer area.
    fn export_ticket(&self, _reader: &Asker, _server: Uuid) -> Result<Option<ExportTicket>, NeighbourError> {
        Ok(None)
    }

    /// Returns the record of an image's bytes.
    async fn image(&self, asker: &Asker, image: Uuid) -> Result<ImageBytes, NeighbourError> {
        match self.ask(asker, HostQuestion::Image { image_id: image }).await? {
            QuestionAnswer::Image(bytes) => Ok(bytes),
            other => Err(no_answer(&other)),
        }
    }

    /// Returns how far the port is plugged on the host. [`NeighbourError::Missing`] if there is no such port.
    async fn plugging(&self, asker: &Asker, port: Uuid) -> Result<Plugging, NeighbourError> {
        match self.ask(asker, HostQuestion::Plugging { port_id: port }).await? {
            QuestionAnswer::Plugging(plugging) => Ok(plugging),
            other => Err(no_answer(&other)),
        }
    }

    /// Records that the host has plugged or unplugged the port. [`NeighbourError::Missing`] if there is no such port.
    async fn set_plugged(&self, asker: &Asker, port: Uuid, plugged: bool) -> Result<(), NeighbourError> {
        match self.ask(asker, HostQuestion::SetPlugged { port_id: port, plugged }).await? {
            QuestionAnswer::Noted => Ok(()),
            other => Err(no_answer(&other)),
        }
    }

    /// Returns the fence under which the host may run a guest that it ran before it went away. See [`QuestionAnswer::MayRun`].
    async fn may_run(&self, asker: &Asker, server: Uuid) -> Option<(i64, i64)> {
        match self.ask(asker, HostQuestion::MayRun { server }).await {
            Ok(QuestionAnswer::MayRun(fence)) => fence,
            _ => None,
        }
    }

    /// True if no attempt later than this fence has begun for its server. None if nobody can tell now.
    async fn is_latest(&self, asker: &Asker, fence: Fence) -> Option<bool> {
        match self.ask(asker, HostQuestion::IsLatest { fence }).await {
            Ok(QuestionAnswer::IsLatest(answer)) => answer,
            _ => None,
        }
    }

    /// Returns those of the servers that the deployment has forgotten; none if nobody can tell now. For at most
    /// [`FORGOTTEN_AT_ONCE`](cellshift_domain::host_protocol::FORGOTTEN_AT_ONCE) servers.
    async fn forgotten(&self, asker: &Asker, servers: Vec<Uuid>) -> Vec<Uuid> {
        match self.ask(asker, HostQuestion::Forgotten { servers }).await {
            Ok(QuestionAnswer::Forgotten(servers)) => servers,
            _ => Vec::new(),
        }
    }
}

/// Returns the error for an answer to another question.
fn no_answer(answer: &QuestionAnswer) -> NeighbourError {
    NeighbourError::Unavailable(reason!("{answer:?} is not the answer to the question"))
}
