//! The bytes of images, as a host reads and stores them over HTTP. A controller gives a ticket for each transfer ([`TicketSource`]).

mod allowance;
mod download;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Body, Response, StatusCode};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use self::allowance::Allowance;
use self::download::Download;
use crate::client::message_in;
use crate::domain::host_protocol::{ImageBytes, ImageTicket, NeighbourError, TICKET_HEADER};
use crate::domain::reason;
use crate::domain::reason::{Inside, Reason};
use crate::env::streams::{ByteStream, Keep, Pieces};

/// The maximum number of bytes that are sent at once, so that transfers that share a rate get their turns often enough.
const PIECE: usize = 64 << 10;
/// The pause before the second try. It doubles with each try that brings nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The media type of an image's bytes.
const BYTES: &str = "application/octet-stream";

/// A way to the tickets of controllers.
#[async_trait]
pub trait TicketSource: Send + Sync {
    /// Returns a ticket to read the image's bytes, or to store those of an image that has none.
    async fn ticket(&self, image: Uuid, write: bool) -> Result<ImageTicket, NeighbourError>;
}

/// The time limits of a transfer. There is none for the whole.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a connection.
    pub connection: Duration,
    /// For the next byte of one connection. Beyond it a download tries another one.
    pub silence: Duration,
    /// For the ticket or the next byte of a transfer. Beyond it the transfer fails.
    pub stall: Duration,
    /// For the answer to an upload whose last byte is sent: the service forces the bytes to its disk meanwhile.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            connection: Duration::from_secs(10),
            silence: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            answer: Duration::from_secs(120),
        }
    }
}

/// The connections by which a host moves bytes. Cheap to clone; clones share the rate.
#[derive(Clone)]
pub struct Connections {
    http: reqwest::Client,
    allowance: Arc<Allowance>,
    patience: Patience,
}

/// A host's client for the bytes that its tickets allow it to move. Cheap to clone.
#[derive(Clone)]
pub struct ImageClient {
    tickets: Arc<dyn TicketSource>,
    connections: Connections,
}

/// The answer to an upload.
#[derive(Deserialize)]
struct Stored {
    sha256: String,
}

impl Connections {
    /// Makes connections that move this number of bytes per second in all transfers together; any number with 0.
    pub fn new(bytes_per_second: u64) -> Connections {
        Connections::patient(bytes_per_second, Patience::default())
    }

    /// Makes connections with these time limits.
    pub fn patient(bytes_per_second: u64, patience: Patience) -> Connections {
        // Each transfer has its connection: on one that the service closes meanwhile an upload would break off. A secret follows no
        // redirection.
        let http = reqwest::Client::builder().connect_timeout(patience.connection).pool_max_idle_per_host(0).redirect(Policy::none());
        Connections { http: http.build().unwrap_or_default(), allowance: Arc::new(Allowance::new(bytes_per_second)), patience }
    }

    /// Returns a client that moves what these tickets allow.
    pub fn client(&self, tickets: Arc<dyn TicketSource>) -> ImageClient {
        ImageClient { tickets, connections: self.clone() }
    }

    /// Asks again while the answer is [`NeighbourError::Unavailable`], for as long as a transfer may stall.
    pub async fn until_available<T, F>(&self, ask: impl Fn() -> F) -> Result<T, NeighbourError>
    where
        F: Future<Output = Result<T, NeighbourError>>,
    {
        let (since, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match ask().await {
                Err(NeighbourError::Unavailable(why)) if since.elapsed() + pause < self.patience.stall => {
                    log::debug!("a ticket is asked for again: {why}");
                }
                answer => return answer,
            }
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }
}

impl ImageClient {
    /// Reads the bytes of an image that has its bytes. A transfer that is cut goes on where it broke off, if need be with another ticket.
    /// The stream ends with an error if nothing comes for too long, or if the bytes are not those of the image's record.
    pub async fn download(&self, image: Uuid) -> Result<(ImageBytes, ByteStream), NeighbourError> {
        let ticket = self.ticket(image, false).await?;
        let about = ticket.bytes.clone();
        let mut download = Download::new(self.clone(), image, ticket);
        // The first bytes tell whether there are any, while the caller still gets a reason.
        let first = download.next().await?;
        Ok((about, download.stream(first)))
    }

