//! A download that goes on where it broke off.

use std::io;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{empty, iter, unfold};
use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Response, StatusCode};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::{FIRST_PAUSE, ImageClient, LONGEST_PAUSE, unreached};
use crate::domain::host_protocol::{ImageTicket, NeighbourError, TICKET_HEADER};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::env::streams::ByteStream;

/// A download under way.
pub(super) struct Download {
    client: ImageClient,
    image: Uuid,
    ticket: ImageTicket,
    /// The connection that brings the bytes; none before the first one, and after a cut.
    answer: Option<Response>,
    /// The number of all bytes; none until an answer tells it, if the image's record does not.
    size: Option<u64>,
    /// The number of bytes that have come.
    read: u64,
    hasher: Sha256,
}

/// The reason why no bytes have come.
enum Broken {
    /// Another try may bring them.
    Off(Reason),
    /// No other try would.
    ForGood(NeighbourError),
}

impl Download {
    /// Makes a download that has read nothing yet.
    pub fn new(client: ImageClient, image: Uuid, ticket: ImageTicket) -> Download {
        let size = ticket.bytes.size;
        Download { client, image, ticket, answer: None, size, read: 0, hasher: Sha256::new() }
    }

    /// Returns the next bytes; none at the end, if all bytes together are those of the image's record.
    pub async fn next(&mut self) -> Result<Option<Bytes>, NeighbourError> {
        let (since, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            if self.size == Some(self.read) {
                return self.check().map(|()| None);
            }
            let why = match self.advance().await {
                Ok(bytes) => {
                    self.client.connections.allowance.pass(bytes.len()).await;
                    return Ok(Some(bytes));
                }
                Err(Broken::ForGood(error)) => return Err(error),
                Err(Broken::Off(why)) => why,
            };
            self.answer = None;
            if since.elapsed() + pause >= self.client.connections.patience.stall {
                return Err(NeighbourError::Unavailable(why));
            }
            log::debug!(image = self.image.to_string().as_str(); "an image's bytes broke off after {}: {why}", self.read);
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Makes a stream of the download that begins with these bytes, which it has read already.
    pub fn stream(self, first: Option<Bytes>) -> ByteStream {
        let Some(first) = first else { return Box::pin(empty()) };
        let rest = unfold(Some(self), |download| async move {
            let mut download = download?;
            match download.next().await {
                Ok(bytes) => bytes.map(|bytes| (Ok(bytes), Some(download))),
                Err(error) => Some((Err(io::Error::other(error)), None)),
            }
        });
        Box::pin(iter([Ok(first)]).chain(rest))
    }

    /// Returns the next bytes of the present connection, or of a new one.
    async fn advance(&mut self) -> Result<Bytes, Broken> {
        let mut answer = match self.answer.take() {
            Some(answer) => answer,
            None => self.open().await?,
        };
        let silence = self.client.connections.patience.silence;
        loop {
            match timeout(silence, answer.chunk()).await {
                Ok(Ok(Some(bytes))) if bytes.is_empty() => {}
                Ok(Ok(Some(bytes))) => {
                    self.answer = Some(answer);
                    return self.take(bytes).map_err(Broken::ForGood);
                }
                Ok(Ok(None)) => return Err(Broken::Off(reason!("the image service ended before the image did"))),
                Ok(Err(error)) => return Err(Broken::Off(unreached(&error))),
                Err(_) => return Err(Broken::Off(reason!("the image service has sent nothing for {} ms", silence.as_millis()))),
            }
        }
    }

    /// Asks for the bytes from the first one that has not come yet.
    async fn open(&mut self) -> Result<Response, Broken> {
        let mut request = self.client.connections.http.get(&self.ticket.url).header(TICKET_HEADER, self.ticket.secret.expose());
        if self.read > 0 {
            request = request.header(RANGE, format!("bytes={}-", self.read));
        }
        let silence = self.client.connections.patience.silence;
        let answer = timeout(silence, request.send()).await;
        let answer = answer.map_err(|_| Broken::Off(reason!("the image service has not answered for {} ms", silence.as_millis())))?;
        let answer = answer.map_err(|error| Broken::Off(unreached(&error)))?;
        match answer.status() {
            StatusCode::OK if self.read == 0 => {
                self.size = self.size.or(answer.content_length());
                Ok(answer)
            }
            StatusCode::PARTIAL_CONTENT if self.continues(&answer) => Ok(answer),
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {
                let image = self.image;
                Err(Broken::ForGood(NeighbourError::Refused(reason!("other bytes of image {image} came than were asked for"))))
            }
            StatusCode::UNAUTHORIZED => {
                self.renew().await?;
                Err(Broken::Off(reason!("the image service does not know the ticket any more")))
            }
            _ => match self.client.refusal(answer).await {
                NeighbourError::Unavailable(why) => Err(Broken::Off(why)),
                error => Err(Broken::ForGood(error)),
            },
        }
    }

    /// True if the answer has the bytes from the first one that has not come yet.
    fn continues(&self, answer: &Response) -> bool {
        let range = answer.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default();
        range.starts_with(&format!("bytes {}-", self.read))
    }

    /// Gets another ticket.
    async fn renew(&mut self) -> Result<(), Broken> {
        let ticket = self.client.tickets.ticket(self.image, false).await.map_err(|error| match error {
            NeighbourError::Unavailable(why) => Broken::Off(why),
            error => Broken::ForGood(error),
        })?;
        if ticket.bytes != self.ticket.bytes {
            return Err(Broken::ForGood(NeighbourError::Conflict(reason!("image {} got other bytes during the download", self.image))));
        }
        self.ticket = ticket;
        Ok(())
    }

    /// Counts bytes that have come.
    fn take(&mut self, bytes: Bytes) -> Result<Bytes, NeighbourError> {
        self.read += bytes.len() as u64;
        if self.size.is_some_and(|size| self.read > size) {
            return Err(NeighbourError::Refused(reason!("image {} has more bytes than its record says", self.image)));
        }
        // A piece is small: its checksum takes less time than a thread for it.
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    /// Compares all bytes with the image's record.
    fn check(&mut self) -> Result<(), NeighbourError> {
        let sha256 = hex::encode(std::mem::take(&mut self.hasher).finalize());
        match self.ticket.bytes.sha256.as_ref() {
            Some(recorded) if *recorded != sha256 => {
                Err(NeighbourError::Refused(reason!("the bytes of image {} are not those of its record", self.image)))
            }
            _ => Ok(()),
        }
    }
}
