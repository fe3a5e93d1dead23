//! Operations as they change, for streams. Each change is read once, however many streams tell it, and none is read without a stream.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{Operators, Shared, migrations};
use crate::env::changes::Changes;

/// The pause in which changes are gathered: steps that follow each other at once are told together.
const GATHERING: Duration = Duration::from_millis(200);
/// The operations that are read after a pause. If more have changed, streams say so, and their readers ask for the list.
const CHANGES_MAX: usize = 20;
/// The parts that wait for a slow stream. If it misses some, its reader asks for the list.
const WAITING: usize = 32;
/// The pause between two looks whether a stream is left, while nothing changes.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// Says that operations have changed of which the stream does not tell.
const SOME: Bytes = Bytes::from_static(b"event: operations\ndata: {}\n\n");

/// The changes of operations as server-sent events.
pub struct Watch {
    changes: Changes,
    sender: Sender<Bytes>,
    /// Runs while there are streams.
    reading: Mutex<Option<JoinHandle<()>>>,
}

/// The coming changes for one stream.
pub struct Watched(Receiver<Bytes>);

impl Watch {
    /// Makes the watch over these changes.
    pub fn new(changes: Changes) -> Watch {
        Watch { changes, sender: Sender::new(WAITING), reading: Mutex::new(None) }
    }

    /// Returns the coming changes. The first stream starts the reading.
    pub fn subscribe(&self, operators: Shared<Operators>) -> Watched {
        let mut reading = self.reading.lock();
        let receiver = self.sender.subscribe();
        if reading.as_ref().is_none_or(JoinHandle::is_finished) {
            *reading = Some(actix_rt::spawn(read(operators, self.changes.listen())));
        }
        Watched(receiver)
    }

    /// True if no stream is left. The next one starts the reading again.
    fn rests(&self) -> bool {
        let mut reading = self.reading.lock();
        let rests = self.sender.receiver_count() == 0;
        if rests {
            *reading = None;
        }
        rests
    }
}

impl Watched {
    /// Waits for the next part: one or more whole events.
    pub async fn next(&mut self) -> Bytes {
        match self.0.recv().await {
            Ok(part) => part,
            Err(RecvError::Lagged(_)) => SOME,
            // The sender lives as long as the service.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }

    /// Returns the next part if it is there already.
    pub fn try_next(&mut self) -> Option<Bytes> {
        match self.0.try_recv() {
            Ok(part) => Some(part),
            Err(TryRecvError::Lagged(_)) => Some(SOME),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

async fn read(operators: Shared<Operators>, mut changes: Receiver<Uuid>) {
    loop {
        let first = tokio::time::timeout(BETWEEN_LOOKS, changes.recv()).await;
        if operators.watch.rests() {
            return;
        }
        let part = match first {
            Err(_) => continue,
            Ok(Err(RecvError::Closed)) => return,
            Ok(Err(RecvError::Lagged(_))) => SOME,
            Ok(Ok(first)) => {
                tokio::time::sleep(GATHERING).await;
                match gathered(first, &mut changes) {
                    Some(changed) => events(&operators, changed).await,
                    None => SOME,
                }
            }
        };
        // Fails if the last stream has just ended.
        let _ = operators.watch.sender.send(part);
    }
}

/// Returns the operations that have changed meanwhile. None if they are too many to be told.
fn gathered(first: Uuid, changes: &mut Receiver<Uuid>) -> Option<BTreeSet<Uuid>> {
    let (mut changed, mut is_whole) = (BTreeSet::from([first]), true);
    loop {
        match changes.try_recv() {
            Ok(operation) => drop(changed.insert(operation)),
            Err(TryRecvError::Lagged(_)) => is_whole = false,
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        }
    }
    Some(changed).filter(|changed| is_whole && changed.len() <= CHANGES_MAX)
}

async fn events(operators: &Operators, changed: BTreeSet<Uuid>) -> Bytes {
    match migrations::views_of(operators, changed).await {
        Ok(views) => views.iter().filter_map(event).collect::<String>().into(),
        Err(error) => {
            log::debug!("changes of operations cannot be read: {error}");
            SOME
        }
    }
}

fn event(view: &impl Serialize) -> Option<String> {
    Some(format!("event: operation\ndata: {}\n\n", serde_json::to_string(view).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_changes_are_not_listed() {
        let (changes, id) = (Changes::default(), |number: usize| Uuid::from_u128(number as u128));
        let mut listener = changes.listen();
        for number in [1, 2, 2, 3] {
            changes.note(id(number));
        }
        assert_eq!(gathered(id(1), &mut listener), Some([1, 2, 3].map(id).into()));
        (0..CHANGES_MAX).for_each(|number| changes.note(id(number)));
        assert_eq!(gathered(id(0), &mut listener).map(|changed| changed.len()), Some(CHANGES_MAX));
        (0..=CHANGES_MAX).for_each(|number| changes.note(id(number)));
        assert_eq!(gathered(id(0), &mut listener), None);
        (0..10_000).for_each(|_| changes.note(id(1)));
        assert_eq!(gathered(id(1), &mut listener), None, "some were missed");
    }
}