    /// Stores the bytes of an image that has none yet. Returns their SHA-256 in hex. [`NeighbourError::Conflict`] if it has its bytes;
    /// [`NeighbourError::Unavailable`] if the transfer breaks off: the caller finds in the image's record whether the bytes were stored.
    pub async fn upload(&self, image: Uuid, data: ByteStream, keep: Keep) -> Result<String, NeighbourError> {
        let Connections { http, patience, .. } = &self.connections;
        let ticket = self.ticket(image, true).await?;
        // A sender that breaks off ends the stream with an error, so the service never takes a part for the whole.
        let (pieces, body) = Pieces::stream();
        let request = http.put(&ticket.url).query(&[("in_passing", keep == Keep::InPassing)]);
        let request = request.header(TICKET_HEADER, ticket.secret.expose()).header(CONTENT_TYPE, BYTES).body(Body::wrap_stream(body));
        let (mut answer, mut feeding) = (pin!(request.send()), pin!(self.feed(data, pieces)));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            fed = &mut feeding => {
                fed?;
                timeout(patience.answer, answer).await.map_err(|_| silent("to the upload", patience.answer))?
            }
        };
        let answer = answer.map_err(|error| NeighbourError::Unavailable(unreached(&error)))?;
        if answer.status() != StatusCode::OK {
            return Err(self.refusal(answer).await);
        }
        let stored = timeout(patience.silence, answer.json::<Stored>()).await;
        let stored = stored.map_err(|_| silent("to the upload", patience.silence))?;
        stored.map(|stored| stored.sha256).map_err(|error| NeighbourError::Unavailable(unreached(&error)))
    }

    async fn ticket(&self, image: Uuid, write: bool) -> Result<ImageTicket, NeighbourError> {
        self.connections.until_available(|| self.tickets.ticket(image, write)).await
    }

    /// Sends the bytes at the host's rate.
    async fn feed(&self, mut data: ByteStream, mut pieces: Pieces) -> Result<(), NeighbourError> {
        let Connections { allowance, patience, .. } = &self.connections;
        while let Some(bytes) = data.next().await {
            let mut bytes =
                bytes.map_err(|error| NeighbourError::Unavailable(reason!("the bytes to store broke off: {}", Inside(error))))?;
            while !bytes.is_empty() {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                allowance.pass(piece.len()).await;
                let sent = timeout(patience.stall, pieces.send(piece)).await;
                // The request has ended without its body: its answer says why.
                if sent.map_err(|_| silent("to an image's bytes", patience.stall))?.is_err() {
                    return Ok(());
                }
            }
        }
        let ended = timeout(patience.stall, pieces.end()).await;
        ended.map_err(|_| silent("to an image's bytes", patience.stall)).map(drop)
    }

    /// Returns the error that an answer says.
    async fn refusal(&self, answer: Response) -> NeighbourError {
        let status = answer.status();
        let body = timeout(self.connections.patience.silence, answer.text()).await;
        let reason = Reason::public(message_in(body.map(Result::unwrap_or_default).unwrap_or_default()));
        let reason = reason!("the image service answers with {}: {reason}", status.as_u16());
        match status {
            StatusCode::NOT_FOUND => NeighbourError::Missing(reason),
            StatusCode::CONFLICT => NeighbourError::Conflict(reason),
            // Another ticket or another time may do.
            StatusCode::UNAUTHORIZED | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => NeighbourError::Unavailable(reason),
            status if status.is_server_error() => NeighbourError::Unavailable(reason),
            _ => NeighbourError::Refused(reason),
        }
    }
}

fn silent(to: &str, patience: Duration) -> NeighbourError {
    NeighbourError::Unavailable(reason!("the image service has not answered {to} for {} ms", patience.as_millis()))
}

fn unreached(error: &reqwest::Error) -> Reason {
    reason!("the image service does not answer: {}", Inside(format!("{error:?}")))
}
