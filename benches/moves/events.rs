//! Follows the notifications as an operator does. They tell when to look at a server, so that waiting for 64 servers does not load the
//! service with useless requests.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::client::Client;
use crate::stage::PATIENCE;

/// `GET /ops/v1/notifications`, read by a task.
pub struct Events {
    board: Arc<Mutex<Board>>,
    reader: JoinHandle<()>,
}

/// The events of each server, and the waiters. No event happens twice to a server here.
#[derive(Default)]
struct Board {
    happened: HashSet<(Uuid, String)>,
    waiting: HashMap<(Uuid, String), oneshot::Sender<()>>,
}

impl Events {
    pub async fn follow(admin: &Client) -> Events {
        let mut answer = admin.follow("/ops/v1/notifications").await.bytes_stream();
        let board: Arc<Mutex<Board>> = Arc::default();
        let shared = board.clone();
        let reader = tokio::spawn(async move {
            let mut pending = Vec::new();
            while let Some(Ok(chunk)) = answer.next().await {
                pending.extend_from_slice(&chunk);
                while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = pending.drain(..=end).collect();
                    if let Some(event) = line.strip_prefix(b"data: ") {
                        tell(&shared, &serde_json::from_slice(event).expect("an event"));
                    }
                }
            }
        });
        Events { board, reader }
    }

    /// Waits until the event has happened to the server.
    pub async fn until(&self, server: Uuid, event: &str) {
        let (sender, receiver) = oneshot::channel();
        {
            let mut board = self.board.lock();
            let key = (server, event.to_owned());
            if board.happened.contains(&key) {
                return;
            }
            board.waiting.insert(key, sender);
        }
        let answer = tokio::time::timeout(PATIENCE, receiver).await;
        answer.unwrap_or_else(|_| panic!("{event} of server {server} in time")).expect("the events go on");
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

fn tell(board: &Mutex<Board>, event: &Value) {
    let server = event["payload"]["uuid"].as_str().and_then(|id| id.parse::<Uuid>().ok());
    let (Some(server), Some(kind)) = (server, event["event_type"].as_str()) else { return };
    let mut board = board.lock();
    let key = (server, kind.to_owned());
    if let Some(waiting) = board.waiting.remove(&key) {
        // A waiter that has given up has panicked itself.
        let _ = waiting.send(());
    }
    board.happened.insert(key);
}
