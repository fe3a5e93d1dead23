//! A cloud at a glance: what waits for people, each with the command that lists it, what is in flight, the cells, and the operations to look
//! at. `status` prints it once; `top` keeps it on the screen.

mod counts;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

pub(super) use self::counts::{Count, room};
use super::cells::{BRIEFLY, CELL_HEAD, cell_row};
use super::migrations::{HEAD, moves, row};
use super::output::{entries, table, text};
use crate::client::{Client, ClientError, OPERATORS};

/// The longest list of operations.
const SHOWN: u32 = 50;

/// The questions about a cloud.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Question {
    Summary,
    Cells,
    Running,
    Unwinding,
    Waiting,
}

impl Question {
    pub(super) const ALL: [Question; 5] = [Question::Summary, Question::Cells, Question::Running, Question::Unwinding, Question::Waiting];

    /// Returns the key of the answer in an overview.
    fn key(self) -> &'static str {
        match self {
            Question::Summary => "summary",
            Question::Cells => "cells",
            Question::Running => "running",
            Question::Unwinding => "unwinding",
            Question::Waiting => "needs_operator",
        }
    }

    fn path(self) -> String {
        let operations = |filter: &str| format!("/migrations?limit={SHOWN}&{filter}");
        match self {
            Question::Summary => "/summary".to_owned(),
            Question::Cells => BRIEFLY.to_owned(),
            Question::Running => operations(&format!("status=running&saga={}", moves())),
            Question::Unwinding => operations("status=unwinding"),
            Question::Waiting => operations("status=needs_operator"),
        }
    }

    /// Asks the service.
    pub(super) async fn ask(self, client: &Client) -> Result<Value, ClientError> {
        client.get(OPERATORS, &self.path()).await
    }
}

/// An operation in a list: its id, and its row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub(super) uuid: String,
    pub(super) cells: [String; 9],
}

/// The newest answers.
#[derive(Default)]
pub(super) struct Overview {
    answers: Value,
    /// The summary before the newest.
    before: Value,
}

impl Overview {
    /// Reads everything.
    pub(super) async fn read(client: &Client) -> Result<Overview, ClientError> {
        let mut overview = Overview::default();
        for question in Question::ALL {
            if overview.is_worth(question) {
                overview.take(question, question.ask(client).await?);
            }
        }
        Ok(overview)
    }

    /// Returns the answers of the routes, by name.
    pub(super) fn answers(&self) -> &Value {
        &self.answers
    }

    /// False if the summary says that the answer would be an empty list.
    pub(super) fn is_worth(&self, question: Question) -> bool {
        let summary = &self.answers["summary"];
        let operations = |state: &str| summary["operations"][state].as_u64().unwrap_or_default();
        let debts = summary["debts"]["needs_operator"].as_u64().unwrap_or_default();
        match question {
            Question::Summary | Question::Cells => true,
            Question::Running => operations("running") > 0,
            Question::Unwinding => operations("unwinding") > 0,
            Question::Waiting => operations("needs_operator") + debts > 0,
        }
    }

    /// Takes a new answer. A new summary also empties the lists that it says are empty.
    pub(super) fn take(&mut self, question: Question, answer: Value) {
        if !self.answers.is_object() {
            self.answers = json!({});
        }
        if question == Question::Summary {
            self.before = self.answers["summary"].take();
        }
        self.answers[question.key()] = answer;
        for list in [Question::Running, Question::Unwinding, Question::Waiting] {
            if self.answers[list.key()].is_null() || !self.is_worth(list) {
                self.answers[list.key()] = json!({"migrations": []});
            }
        }
    }

    /// Returns what is counted, what waits for people first.
    pub(super) fn counts(&self, now: DateTime<Utc>) -> Vec<Count> {
        counts::of(&self.answers["summary"], &self.before, now)
    }

    /// Returns the rows of the cells.
    pub(super) fn cells(&self, now: DateTime<Utc>) -> Vec<[String; 8]> {
        entries(&self.answers["cells"], "cells").iter().map(|cell| cell_row(cell, now)).collect()
    }

    /// Returns the rows of the moves in flight, and of all operations that go back.
    pub(super) fn in_flight(&self, now: DateTime<Utc>) -> Vec<Listed> {
        let mut rows = self.listed(Question::Unwinding, now);
        rows.extend(self.listed(Question::Running, now));
        rows
    }

    /// Returns the rows of the operations that need an operator.
    pub(super) fn waiting(&self, now: DateTime<Utc>) -> Vec<Listed> {
        self.listed(Question::Waiting, now)
    }

