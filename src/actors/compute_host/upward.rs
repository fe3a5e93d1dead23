//! Answers what hosts ask upwards: from the image and network services, and from the records of who owns a server and which operation has it.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_host::Upward;
use uuid::Uuid;

use super::tickets::{Access, Tickets};
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{
    Asker, ExportTicket, HostAnswer, HostQuery, HostQuestion, ImageBytes, ImageTicket, NeighbourError, Plugging, QuestionAnswer,
};
use crate::domain::host_transfer::{HostBytes, HostTransfer};
use crate::domain::reason;
use crate::env::guard::{Guard, stands};
use crate::env::streams::{ByteStream, Keep};
use crate::services::ServiceError;
use crate::services::image::{Image, ImageService};
use crate::services::network::NetworkService;
use crate::virt::{HostUnreachable, Hosts};

/// The time limit of a source's answer. The asker waits a little longer.
const SOURCE_PATIENCE: Duration = Duration::from_secs(5);

/// Says what a host may do, by the records of owners and operations: run a guest that it ran before it went away, and move bytes.
#[async_trait]
pub trait OwnershipOracle: Send + Sync {
    /// Returns the owner's epoch and the server's attempt counter if the host owns the server and its guest should run. None if another
    /// host owns it, the guest should be off, an operation has the server, or nobody can tell now.
    async fn may_run(&self, cell: &str, host: &str, server: Uuid) -> Option<(i64, i64)>;

    /// True if no attempt later than this fence has begun for its server. None if nobody can tell now.
    async fn is_latest(&self, fence: Fence) -> Option<bool>;

    /// Returns those of the servers whose fences the deployment has forgotten; none if nobody can tell now.
    async fn forgotten(&self, servers: Vec<Uuid>) -> Vec<Uuid>;

    /// True if the operation in flight of the server has a host make this transfer. None if nobody can tell now.
    async fn may_move(&self, server: Uuid, transfer: &HostTransfer) -> Option<bool>;
}

/// The services and records of a controller, as hosts see them.
#[derive(Clone)]
pub struct HostServices {
    /// The image service.
    pub images: Arc<dyn ImageService>,
    /// The network service.
    pub network: Arc<dyn NetworkService>,
    /// The owners of servers.
    pub owners: Arc<dyn OwnershipOracle>,
    /// The hosts of all cells, which give tickets for their exports.
    pub hosts: Arc<dyn Hosts>,
    /// The tickets for images' bytes.
    pub tickets: Arc<Tickets>,
}

impl HostServices {
    /// Refuses a transfer that no operation in flight of the server has the host make (INVARIANTS S12).
    async fn judge(&self, asker: &Asker, server: Uuid, bytes: HostBytes) -> Result<(), NeighbourError> {
        let transfer = HostTransfer { host: asker.clone(), bytes };
        match self.owners.may_move(server, &transfer).await {
            Some(moves) if stands(Guard::OperationsBytes) && !moves => {
                let refusal = reason!("No operation in flight of server {server} has {transfer}.");
                log::warn!(cell = asker.cell.as_str(), host = asker.host.as_str(), server:% = server; "a ticket is refused: {refusal}");
                Err(NeighbourError::Refused(refusal))
            }
            Some(_) => Ok(()),
            None => Err(NeighbourError::Unavailable(reason!("whether an operation of server {server} has {transfer} cannot be told now"))),
        }
    }

    /// Gives a ticket to read an image that has its bytes, or to store those of an image that has none, if the server's operation has the
    /// host do it.
    async fn ticket(&self, asker: &Asker, server: Uuid, image: Uuid, write: bool) -> Result<ImageTicket, NeighbourError> {
        let bytes = if write { HostBytes::StoreImage(image) } else { HostBytes::ReadImage(image) };
        self.judge(asker, server, bytes).await?;
        let image = self.images.image(image).await.map_err(for_host)?;
        let (id, status) = (image.id, image.status.as_str());
        let access = match write {
            true if image.takes_bytes() => Access::Write,
            true => return Err(NeighbourError::Conflict(reason!("Image {id} has bytes already; its status is {status}."))),
            false if status == "active" => Access::Read,
            false => return Err(NeighbourError::Conflict(reason!("Image {id} is {status}: it has no bytes."))),
        };
        let (url, secret) = self.tickets.issue(asker, id, access)?;
        Ok(ImageTicket { url, secret, bytes: bytes_of(image) })
    }

