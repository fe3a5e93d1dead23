//! A cloud at a glance: how much is in flight, owed and waiting, the cells, and the operations to look at. `status` prints it once; `top`
//! keeps it on the screen.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::cells::{BRIEFLY, CELL_HEAD, cell_row};
use super::migrations::{HEAD, moves, row};
use super::output::{entries, table};
use super::words::{ago, moment};
use crate::client::{Client, ClientError, OPERATORS};
use crate::domain::span::span;

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

    /// Returns what is counted: a name, its value, and whether somebody should look.
    pub(super) fn counts(&self, now: DateTime<Utc>) -> Vec<(&'static str, String, bool)> {
        let summary = &self.answers["summary"];
        let (operations, debts) = (&summary["operations"], &summary["debts"]);
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let waiting = number(&operations["needs_operator"]) + number(&debts["needs_operator"]);
        let owed = number(&debts["waiting"]) + number(&debts["needs_operator"]);
        let oldest = Some(ago(&debts["oldest_since"], now)).filter(|age| !age.is_empty());
        let oldest = oldest.map(|age| format!(", the oldest of {age}")).unwrap_or_default();
        let mut counts = vec![
            ("operations", format!("{} forward, {} going back", operations["running"], operations["unwinding"]), false),
            ("need an operator", waiting.to_string(), waiting > 0),
            ("debts", format!("{owed}{oldest}"), owed > 0),
            ("queued deletes", summary["queued_deletes"].to_string(), number(&summary["queued_deletes"]) > 0),
        ];
        let left_alone = &summary["left_alone"];
        let debts_left = number(&left_alone["debts"]);
        if number(&left_alone["operations"]) + debts_left > 0 {
            let remedy = left_alone["remedy"].as_str().unwrap_or_default();
            let and_debts = if debts_left > 0 { format!(" and {debts_left} debts") } else { String::new() };
            counts.insert(2, ("left alone", format!("{}{and_debts} of another release: {remedy}", left_alone["operations"]), true));
        }
        if let Some(requests) = self.requests() {
            counts.push(("requests", requests, false));
        }
        counts
    }

    /// Returns how many requests are in flight and, between two summaries, their rate and percentiles. None without metrics.
    fn requests(&self) -> Option<String> {
        let (now, before) = (&self.answers["summary"], &self.before);
        let in_flight = now["requests"]["in_flight"].as_u64()?;
        let told = format!("{in_flight} in flight");
        let passed = moment(&now["at"]).zip(moment(&before["at"])).map(|(now, before)| (now - before).num_milliseconds());
        let answered = |summary: &Value| summary["requests"]["answered"].as_u64();
        let fresh = answered(now).zip(answered(before)).and_then(|(now, before)| now.checked_sub(before));
        let (Some(passed), Some(fresh)) = (passed.filter(|ms| *ms > 0), fresh) else { return Some(told) };
        let rate = fresh as f64 * 1000.0 / passed as f64;
        let at = |part| percentile(&before["requests"], &now["requests"], part);
        let percentiles = at(0.5).zip(at(0.99)).map(|(median, slow)| format!(", median {median}, 99 % within {slow}"));
        Some(format!("{told}, {rate:.1} a second{}", percentiles.unwrap_or_default()))
    }

    /// Returns the rows of the cells.
    pub(super) fn cells(&self, now: DateTime<Utc>) -> Vec<[String; 8]> {
        entries(&self.answers["cells"], "cells").iter().map(|cell| cell_row(cell, now)).collect()
    }

    /// Returns the rows of the moves in flight, and of all operations that go back.
    pub(super) fn in_flight(&self, now: DateTime<Utc>) -> Vec<[String; 9]> {
        let of = |question: Question| entries(&self.answers[question.key()], "migrations").iter();
        of(Question::Unwinding).chain(of(Question::Running)).map(|migration| row(migration, now)).collect()
    }

    /// Returns the rows of the operations that need an operator.
    pub(super) fn waiting(&self, now: DateTime<Utc>) -> Vec<[String; 9]> {
        entries(&self.answers[Question::Waiting.key()], "migrations").iter().map(|migration| row(migration, now)).collect()
    }

    /// Returns the whole as text.
    pub(super) fn text(&self, address: &str, now: DateTime<Utc>) -> String {
        let mut text = format!("cellshift at {address}, {}\n\n", now.format("%Y-%m-%d %H:%M:%SZ"));
        for (name, value, _) in self.counts(now) {
            text += &format!("{name:<17} {value}\n");
        }
        text += &format!("\n{}", table(CELL_HEAD, self.cells(now)));
        for (title, rows) in [("In flight:", self.in_flight(now)), ("Needs an operator:", self.waiting(now))] {
            if !rows.is_empty() {
                text += &format!("\n{title}\n{}", table(HEAD, rows));
            }
        }
        text
    }
}

