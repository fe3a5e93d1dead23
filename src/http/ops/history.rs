//! `GET /ops/v1/history`: the last hour of this process in steps of ten seconds: its answers and failures, the moves that ended, and the room
//! of each cell. The hour is kept in memory, so a page that is opened after a fault shows what was before it; a new process begins anew.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use actix_web::web;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::cells::instant;
use super::hosts::{Room, Rooms};
use super::{Catalog, Operators, Shared};
use crate::domain::saga_state::SagaState;
use crate::http::call::Call;
use crate::http::compute::answer::Answer;
use crate::metrics::Metrics;
use crate::saga::context::Kind;

/// The time from one sample to the next.
const STEP: Duration = Duration::from_secs(10);
/// The number of samples that are kept: those of an hour.
const KEPT: usize = 360;
/// The classes of resources whose room is kept.
const CLASSES: [&str; 3] = ["VCPU", "MEMORY_MB", "DISK_GB"];

/// The last hour of a process.
#[derive(Default)]
pub struct History(Mutex<VecDeque<Sample>>);

/// The counts of a step, and the room at its end.
#[derive(Clone)]
struct Sample {
    at: DateTime<Utc>,
    /// None if metrics are switched off.
    counts: Option<Counts>,
    /// In the order of the catalog's cells; none of a cell whose room is not known.
    rooms: Vec<Option<[Room; CLASSES.len()]>>,
}

/// Events of a process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Counts {
    requests: u64,
    failures: u64,
    moves: u64,
    moves_back: u64,
}

impl Counts {
    /// Reads the events since the start of the process. None if metrics are switched off.
    fn read(metrics: &Metrics) -> Option<Counts> {
        let answers = metrics.answers()?;
        let ended = |end: SagaState| Kind::moves().map(|kind| metrics.operations_ended(kind.as_str(), end.as_str())).sum();
        Some(Counts {
            requests: answers.answered(),
            failures: answers.failures,
            moves: ended(SagaState::Done),
            moves_back: ended(SagaState::Unwound),
        })
    }

    /// Returns the events after an earlier reading.
    fn since(self, earlier: Counts) -> Counts {
        Counts {
            requests: self.requests.saturating_sub(earlier.requests),
            failures: self.failures.saturating_sub(earlier.failures),
            moves: self.moves.saturating_sub(earlier.moves),
            moves_back: self.moves_back.saturating_sub(earlier.moves_back),
        }
    }
}

impl History {
    fn add(&self, sample: Sample) {
        let mut samples = self.0.lock();
        if samples.len() == KEPT {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns the samples after this moment, oldest first; all of them without a moment.
    fn after(&self, moment: Option<DateTime<Utc>>) -> Vec<Sample> {
        self.0.lock().iter().filter(|sample| moment.is_none_or(|moment| sample.at > moment)).cloned().collect()
    }
}

/// Takes a sample now and after each step, until the service stops.
pub async fn keep(operators: Shared<Operators>, catalog: Shared<Catalog>) {
    let mut stopping = operators.stopping.clone();
    let mut earlier = Counts::default();
    loop {
        let total = Counts::read(catalog.env.metrics());
        let rooms = Rooms::read(&catalog).await;
        operators.history.add(Sample {
            at: catalog.env.now(),
            counts: total.map(|total| total.since(earlier)),
            rooms: catalog.cells.iter().map(|cell| rooms.of_cell(cell, CLASSES)).collect(),
        });
        earlier = total.unwrap_or_default();
        if stops_within(&mut stopping, STEP).await {
            return;
        }
    }
}

/// Waits for this time. Returns true at once when the service stops.
async fn stops_within(stopping: &mut watch::Receiver<bool>, time: Duration) -> bool {
    tokio::time::timeout(time, stopping.wait_for(|stops| *stops)).await.is_ok()
}

/// The moment after which samples are asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    since: Option<DateTime<Utc>>,
}

/// Answers `GET /history`.
pub async fn show(Call { request, api: operators, catalog, caller, .. }: Call<Operators>, query: web::Query<HistoryQuery>) -> Answer {
    catalog.allow(&caller, "ops:summary")?;
    let samples = operators.history.after(query.since);
    operators.recent.answer(&request, async { Ok(described(&catalog, &samples)) }).await
}

fn described(catalog: &Catalog, samples: &[Sample]) -> Value {
    let cells: Vec<&str> = catalog.cells.iter().map(|cell| cell.name.as_str()).collect();
    let samples: Vec<Value> = samples.iter().map(|sample| view(&cells, sample)).collect();
    json!({"step_seconds": STEP.as_secs(), "samples": samples})
}

fn view(cells: &[&str], sample: &Sample) -> Value {
    let by_class = |room: [Room; CLASSES.len()]| CLASSES.into_iter().zip(room).collect::<BTreeMap<_, _>>();
    let room: BTreeMap<_, _> = cells.iter().zip(&sample.rooms).map(|(cell, room)| (cell, room.map(by_class))).collect();
    json!({
        "at": instant(sample.at),
        "requests": sample.counts.map(|counts| counts.requests),
        "failures": sample.counts.map(|counts| counts.failures),
        "moves": sample.counts.map(|counts| counts.moves),
        "moves_back": sample.counts.map(|counts| counts.moves_back),
        "room": room,
    })
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn at(seconds: usize) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(i64::try_from(seconds).unwrap())
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let history = History::default();
        for second in 0..=KEPT {
            history.add(Sample { at: at(second), counts: None, rooms: vec![None] });
        }
        let kept = history.after(None);
        assert_eq!((kept.len(), kept[0].at), (KEPT, at(1)));
        assert_eq!(history.after(Some(at(KEPT - 1))).len(), 1);
        assert!(history.after(Some(at(KEPT))).is_empty());
        assert_eq!(view(&["cell1"], &kept[0])["requests"], Value::Null, "nothing is counted without metrics");
        assert_eq!(view(&["cell1"], &kept[0])["room"], json!({"cell1": null}));
    }

    #[test]
    fn a_step_counts_what_came_after_the_one_before() {
        let metrics = Metrics::on();
        assert_eq!(Counts::read(&Metrics::off()), None);
        metrics.request_ended(None, "GET", 200, Duration::ZERO);
        let earlier = Counts::read(&metrics).unwrap();
        metrics.request_ended(None, "GET", 503, Duration::ZERO);
        metrics.operation_ended("resize", "done", Duration::ZERO);
        metrics.operation_ended("create", "done", Duration::ZERO);
        metrics.operation_ended("live_migrate", "unwound", Duration::ZERO);
        let counts = Counts { requests: 1, failures: 1, moves: 1, moves_back: 1 };
        assert_eq!(Counts::read(&metrics).unwrap().since(earlier), counts);
        assert!(!metrics.text().contains("kind=\"evacuate\""), "a reading makes no samples");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_the_wait_for_the_next_sample() {
        let (sender, mut stopping) = watch::channel(false);
        assert!(!stops_within(&mut stopping, STEP).await);
        sender.send_replace(true);
        assert!(stops_within(&mut stopping, STEP).await);
    }
}
