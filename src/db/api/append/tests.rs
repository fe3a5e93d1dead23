//! Tests of commits to a journal, on both databases.

use std::collections::BTreeSet;

use chrono::DateTime;

use super::super::operations::NewSaga;
use super::*;
use crate::db::{Schema, fixture};

const SAGA: Uuid = Uuid::from_u128(7);
const SERVER: Uuid = Uuid::from_u128(1);

async fn all_begun() -> Vec<Operations> {
    let mut all = Vec::new();
    for db in fixture::databases(Schema::Api) {
        let operations = Operations::new(db);
        operations.begin(NewSaga::new(SAGA, SERVER, ("stop", 1), "accept", "{}".into(), "one")).await.unwrap();
        all.push(operations);
    }
    all
}

fn line(seq: i64, step: &str, event: &str) -> JournalEntry {
    JournalEntry { seq, step: step.into(), side: "act".into(), attempt: 1, event: event.into(), error: None, at: DateTime::UNIX_EPOCH }
}

/// Returns a commit that ends the first step and begins the next.
fn next(lines: Vec<JournalEntry>) -> Append {
    Append {
        saga: SAGA,
        server: SERVER,
        lease_epoch: 1,
        entries: lines,
        state: SagaState::Running,
        step: "stop_guest".into(),
        context: None,
        error: None,
        begins: true,
        ends: false,
        owed: Vec::new(),
        heeds_cancellation: true,
        follow_up: None,
    }
}

fn fence(attempt: i64) -> Fence {
    Fence { server: SERVER, epoch: 0, attempt }
}

async fn journal(operations: &Operations) -> Vec<(i64, String, i64, String)> {
    let lines = operations.entries(SAGA).await.unwrap();
    lines.into_iter().map(|line| (line.seq, line.step, line.attempt, line.event)).collect()
}

#[tokio::test]
async fn the_line_that_begins_a_step_has_its_attempt() {
    for operations in all_begun().await {
        let failed = JournalEntry { error: Some("the host's disk".into()), ..line(1, "accept", "ok") };
        let lines = vec![failed.clone(), line(2, "idle", "ok"), line(3, "stop_guest", "begun")];
        let context = Some("{\"a\":1}".to_owned());
        let appended = operations.append(Append { context: context.clone(), ..next(lines) }).await.unwrap();
        assert_eq!(appended, Appended { fence: fence(2), cancelled: None, follower: None });
        let entries = [(0, "accept", 1, "begun"), (1, "accept", 1, "ok"), (2, "idle", 1, "ok"), (3, "stop_guest", 2, "begun")];
        assert_eq!(
            journal(&operations).await,
            entries.map(|(seq, step, attempt, event)| (seq, step.to_owned(), attempt, event.to_owned()))
        );
        assert_eq!(operations.entries(SAGA).await.unwrap()[1], failed);
        let record = operations.saga(SAGA).await.unwrap().unwrap();
        assert_eq!((record.step.as_str(), Some(record.context)), ("stop_guest", context.clone()));

        // Without a context the stored one stays; without lines nothing is added.
        let rest = Append { begins: false, error: Some("later".into()), ..next(Vec::new()) };
        assert_eq!(operations.append(rest).await.unwrap().fence, fence(2));
        let record = operations.saga(SAGA).await.unwrap().unwrap();
        assert_eq!((record.error.as_deref(), Some(record.context)), (Some("later"), context));
        let again = operations.append(next(vec![line(4, "stop_guest", "begun")])).await.unwrap();
        assert_eq!((again.fence, journal(&operations).await.len()), (fence(3), 5));
    }
}

#[tokio::test]
async fn a_step_does_not_begin_if_the_saga_is_to_turn_back() {
    for operations in all_begun().await {
        let wish = Cancellation {
            why: "not any more".into(),
            request_id: "req-1".into(),
            user_id: "u".into(),
            project_id: "p".into(),
            asked_at: DateTime::UNIX_EPOCH,
        };
        assert!(operations.cancel(SAGA, wish.clone()).await.unwrap());
        let lines = || vec![line(1, "accept", "ok"), line(2, "stop_guest", "begun")];
        let appended = operations.append(next(lines())).await.unwrap();
        assert_eq!(appended, Appended { fence: fence(1), cancelled: Some(wish), follower: None });
        let events: Vec<String> = journal(&operations).await.into_iter().map(|(_, _, _, event)| event).collect();
        assert_eq!(events, ["begun", "ok"], "its beginning is not written");
        // Past the point of no return nobody heeds it.
        let deaf = Append { heeds_cancellation: false, ..next(vec![line(2, "stop_guest", "begun")]) };
        assert_eq!(operations.append(deaf).await.unwrap(), Appended { fence: fence(2), cancelled: None, follower: None });
    }
}

#[tokio::test]
async fn nothing_is_written_without_the_lease() {
    for operations in all_begun().await {
        let before = (operations.saga(SAGA).await.unwrap(), journal(&operations).await, operations.ownership(SERVER).await.unwrap());
        let lines = || vec![line(1, "accept", "ok"), line(2, "stop_guest", "begun")];
        let late = operations.append(Append { lease_epoch: 2, context: Some("{}".into()), ..next(lines()) }).await;
        assert!(matches!(&late, Err(DbError::Conflict(why)) if why.to_string().contains("another owner")), "{late:?}");
        // A line that is there already is as much of a sign that another has written.
        let repeated = operations.append(next(vec![line(0, "accept", "ok"), line(1, "stop_guest", "begun")])).await;
        assert!(matches!(repeated, Err(DbError::Conflict(_))), "{repeated:?}");
        assert_eq!((operations.saga(SAGA).await.unwrap(), journal(&operations).await, operations.ownership(SERVER).await.unwrap()), before);
    }
}

#[tokio::test]
async fn steps_that_begin_at_once_have_an_attempt_each() {
    for operations in all_begun().await {
        let writes = (1..=6).map(|seq| operations.append(next(vec![line(seq, "stop_guest", "begun")])));
        let appended = futures::future::try_join_all(writes).await.unwrap();
        let attempts: BTreeSet<i64> = appended.iter().map(|appended| appended.fence.attempt).collect();
        assert_eq!(attempts, (2..=7).collect::<BTreeSet<i64>>(), "each has an attempt of its own");
        assert_eq!(operations.ownership(SERVER).await.unwrap().unwrap().attempt, 7);
    }
}