/// Returns a percentile of the answers between two readings of the buckets; none without answers.
fn percentile(before: &Value, now: &Value, part: f64) -> Option<String> {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let buckets = entries(now, "buckets").iter().enumerate();
    let fresh: Vec<(f64, u64)> = buckets
        .map(|(at, bucket)| {
            let earlier = number(&before["buckets"][at][1]);
            (bucket[0].as_f64().unwrap_or_default(), number(&bucket[1]).saturating_sub(earlier))
        })
        .collect();
    let beyond = number(&now["beyond"]).saturating_sub(number(&before["beyond"]));
    let wanted = part * (fresh.iter().map(|(_, count)| count).sum::<u64>() + beyond) as f64;
    let mut passed = 0;
    for (bound, count) in fresh {
        passed += count;
        if count > 0 && passed as f64 >= wanted {
            return Some(span(chrono::TimeDelta::microseconds((bound * 1e6) as i64)));
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

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
        let mut overview = Overview::default();
        overview.take(Question::Summary, summary(10, 1, 0));
        overview.take(Question::Summary, summary(12, 1, 100));
        let cell = json!({"name": "cell1", "health": "up", "since": at(0), "reason": null, "disabled": false});
        overview.take(Question::Cells, json!({"cells": [cell]}));
        let running = json!({"uuid": "0123456789", "server": "s", "server_name": "web", "saga": "resize", "state": "running", "step": "copy",
            "progress": 40, "debts": [], "started_at": at(2), "updated_at": at(3)});
        overview.take(Question::Running, json!({"migrations": [running]}));
        overview
    }

    #[test]
    fn one_screen_tells_counts_cells_and_moves() {
        let told = overview().text("http://h:1/ops/v1", at(14));
        for wanted in [
            "cellshift at http://h:1/ops/v1, 2026-11-27 08:31:14Z\n",
            "operations        1 forward, 0 going back\n",
            "need an operator  1\n",
            "debts             3, the oldest of 14 s ago\n",
            "requests          1 in flight, 50.0 a second, median 5 ms, 99 % within 50 ms\n",
            "cell1  up      14 s ago",
            "In flight:\nMIGRATION  SERVER  OPERATION",
            "running 40 %  at copy\n",
        ] {
            assert!(told.contains(wanted), "{wanted:?} in\n{told}");
        }
        assert!(!told.contains("Needs an operator:"), "{told}");
    }

    #[test]
    fn empty_lists_are_not_asked_for() {
        let mut overview = overview();
        assert!(overview.is_worth(Question::Running) && overview.is_worth(Question::Waiting) && !overview.is_worth(Question::Unwinding));
        overview.take(Question::Summary, summary(14, 0, 100));
        assert!(!overview.is_worth(Question::Running));
        assert!(overview.in_flight(at(15)).is_empty());
        assert_eq!(overview.counts(at(15))[4].1, "1 in flight, 0.0 a second");
    }

    #[test]
    fn operations_of_another_release_are_told_with_the_remedy() {
        let mut overview = overview();
        let mut left = summary(14, 0, 100);
        left["left_alone"] = json!({"operations": 2, "tables": ["version 99 of the table of stop"], "remedy": "start that release"});
        overview.take(Question::Summary, left);
        let screen = overview.text("http://h:1/ops/v1", at(14));
        assert!(screen.contains("\nleft alone        2 of another release: start that release\n"), "{screen}");
    }
}
