//! A client that requests actions on its server, and writes to the server's metadata and looks at it while a story happens. Its history
//! must have no violation.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use cellshift::client::{Client, ClientError};
use serde_json::{Value, json};
use tokio::time::{Interval, interval};

use crate::history::{Answered, Event, History};

/// The pause between two requests.
const TURN_EVERY: Duration = Duration::from_millis(50);

/// The client. Its service may live through outages.
pub struct Witness {
    client: Client,
    server: String,
    history: History,
    written: u64,
    turns: Interval,
}

impl Witness {
    /// Logs in as a cloud of the file, for the owner of the server.
    pub async fn log_in(clouds_file: &Path, cloud: &str, server: &str) -> Witness {
        let client = Client::log_in(clouds_file, cloud).await.expect("a client");
        let history = History { number: 0, events: Vec::new(), outages: true };
        Witness { client, server: format!("/servers/{server}"), history, written: 0, turns: interval(TURN_EVERY) }
    }

    /// Requests an action, whatever becomes of the request.
    pub async fn requests(&mut self, what: &'static str, action: Value) {
        let answer = self.client.post("compute", &format!("{}/action", self.server), action).await;
        self.history.events.push(Event::Request { what, answered: judge(&answer) });
    }

    /// Writes and looks until the story has ended, and once more. Returns what the story returns.
    pub async fn during<T>(&mut self, story: impl Future<Output = T>) -> T {
        let over = Cell::new(false);
        let story = async {
            let outcome = story.await;
            over.set(true);
            outcome
        };
        let watch = async {
            loop {
                let ends = over.get();
                self.write().await;
                self.look().await;
                if ends {
                    return;
                }
            }
        };
        tokio::join!(story, watch).0
    }

    /// Checks the history, and returns the number of moves that were accepted.
    pub fn accepted_moves(&self) -> usize {
        let violations = self.history.violations();
        assert!(violations.is_empty(), "{}\n{}", violations.join("\n"), self.history);
        self.history.moves()
    }

    async fn write(&mut self) {
        self.turns.tick().await;
        self.written += 1;
        let body = json!({"metadata": {"number": self.written.to_string()}});
        let answer = self.client.post("compute", &format!("{}/metadata", self.server), body).await;
        self.history.events.push(Event::Wrote { number: self.written, answered: judge(&answer) });
    }

    /// Looks until there is an answer.
    async fn look(&mut self) {
        loop {
            self.turns.tick().await;
            let answer = self.client.get("compute", &self.server).await;
            match (&answer, judge(&answer)) {
                (Ok(body), _) => return self.history.events.push(saw(&body["server"])),
                (Err(_), Answered::Refused(404)) => return self.history.events.push(Event::Missing),
                (Err(error), Answered::Refused(_)) => panic!("{error}"),
                // The service does not answer now.
                _ => {}
            }
        }
    }
}

fn saw(server: &Value) -> Event {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = server["metadata"]["number"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    Event::Saw { status: text(&server["status"]), flavor: text(&server["flavor"]["original_name"]), number }
}

fn judge(answer: &Result<Value, ClientError>) -> Answered {
    match answer {
        Ok(_) => Answered::Accepted,
        Err(ClientError::Refused { status: status @ 400..500, .. }) => Answered::Refused(*status),
        Err(_) => Answered::Indeterminate,
    }
}