    /// Asks the source for a ticket, in the asker's own cell, if the server's operation has the asker read the source's export.
    async fn export_ticket(&self, asker: &Asker, server: Uuid, source: &str) -> Result<Option<ExportTicket>, NeighbourError> {
        self.judge(asker, server, HostBytes::ReadExport { source: source.to_owned() }).await?;
        let query = HostQuery::ExportTicket { server, reader: asker.host.clone() };
        match self.hosts.query(&asker.cell, source, query, SOURCE_PATIENCE).await {
            Ok(HostAnswer::ExportTicket(ticket)) => Ok(ticket),
            Ok(_) => Err(NeighbourError::Unavailable(reason!("host {source} answered another question"))),
            // Hosts of earlier releases share the transfer area.
            Err(HostUnreachable::NotKnown { .. }) => Ok(None),
            Err(error) => Err(NeighbourError::Unavailable(reason!("host {source} gives no ticket for its export: {error}"))),
        }
    }

    async fn plugging(&self, port: Uuid, host: &str) -> Result<Plugging, NeighbourError> {
        let port = self.network.port(port).await.map_err(for_host)?;
        let binding = port.bindings.iter().find(|binding| binding.host == host && binding.plugged);
        Ok(match binding {
            Some(binding) if binding.status == "ACTIVE" => Plugging::Confirmed,
            Some(_) => Plugging::Plugged,
            None => Plugging::Unplugged,
        })
    }
}

#[async_trait]
impl Upward for HostServices {
    async fn ask(&self, asker: &Asker, question: HostQuestion) -> Result<QuestionAnswer, NeighbourError> {
        Ok(match question {
            HostQuestion::Image { image_id } => QuestionAnswer::Image(self.images.image(image_id).await.map(bytes_of).map_err(for_host)?),
            HostQuestion::Plugging { port_id } => QuestionAnswer::Plugging(self.plugging(port_id, &asker.host).await?),
            HostQuestion::SetPlugged { port_id, plugged } => {
                self.network.set_plugged(port_id, &asker.host, plugged).await.map_err(for_host)?;
                QuestionAnswer::Noted
            }
            HostQuestion::MayRun { server } => QuestionAnswer::MayRun(self.owners.may_run(&asker.cell, &asker.host, server).await),
            HostQuestion::IsLatest { fence } => QuestionAnswer::IsLatest(self.owners.is_latest(fence).await),
            HostQuestion::Forgotten { servers } => QuestionAnswer::Forgotten(self.owners.forgotten(servers).await),
            HostQuestion::ExportTicket { server, source } => {
                QuestionAnswer::ExportTicket(self.export_ticket(asker, server, &source).await?)
            }
            HostQuestion::ImageTicket { server, image_id, write } => {
                QuestionAnswer::ImageTicket(self.ticket(asker, server, image_id, write).await?)
            }
        })
    }

    /// A host of this process needs no ticket, so its transfers are not judged.
    async fn download(&self, _server: Uuid, image: Uuid) -> Result<(ImageBytes, ByteStream), NeighbourError> {
        let (image, data) = self.images.download(image).await.map_err(for_host)?;
        Ok((bytes_of(image), data))
    }

    async fn upload(&self, _server: Uuid, image: Uuid, data: ByteStream, keep: Keep) -> Result<String, NeighbourError> {
        let stored = match keep {
            Keep::Durably => self.images.upload(image, data).await,
            Keep::InPassing => self.images.upload_in_passing(image, data).await,
        };
        stored.map_err(for_host)
    }
}

fn bytes_of(image: Image) -> ImageBytes {
    ImageBytes { size: image.size.and_then(|size| u64::try_from(size).ok()), sha256: image.os_hash_value }
}

fn for_host(error: ServiceError) -> NeighbourError {
    match error {
        ServiceError::NotFound(reason) => NeighbourError::Missing(reason),
        ServiceError::Conflict(reason) => NeighbourError::Conflict(reason),
        ServiceError::Unavailable { .. } => NeighbourError::Unavailable(reason!("{error}")),
        ServiceError::Invalid(reason)
        | ServiceError::Forbidden(reason)
        | ServiceError::OverLimit(reason)
        | ServiceError::NotImplemented(reason)
        | ServiceError::Stale(reason) => NeighbourError::Refused(reason),
    }
}
