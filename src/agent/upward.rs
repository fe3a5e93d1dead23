//! A host's way upwards in an agent: questions go to the controllers over NATS, and the bytes of images over HTTP.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_nats::ToControllers;
use parking_lot::RwLock;
use uuid::Uuid;

use super::config::AgentImage;
use super::exports::Exports;
use super::fence::SelfFence;
use super::images::{Connections, ImageClient, TicketSource};
use crate::actors::compute_host::Upward;
use crate::domain::guest::DiskPart;
use crate::domain::host_protocol::{Asker, ExportTicket, HostQuestion, ImageBytes, ImageTicket, NeighbourError, QuestionAnswer};
use crate::domain::reason;
use crate::env::streams::{ByteStream, Keep};

/// The time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The questions of a host. They reach the controllers while these accept the host's agent; before and after nobody would know who asks.
pub struct Questions {
    controllers: RwLock<Option<ToControllers>>,
    fence: Arc<SelfFence>,
}

impl Questions {
    /// Makes the questions of the host with this fence, which lead nowhere yet.
    pub(super) fn new(fence: Arc<SelfFence>) -> Questions {
        Questions { controllers: RwLock::default(), fence }
    }

    /// Lets questions go to the controllers, which have accepted the agent.
    pub fn lead_to(&self, controllers: ToControllers) {
        *self.controllers.write() = Some(controllers);
    }

    /// Lets questions go nowhere, because the controllers do not accept the agent.
    pub fn withdraw(&self) {
        *self.controllers.write() = None;
    }

    /// Asks a controller, and waits for the answer for a bounded time. An answer that comes when the time of the fence is over counts no more: the
    /// process may have stood still since it asked.
    pub async fn ask(&self, question: HostQuestion) -> Result<QuestionAnswer, NeighbourError> {
        let controllers = self.controllers.read().clone();
        let controllers =
            controllers.ok_or_else(|| NeighbourError::Unavailable(reason!("no controller has accepted the agent of this host")))?;
        let answer = controllers.ask(question, PATIENCE).await;
        if self.fence.is_over() {
            return Err(NeighbourError::Unavailable(reason!("the agent of this host has not renewed its word in time")));
        }
        answer.unwrap_or_else(|error| Err(NeighbourError::Unavailable(reason!("the controllers do not answer the host: {error}"))))
    }
}

/// The tickets for the images that the operation of one server moves.
struct ImageTickets {
    questions: Arc<Questions>,
    server: Uuid,
}

#[async_trait]
impl TicketSource for ImageTickets {
    async fn ticket(&self, image_id: Uuid, write: bool) -> Result<ImageTicket, NeighbourError> {
        match self.questions.ask(HostQuestion::ImageTicket { server: self.server, image_id, write }).await? {
            QuestionAnswer::ImageTicket(ticket) => Ok(ticket),
            other => Err(NeighbourError::Unavailable(reason!("{other:?} is no ticket"))),
        }
    }
}

/// The tickets for one part of what another host has exported.
struct ExportTickets {
    questions: Arc<Questions>,
    source: String,
    part: DiskPart,
}

impl ExportTickets {
    /// Asks the source for a ticket. None if the hosts share the transfer area.
    async fn ask(&self, server: Uuid) -> Result<Option<ExportTicket>, NeighbourError> {
        match self.questions.ask(HostQuestion::ExportTicket { server, source: self.source.clone() }).await? {
            QuestionAnswer::ExportTicket(ticket) => Ok(ticket),
            other => Err(NeighbourError::Unavailable(reason!("{other:?} is no ticket"))),
        }
    }
}

#[async_trait]
impl TicketSource for ExportTickets {
    async fn ticket(&self, server: Uuid, _: bool) -> Result<ImageTicket, NeighbourError> {
        let ticket = self.ask(server).await?;
        let ticket = ticket.ok_or_else(|| NeighbourError::Unavailable(reason!("host {} gives no tickets any more", self.source)))?;
        let DiskPart { name, size, sha256 } = self.part.clone();
        let bytes = ImageBytes { size: Some(size), sha256: Some(sha256) };
        Ok(ImageTicket { url: format!("{}/{name}", ticket.url), secret: ticket.secret, bytes })
    }
}

/// The way upwards of one host.
pub struct AgentUpward {
    questions: Arc<Questions>,
    connections: Connections,
    /// The exports of the agent's hosts; none if it listens nowhere.
    exports: Option<Arc<Exports>>,
}

impl AgentUpward {
    /// Makes the way of the host that asks these questions. It moves bytes by tickets of its own.
    pub fn new(questions: Arc<Questions>, image: &AgentImage, exports: Option<Arc<Exports>>) -> AgentUpward {
        AgentUpward { questions, connections: Connections::new(image.bytes_per_second()), exports }
    }

    /// Returns a client for the images of the server's operation.
    fn images(&self, server: Uuid) -> ImageClient {
        self.connections.client(Arc::new(ImageTickets { questions: self.questions.clone(), server }))
    }
}

#[async_trait]
impl Upward for AgentUpward {
    /// The asker is the host that the connection speaks for, whatever the value says.
    async fn ask(&self, _: &Asker, question: HostQuestion) -> Result<QuestionAnswer, NeighbourError> {
        self.questions.ask(question).await
    }

    async fn download(&self, server: Uuid, image: Uuid) -> Result<(ImageBytes, ByteStream), NeighbourError> {
        self.images(server).download(image).await
    }

    async fn upload(&self, server: Uuid, image: Uuid, data: ByteStream, keep: Keep) -> Result<String, NeighbourError> {
        self.images(server).upload(image, data, keep).await
    }

    async fn export(&self, source: &str, server: Uuid, part: &DiskPart) -> Result<Option<ByteStream>, NeighbourError> {
        let tickets = ExportTickets { questions: self.questions.clone(), source: source.to_owned(), part: part.clone() };
        if self.connections.until_available(|| tickets.ask(server)).await?.is_none() {
            return Ok(None);
        }
        let (_, data) = self.connections.client(Arc::new(tickets)).download(server).await?;
        Ok(Some(data))
    }

    fn export_ticket(&self, reader: &Asker, server: Uuid) -> Result<Option<ExportTicket>, NeighbourError> {
        self.exports.as_ref().map(|exports| exports.ticket(reader, server)).transpose()
    }
}
