//! `GET /ops/v1/notifications`: notifications as server-sent events, from a number on or from now on; or those alone that are kept.

use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, HeaderMap};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures::Stream;
use futures::stream::unfold;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{Catalog, Operators, Shared};
use crate::actors::notifier::{Record, Subscription};
use crate::http::auth::Caller;
use crate::http::compute::answer::bad_request;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::limits::busy;

/// The maximum silence: proxies and clients take a silent connection for a dead one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// False for an answer that ends behind the newest notification.
    #[serde(default = "yes")]
    follow: bool,
}

fn yes() -> bool {
    true
}

pub async fn follow(
    request: HttpRequest,
    asked: web::Query<EventsQuery>,
    caller: Caller,
    catalog: Shared<Catalog>,
    operators: Shared<Operators>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:notifications")?;
    let after = last_event_id(request.headers())?;
    let place = operators.event_streams.clone().try_acquire_owned();
    let place = place.map_err(|_| busy(ErrorForm::Compute, "Too many streams of notifications are open. Try again shortly."))?;
    let mut answer = HttpResponse::Ok();
    answer.content_type("text/event-stream").insert_header((CACHE_CONTROL, "no-cache"));
    if asked.follow {
        return Ok(answer.streaming(events(operators.notifier.subscribe(after), operators.stopping.clone(), place)));
    }
    Ok(answer.streaming(kept(operators.notifier.subscribe(after.or(Some(0))), place)))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("Last-Event-ID") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| bad_request("Last-Event-ID must be the id of an event: a whole number."))
}

/// Ends when the service stops, or when the notifier drops a slow reader, which can come back with its last id. The place is free again
/// when the stream is dropped.
fn events(
    subscription: Subscription,
    stopping: watch::Receiver<bool>,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    unfold((subscription, stopping, place), |(mut subscription, mut stopping, place)| async move {
        let chunk = tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return None,
            next = tokio::time::timeout(KEEP_ALIVE, subscription.next()) => match next {
                Ok(Some(record)) => event(&record),
                Ok(None) => return None,
                Err(_) => Bytes::from_static(b": still here\n\n"),
            },
        };
        Some((Ok(chunk), (subscription, stopping, place)))
    })
}

/// Ends behind the newest notification.
fn kept(subscription: Subscription, place: OwnedSemaphorePermit) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    unfold((subscription, place), |(mut subscription, place)| async move {
        let record = subscription.next_kept().await?;
        Some((Ok(event(&record)), (subscription, place)))
    })
}

/// The envelope is one line, so it fits one `data:` field.
fn event(record: &Record) -> Bytes {
    Bytes::from(format!("id: {}\ndata: {}\n\n", record.sequence, record.line))
}
