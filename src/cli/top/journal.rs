//! The journal of one operation over the lists of `cellshift top`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::News;
use crate::cli::migrations::whole;
use crate::cli::output::printable;
use crate::cli::reach::Login;
use crate::client::OPERATORS;
use crate::saga::migration_view::MigrationView;
use crate::timeline::plain;

/// The pause between two reads.
const READ_EVERY: Duration = Duration::from_secs(2);

/// An open journal.
pub(super) struct Journal {
    pub(super) uuid: String,
    /// Empty until the service has answered.
    pub(super) lines: Vec<String>,
    /// The number of lines above the screen.
    pub(super) scrolled: usize,
}

impl Journal {
    /// Opens the journal of an operation, without its lines.
    pub(super) fn of(uuid: String) -> Journal {
        Journal { uuid, lines: Vec::new(), scrolled: 0 }
    }

    /// Takes a new answer. Lines stay where they are.
    pub(super) fn take(&mut self, answer: Value, now: DateTime<Utc>) {
        self.lines = match serde_json::from_value::<MigrationView>(answer) {
            Ok(view) => whole(&view, now, &plain).lines().map(printable).collect(),
            Err(error) => vec![format!("the journal cannot be read: {error}")],
        };
        self.scroll(0);
    }

    /// Moves by this many lines, and not beyond the last.
    pub(super) fn scroll(&mut self, by: isize) {
        self.scrolled = self.scrolled.saturating_add_signed(by).min(self.lines.len().saturating_sub(1));
    }
}

/// Reads the journal again and again. Logs in for each read: a journal may be open for longer than a token lives.
pub(super) async fn read(login: Login, uuid: String, news: UnboundedSender<News>) {
    loop {
        let answer = match login.clone().client().await {
            Ok(client) => client.get(OPERATORS, &format!("/migrations/{uuid}")).await.map_err(|error| error.to_string()),
            Err(failure) => Err(failure.to_string()),
        };
        if news.send(News::Journal(uuid.clone(), answer)).is_err() {
            return;
        }
        tokio::time::sleep(READ_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_scrolls_within_its_lines() {
        let mut journal = Journal::of("m".into());
        journal.scroll(3);
        assert_eq!(journal.scrolled, 0, "there is nothing yet");
        journal.lines = (0..5).map(|line| line.to_string()).collect();
        journal.scroll(3);
        journal.scroll(3);
        assert_eq!(journal.scrolled, 4);
        journal.scroll(-9);
        assert_eq!(journal.scrolled, 0);
        journal.take(serde_json::json!({}), DateTime::UNIX_EPOCH);
        assert!(journal.lines[0].starts_with("the journal cannot be read"), "{:?}", journal.lines);
    }
}
