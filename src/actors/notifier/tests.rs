//! Tests of order, repetition, restart, torn lines, rotation, and of fast and slow subscribers.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use actix::Actor;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::domain::notification::{Event, InstanceAction, Phase};
use crate::env::{Blocking, RandomIds, SystemClock};

fn env() -> Env {
    Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline)
}

fn config(directory: &Path) -> NotifierConfig {
    NotifierConfig { file: Some(directory.join("notifications.jsonl")), ..NotifierConfig::default() }
}

async fn start(config: NotifierConfig) -> NotifierHandle {
    NotifierHandle::new(Address::new(Notifier::open(config, env()).await.unwrap().start()))
}

fn notification(step: &str) -> Notification {
    let (server, event) = (Uuid::from_u128(1), Event::Instance(InstanceAction::Resize, Phase::Start));
    let payload = event.payload(server, json!({"uuid": server, "display_name": "vm"}));
    Notification { operation: Uuid::from_u128(2), step: step.to_owned(), event, publisher_id: "nova-compute:h1".to_owned(), payload }
}

async fn emit(notifier: &NotifierHandle, steps: std::ops::RangeInclusive<u64>) {
    for step in steps {
        assert_eq!(notifier.emit(notification(&step.to_string())).await, Ok(step));
    }
}

async fn take(subscription: &mut Subscription, count: usize) -> Vec<u64> {
    let mut sequences = Vec::new();
    for _ in 0..count {
        sequences.push(subscription.next().await.unwrap().sequence);
    }
    sequences
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[actix::test]
async fn a_line_is_what_consumers_read() {
    let directory = tempfile::tempdir().unwrap();
    let notifier = start(config(directory.path())).await;
    emit(&notifier, 1..=1).await;
    let [line] = <[Value; 1]>::try_from(lines(&directory.path().join("notifications.jsonl"))).unwrap();
    assert_eq!(line["sequence"], 1);
    assert_eq!(line["event_type"], "instance.resize.start");
    assert_eq!(line["priority"], "INFO");
    assert_eq!(line["publisher_id"], "nova-compute:h1");
    assert_eq!(line["message_id"], notification("1").message_id().to_string());
    assert_eq!(line["payload"]["nova_object.name"], "InstanceActionPayload");
    assert_eq!(line["payload"]["nova_object.data"]["display_name"], "vm");
    assert_eq!(line["payload"]["uuid"], Uuid::from_u128(1).to_string());
    assert_eq!(line["timestamp"].as_str().unwrap().len(), "2026-11-20 12:00:00.000000".len());
}

#[actix::test]
async fn a_restart_goes_on_and_knows_repetitions_and_cuts_a_torn_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notifications.jsonl");
    let notifier = start(config(directory.path())).await;
    emit(&notifier, 1..=3).await;
    assert_eq!(notifier.emit(notification("2")).await, Ok(2), "a retried step");
    for torn in ["{\"sequence\":4,\"event_ty", "\0\0\0\n", "{\"sequence\":4}\n{\"se"] {
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, whole + torn).unwrap();
        let notifier = start(config(directory.path())).await;
        assert_eq!(notifier.emit(notification("3")).await, Ok(3), "a repetition from before the restart");
        let next = lines_kept(&path) + 1;
        assert_eq!(notifier.emit(notification(&format!("after {torn}"))).await, Ok(next));
    }
    let sequences: Vec<Value> = lines(&path).into_iter().map(|line| line["sequence"].clone()).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6]);
}

/// Returns the sound lines of the file.
fn lines_kept(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.split(|byte| *byte == b'\n').filter(|line| serde_json::from_slice::<Envelope>(line).is_ok()).count() as u64
}

#[actix::test]
async fn rotation_is_bounded_and_readers_cross_files() {
    let directory = tempfile::tempdir().unwrap();
    let small = NotifierConfig { rotate_bytes: 2000, keep_files: 3, window: 2, page: 4, ..config(directory.path()) };
    let notifier = start(small.clone()).await;
    emit(&notifier, 1..=40).await;
    let sizes: Vec<u64> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert_eq!(sizes.len(), 4, "the current file and three old ones");
    assert!(sizes.iter().all(|size| *size <= 2000), "{sizes:?}");

    let oldest = notifier.subscribe(Some(0)).next().await.unwrap().sequence;
    assert!(oldest > 1 && oldest < 38, "{oldest}: the oldest files are gone");
    let expected: Vec<u64> = (oldest..=40).collect();
    for notifier in [notifier, start(small).await] {
        assert_eq!(take(&mut notifier.subscribe(Some(0)), expected.len()).await, expected);
        assert_eq!(take(&mut notifier.subscribe(Some(37)), 3).await, [38, 39, 40]);
        assert_eq!(take(&mut notifier.subscribe(Some(39)), 1).await, [40]);
    }
}