    fn listed(&self, question: Question, now: DateTime<Utc>) -> Vec<Listed> {
        let listed = |migration: &Value| Listed { uuid: text(migration, "uuid").to_owned(), cells: row(migration, now) };
        entries(&self.answers[question.key()], "migrations").iter().map(listed).collect()
    }

    /// Returns the whole as text.
    pub(super) fn text(&self, address: &str, now: DateTime<Utc>) -> String {
        let mut text = format!("cellshift at {address}, {}\n\n", now.format("%Y-%m-%d %H:%M:%SZ"));
        for count in self.counts(now) {
            text += &format!("{}\n", count.line());
        }
        text += &format!("\n{}", table(CELL_HEAD, self.cells(now)));
        for (title, rows) in [("In flight:", self.in_flight(now)), ("Needs an operator:", self.waiting(now))] {
            if !rows.is_empty() {
                text += &format!("\n{title}\n{}", table(HEAD, rows.into_iter().map(|row| row.cells)));
            }
        }
        text
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cli::words::moment;

    pub(in crate::cli) fn at(second: u32) -> DateTime<Utc> {
        moment(&json!(format!("2026-11-27T08:31:{second:02}Z"))).unwrap()
    }

    fn summary(second: u32, running: u64, answered: u64) -> Value {
        json!({
            "at": at(second), "operations": {"running": running, "unwinding": 0, "needs_operator": 0},
            "debts": {"waiting": 2, "needs_operator": 1, "oldest_since": at(0)}, "queued_deletes": 0,
            "requests": {"in_flight": 1, "answered": answered, "buckets": [[0.005, answered / 2], [0.05, answered - answered / 2]], "beyond": 0},
        })
    }

    /// Makes a cloud with a cell and a running move.
    pub(in crate::cli) fn overview() -> Overview {
        overview_of(&[("0123456789", "web")])
    }

    /// Makes a cloud with a cell and running moves, each with its id and the name of its server.
    pub(in crate::cli) fn overview_of(moves: &[(&str, &str)]) -> Overview {
        let mut overview = Overview::default();
        overview.take(Question::Summary, summary(10, 1, 0));
        overview.take(Question::Summary, summary(12, 1, 100));
        let cell = json!({"name": "cell1", "health": "up", "since": at(0), "reason": null, "disabled": false});
        overview.take(Question::Cells, json!({"cells": [cell]}));
        let running = |(uuid, name): &(&str, &str)| {
            json!({"uuid": uuid, "server": "s", "server_name": name, "saga": "resize", "state": "running", "step": "copy",
                "progress": 40, "debts": [], "started_at": at(2), "updated_at": at(3)})
        };
        overview.take(Question::Running, json!({"migrations": moves.iter().map(running).collect::<Vec<_>>()}));
        overview
    }

    #[test]
    fn one_screen_tells_counts_cells_and_moves() {
        let text = overview().text("http://h:1/ops/v1", at(14));
        for part in [
            "cellshift at http://h:1/ops/v1, 2026-11-27 08:31:14Z\n",
            "operations        1 forward, 0 going back\n",
            "need an operator  1  → cellshift migrations --status needs_operator\n",
            "debts             3, the oldest 14 s ago  → cellshift debts\n",
            "requests          1 in flight, 50.0 a second, median 5 ms, 99 % within 50 ms\n",
            "cell1  up      14 s ago",
            "In flight:\nMIGRATION  SERVER  OPERATION",
            "running 40 %  at copy\n",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains("Needs an operator:"), "{text}");
    }

    #[test]
    fn empty_lists_are_not_asked_for() {
        let mut overview = overview();
        assert!(overview.is_worth(Question::Running) && overview.is_worth(Question::Waiting) && !overview.is_worth(Question::Unwinding));
        overview.take(Question::Summary, summary(14, 0, 100));
        assert!(!overview.is_worth(Question::Running));
        assert!(overview.in_flight(at(15)).is_empty());
        assert_eq!(overview.counts(at(15)).last().map(Count::line).as_deref(), Some("requests          1 in flight, 0.0 a second"));
    }

    #[test]
    fn operations_of_another_release_stand_with_the_remedy() {
        let mut overview = overview();
        let mut left = summary(14, 0, 100);
        left["left_alone"] = json!({"operations": 2, "tables": ["version 99 of the table of stop"], "remedy": "start that release"});
        overview.take(Question::Summary, left);
        let screen = overview.text("http://h:1/ops/v1", at(14));
        assert!(screen.contains("\nleft alone        2 of another release: start that release\n"), "{screen}");
    }
}
