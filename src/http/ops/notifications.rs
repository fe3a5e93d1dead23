//! `GET /ops/v1/notifications`: notifications as server-sent events, from a number on or from now on; or those alone that are kept. On demand
//! operations as they change, too.

use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, HeaderMap};
use actix_web::{HttpResponse, web};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{iter, unfold};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::Operators;
use super::live::Watched;
use crate::actors::notifier::{Record, Subscription};
use crate::domain::reason;
use crate::http::call::Call;
use crate::http::compute::answer::{bad_request, unavailable};
use crate::http::error::{ApiError, ErrorForm};
use crate::http::limits::busy;

/// The maximum silence: proxies and clients take a silent connection for a dead one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The pause in which the events for a page are gathered. Nobody sees it, and each write of an event alone costs as much as one of many.
const GATHERING: Duration = Duration::from_millis(250);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// False for an answer that ends behind the newest notification.
    #[serde(default = "yes")]
    follow: bool,
    /// True for operations as they change, too.
    #[serde(default)]
    operations: bool,
}

fn yes() -> bool {
    true
}

pub async fn follow(
    Call { request, api: operators, catalog, caller, .. }: Call<Operators>,
    query: web::Query<EventsQuery>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:notifications")?;
    if query.operations {
        catalog.allow(&caller, "ops:migrations")?;
        if !query.follow {
            return Err(bad_request("Operations are told as they change: they need follow=true."));
        }
    }
    let after = last_event_id(request.headers())?;
    let place = operators.event_streams.clone().try_acquire_owned();
    let place = place.map_err(|_| busy(ErrorForm::Compute, "Too many streams of notifications are open. Try again shortly."))?;
    let mut answer = HttpResponse::Ok();
    answer.content_type("text/event-stream").insert_header((CACHE_CONTROL, "no-cache"));
    if query.follow {
        let watched = query.operations.then(|| operators.watch.subscribe(operators.clone()));
        let open = Open { subscription: operators.notifier.subscribe(after), watched, stopping: operators.stopping.clone(), _place: place };
        return Ok(answer.streaming(unfold(open, Open::chunk)));
    }
    let mut kept = Kept { subscription: operators.notifier.subscribe(after.or(Some(0))), _place: place };
    let first = kept.subscription.next_kept().await.map_err(|error| unavailable(reason!("{error}")))?;
    Ok(answer.streaming(iter(first.as_ref().map(event).map(Ok)).chain(unfold(kept, Kept::chunk))))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("Last-Event-ID") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| bad_request("Last-Event-ID must be the id of an event: a whole number."))
}

/// A stream without an end.
struct Open {
    subscription: Subscription,
    /// None for a stream without operations.
    watched: Option<Watched>,
    stopping: watch::Receiver<bool>,
    /// The place among the streams that are open at once. It is free again when this stream is dropped.
    _place: OwnedSemaphorePermit,
}

impl Open {
    /// Ends when the service stops, or when the notifier drops a slow reader, which can come back with its last id. A stream with operations
    /// is a page's: events that follow each other at once are written together, because many pages may be open.
    async fn chunk(mut self) -> Option<(Result<Bytes, std::io::Error>, Open)> {
        let first = tokio::select! {
            _ = self.stopping.wait_for(|stopping| *stopping) => return None,
            part = changed(&mut self.watched) => part,
            next = tokio::time::timeout(KEEP_ALIVE, self.subscription.next()) => match next {
                Ok(Some(record)) => event(&record),
                Ok(None) => return None,
                Err(_) => Bytes::from_static(b": still here\n\n"),
            },
        };
        let chunk = if self.watched.is_some() { self.gathered(first).await } else { first };
        Some((Ok(chunk), self))
    }

    /// Returns the events of a pause, of which there is one already.
    async fn gathered(&mut self, first: Bytes) -> Bytes {
        // A service that stops need not wait for the pause's end.
        let _ = tokio::time::timeout(GATHERING, self.stopping.wait_for(|stopping| *stopping)).await;
        let mut chunk = BytesMut::from(first);
        while let Some(part) = self.watched.as_mut().and_then(Watched::try_next) {
            chunk.extend_from_slice(&part);
        }
        while let Some(record) = self.subscription.try_next() {
            chunk.extend_from_slice(&event(&record));
        }
        chunk.freeze()
    }
}

/// Waits for changes of operations; for ever if the stream tells none.
async fn changed(watched: &mut Option<Watched>) -> Bytes {
    match watched {
        Some(watched) => watched.next().await,
        None => std::future::pending().await,
    }
}

/// A stream that ends behind the newest notification.
struct Kept {
    subscription: Subscription,
    /// The place among the streams that are open at once. It is free again when this stream is dropped.
    _place: OwnedSemaphorePermit,
}

impl Kept {
    /// Breaks the answer off if the notifier does not answer any more, so that no reader takes a part for the whole.
    async fn chunk(mut self) -> Option<(Result<Bytes, std::io::Error>, Kept)> {
        let next = self.subscription.next_kept().await.map_err(std::io::Error::other).transpose()?;
        Some((next.map(|record| event(&record)), self))
    }
}

/// The envelope is one line, so it fits one `data:` field.
fn event(record: &Record) -> Bytes {
    Bytes::from(format!("id: {}\ndata: {}\n\n", record.sequence, record.line))
}
