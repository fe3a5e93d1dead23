//! `GET /ops/v1/audit`: the invariants that do not hold now. `deep=true` also reads all stored bytes, which takes time: the answer is
//! streamed meanwhile, and the reading ends when the client leaves.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{ACCEPT, CACHE_CONTROL};
use actix_web::{HttpResponse, web};
use bytes::Bytes;
use futures::Stream;
use futures::future::LocalBoxFuture;
use futures::stream::unfold;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{Operators, Shared};
use crate::chaos::audit::{Counter, Report, Sources, audit_of, collect, deepen};
use crate::http::call::Call;
use crate::http::compute::answer::conflict;
use crate::http::error::ApiError;
use crate::saga::world::World;

/// The interval at which a deep audit reports its progress, and notices that the client has left.
const PACE: Duration = Duration::from_secs(1);
const EVENTS: &str = "text/event-stream";

#[derive(Deserialize)]
pub struct AuditQuery {
    #[serde(default)]
    deep: bool,
}

pub async fn show(
    Call { request, api: operators, catalog, caller, .. }: Call<Operators>,
    query: web::Query<AuditQuery>,
    world: Shared<World>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:audit")?;
    if !query.deep {
        return Ok(HttpResponse::Ok().json(audit_of(&sources(&world, &operators)).await?));
    }
    let turn = operators.deep_audits.clone().try_acquire_owned();
    let turn = turn.map_err(|_| conflict("A deep audit is under way: there is one at a time."))?;
    let snapshot = collect(&sources(&world, &operators)).await?;
    let counter = Arc::new(Counter::default());
    let progress = counter.clone();
    let files = operators.clone();
    let reading = async move { deepen(&sources(&world, &files), snapshot, &progress).await };
    let accepted = request.headers().get(ACCEPT).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let form = if accepted.contains(EVENTS) { Form::Events } else { Form::Json };
    let answer = Answer { reading: Box::pin(reading), counter, form, stopping: operators.stopping.clone(), _turn: turn };
    let kind = if form == Form::Events { EVENTS } else { "application/json" };
    Ok(HttpResponse::Ok().content_type(kind).insert_header((CACHE_CONTROL, "no-cache")).streaming(chunks(answer)))
}

/// Returns what is audited: the running service and its files.
fn sources<'a>(world: &'a World, operators: &'a Operators) -> Sources<'a> {
    Sources { data_dir: Some(&operators.data_dir), ..Sources::of(world) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `progress` events, and a `report`.
    Events,
    /// The report, after a line break for each second of reading.
    Json,
}

struct Answer {
    reading: LocalBoxFuture<'static, Report>,
    counter: Arc<Counter>,
    form: Form,
    stopping: watch::Receiver<bool>,
    _turn: OwnedSemaphorePermit,
}

impl Answer {
    fn progress(&self) -> Bytes {
        match self.form {
            Form::Events => event("progress", &self.counter.progress()),
            Form::Json => Bytes::from_static(b"\n"),
        }
    }

    fn report(&self, report: &Report) -> Bytes {
        match self.form {
            Form::Events => event("report", report),
            Form::Json => serde_json::to_vec(report).unwrap_or_default().into(),
        }
    }
}

/// Ends with the report, or without it if the service stops. Dropping the stream ends the reading.
fn chunks(answer: Answer) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    unfold(Some(answer), |answer| async move {
        let mut answer = answer?;
        let chunk = tokio::select! {
            biased;
            () = stopped(&mut answer.stopping) => {
                return Some((Err(std::io::Error::other("the service stops")), None));
            }
            report = &mut answer.reading => {
                let last = answer.report(&report);
                return Some((Ok(last), None));
            }
            () = tokio::time::sleep(PACE) => answer.progress(),
        };
        Some((Ok(chunk), Some(answer)))
    })
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // A dropped sender also means that the service stops.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {}\n\n", serde_json::to_string(data).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::StreamExt;
    use tokio::sync::Semaphore;

    use super::*;

    /// Sets its flag when it is dropped.
    struct Reading(Arc<AtomicBool>);

    impl Drop for Reading {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deep_audit_tells_how_far_it_is_and_ends_with_its_client() {
        let (turns, ended) = (Arc::new(Semaphore::new(1)), Arc::new(AtomicBool::new(false)));
        let (_stop, stopping) = watch::channel(false);
        for (form, chunk) in [
            (Form::Events, "event: progress\ndata: {\"files_done\":0,\"files_total\":0,\"bytes_done\":0,\"bytes_total\":0}\n\n"),
            (Form::Json, "\n"),
        ] {
            ended.store(false, Ordering::SeqCst);
            let reading = Reading(ended.clone());
            let reading = async move {
                let _reading = reading;
                futures::future::pending().await
            };
            let turn = turns.clone().try_acquire_owned().unwrap();
            let (counter, stopping) = (Arc::default(), stopping.clone());
            let mut chunks = Box::pin(chunks(Answer { reading: Box::pin(reading), counter, form, stopping, _turn: turn }));
            assert_eq!(chunks.next().await.unwrap().unwrap(), chunk);
            assert!(turns.clone().try_acquire_owned().is_err(), "one at a time");
            drop(chunks);
            assert!(ended.load(Ordering::SeqCst) && turns.try_acquire().is_ok(), "whoever asked has gone");
        }
    }
}