#[actix::test]
async fn subscribers_resume_and_a_slow_one_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let tight = NotifierConfig { subscriber_queue: 2, page: 3, window: 4, ..config(directory.path()) };
    let notifier = start(tight).await;
    emit(&notifier, 1..=2).await;
    let mut slow = notifier.subscribe(Some(1));
    assert_eq!(take(&mut slow, 1).await, [2], "live from here");
    emit(&notifier, 3..=20).await;
    assert_eq!(take(&mut slow, 18).await, (3..=20).collect::<Vec<_>>());

    let (mut fresh, mut ahead) = (notifier.subscribe(None), notifier.subscribe(Some(99)));
    let (first, second, _) = futures::future::join3(fresh.next(), ahead.next(), async {
        // Both are subscribed once the notifier has answered a third question that was sent after theirs.
        notifier.subscribe(Some(19)).next().await;
        emit(&notifier, 21..=21).await;
    })
    .await;
    assert_eq!((first.unwrap().sequence, second.unwrap().sequence), (21, 21));
}

#[actix::test]
async fn events_that_have_come_are_read_without_a_wait() {
    let notifier = start(NotifierConfig::default()).await;
    emit(&notifier, 1..=2).await;
    let mut reader = notifier.subscribe(Some(0));
    assert_eq!(reader.try_next(), None, "nothing was asked for");
    assert_eq!(take(&mut reader, 1).await, [1]);
    emit(&notifier, 3..=4).await;
    let come: Vec<u64> = std::iter::from_fn(|| reader.try_next()).map(|record| record.sequence).collect();
    assert_eq!(come, [2, 3, 4]);
}

#[actix::test]
async fn a_reader_of_all_that_is_kept_learns_that_there_was_more() {
    let directory = tempfile::tempdir().unwrap();
    let (actor, thread) = (Notifier::open(config(directory.path()), env()).await.unwrap(), actix::Arbiter::new());
    let notifier = NotifierHandle::new(Address::new(Notifier::start_in_arbiter(&thread.handle(), |_| actor)));
    emit(&notifier, 1..=2).await;
    let mut whole = notifier.subscribe(Some(0));
    let mut read = Vec::new();
    while let Some(record) = whole.next_kept().await.unwrap() {
        read.push(record.sequence);
    }
    assert_eq!(read, [1, 2]);
    thread.stop();
    thread.join().unwrap();
    let failed = notifier.subscribe(Some(0)).next_kept().await;
    assert!(matches!(failed, Err(NotifyError::Unavailable(_))), "{failed:?}");
}

#[actix::test]
async fn subscribers_are_bounded_and_leave_room_when_they_go() {
    let notifier = start(NotifierConfig { max_subscribers: 1, ..NotifierConfig::default() }).await;
    emit(&notifier, 1..=1).await;
    let mut one = notifier.subscribe(Some(0));
    assert_eq!(take(&mut one, 1).await, [1]);
    assert!(notifier.subscribe(Some(0)).next().await.is_none());
    drop(one);
    assert_eq!(take(&mut notifier.subscribe(Some(0)), 1).await, [1]);
}

#[actix::test]
async fn a_failed_write_is_reported_and_leaves_no_gap() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("later");
    let notifier = start(config(&missing)).await;
    assert!(matches!(notifier.emit(notification("1")).await, Err(NotifyError::Storage(_))));
    fs::create_dir(&missing).unwrap();
    emit(&notifier, 1..=2).await;
    assert_eq!(lines(&missing.join("notifications.jsonl")).len(), 2);
}

#[actix::test]
async fn files_stay_until_they_are_published_or_grow_too_large() {
    let directory = tempfile::tempdir().unwrap();
    let rabbitmq = Rabbitmq { urls: vec!["amqp://mq/".to_owned()], ..Rabbitmq::default() };
    let small = NotifierConfig { rotate_bytes: 1000, keep_files: 2, window: 2, rabbitmq, ..config(directory.path()) };
    let files = || fs::read_dir(directory.path()).unwrap().count();
    {
        let opened = Notifier::open(small.clone(), env()).await.unwrap();
        let outbox = opened.outbox();
        let notifier = NotifierHandle::new(Address::new(opened.start()));
        emit(&notifier, 1..=20).await;
        let waiting = files();
        assert!(waiting > 3, "nothing of it is published");
        assert_eq!(outbox.read(0, 100).await.unwrap().len(), 20);
        outbox.note_published(10).await.unwrap();
        let left = outbox.read(0, 100).await.unwrap();
        assert!(files() < waiting && left.iter().any(|record| record.sequence == 11), "only what is published goes");
        outbox.note_published(20).await.unwrap();
        assert_eq!(files(), 3, "the current file and two old ones");
    }
    let full = NotifierConfig { rabbitmq: Rabbitmq { keep_bytes: 3000, ..small.rabbitmq.clone() }, ..small };
    let opened = Notifier::open(full, env()).await.unwrap();
    let outbox = opened.outbox();
    outbox.note_published(20).await.unwrap();
    let notifier = NotifierHandle::new(Address::new(opened.start()));
    emit(&notifier, 21..=60).await;
    let bytes: u64 = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 5000, "{bytes} bytes are kept");
    let first = outbox.read(20, 1).await.unwrap().remove(0).sequence;
    assert!(first > 21, "the oldest were given up");
    assert_eq!(*outbox.watch().borrow(), 60);
}
