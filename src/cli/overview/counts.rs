//! The numbers of a cloud. What waits for people comes first, and names the command that lists it.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::cli::output::{counted, entries};
use crate::cli::words::{ago, mebibytes, moment};
use crate::domain::span::span;

/// A number with its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Count {
    pub(in crate::cli) name: &'static str,
    pub(in crate::cli) value: String,
    /// True if somebody should look.
    pub(in crate::cli) is_bad: bool,
    /// The command that lists what is counted.
    command: Option<&'static str>,
}

impl Count {
    /// Makes the number of what may wait for people.
    fn of_waiting(name: &'static str, value: String, is_bad: bool, command: &'static str) -> Count {
        Count { name, value, is_bad, command: Some(command) }
    }

    /// Makes a number for which nobody needs to do anything.
    fn quiet(name: &'static str, value: String) -> Count {
        Count { name, value, is_bad: false, command: None }
    }

    /// Returns the value and, if somebody should look, the command that lists what is counted.
    pub(in crate::cli) fn text(&self) -> String {
        match self.command.filter(|_| self.is_bad) {
            Some(command) => format!("{}  → {command}", self.value),
            None => self.value.clone(),
        }
    }

    /// Returns the line of the number.
    pub(in crate::cli) fn line(&self) -> String {
        format!("{:<17} {}", self.name, self.text())
    }
}

/// Returns the numbers of a summary, beside the rates since the summary before it.
pub(super) fn of(summary: &Value, before: &Value, now: DateTime<Utc>) -> Vec<Count> {
    let (operations, debts) = (&summary["operations"], &summary["debts"]);
    let waiting = number(&operations["needs_operator"]) + number(&debts["needs_operator"]);
    let owed = number(&debts["waiting"]) + number(&debts["needs_operator"]);
    let (down, deletes) = (number(&summary["hosts_down"]), number(&summary["queued_deletes"]));
    let since = oldest(&debts["oldest_since"], now);
    let mut counts = vec![
        Count::of_waiting("need an operator", waiting.to_string(), waiting > 0, "cellshift migrations --status needs_operator"),
        Count::of_waiting("hosts down", down.to_string(), down > 0, "cellshift hosts --state down"),
        unconfirmed(&summary["unconfirmed_moves"], now),
        Count::of_waiting("debts", format!("{owed}{since}"), owed > 0, "cellshift debts"),
        Count::of_waiting("queued deletes", deletes.to_string(), deletes > 0, "cellshift queued-deletes"),
        drains(&summary["drains"]),
        Count::quiet("operations", format!("{} forward, {} going back", operations["running"], operations["unwinding"])),
    ];
    let left_alone = &summary["left_alone"];
    let debts_left = number(&left_alone["debts"]);
    if number(&left_alone["operations"]) + debts_left > 0 {
        let remedy = left_alone["remedy"].as_str().unwrap_or_default();
        let and_debts = if debts_left > 0 { format!(" and {}", counted(debts_left, "debt")) } else { String::new() };
        let value = format!("{}{and_debts} of another release: {remedy}", left_alone["operations"]);
        counts.insert(1, Count { is_bad: true, ..Count::quiet("left alone", value) });
    }
    let silent: Vec<&str> = entries(summary, "silent_cells").iter().filter_map(Value::as_str).collect();
    if !silent.is_empty() {
        let value = format!("{}: their hosts and moves are not counted", silent.join(", "));
        counts.insert(0, Count::of_waiting("silent cells", value, true, "cellshift cells"));
    }
    counts.extend(requests(summary, before).map(|value| Count::quiet("requests", value)));
    counts
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Returns the age of the oldest, after a comma; empty if there is none.
fn oldest(since: &Value, now: DateTime<Utc>) -> String {
    let age = Some(ago(since, now)).filter(|age| !age.is_empty());
    age.map(|age| format!(", the oldest {age}")).unwrap_or_default()
}

/// Counts the moves that wait for confirm or revert, with their age and the room that they hold.
fn unconfirmed(moves: &Value, now: DateTime<Utc>) -> Count {
    let count = number(&moves["count"]);
    let held = room(&moves["room"]);
    let held = if held.is_empty() { held } else { format!(", holding {held}") };
    let value = format!("{count}{}{held}", oldest(&moves["oldest_since"], now));
    Count::of_waiting("unconfirmed moves", value, count > 0, "cellshift unconfirmed")
}

/// Counts the drains. Those that an operator paused, and those that wait for something that does not answer, are to be looked at.
fn drains(drains: &Value) -> Count {
    let numbers = ["running", "paused", "waiting"].map(|state| (number(&drains[state]), state));
    let states: Vec<String> = numbers.iter().filter(|(count, _)| *count > 0).map(|(count, state)| format!("{count} {state}")).collect();
    let value = if states.is_empty() { "0".to_owned() } else { states.join(", ") };
    let stands = number(&drains["paused"]) + number(&drains["waiting"]) > 0;
    Count::of_waiting("drains", value, stands, "cellshift drains")
}

/// Returns amounts of resource classes in words; empty if there are none.
pub(in crate::cli) fn room(room: &Value) -> String {
    let parts = [
        room["VCPU"].as_u64().map(|number| format!("{number} vCPU")),
        room["MEMORY_MB"].as_u64().map(|number| format!("{} of memory", mebibytes(number))),
        room["DISK_GB"].as_u64().map(|number| format!("{number} GB of disk")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns how many requests are in flight and, between two summaries, their rate and percentiles. None without metrics.
fn requests(now: &Value, before: &Value) -> Option<String> {
    let in_flight = now["requests"]["in_flight"].as_u64()?;
    let now_open = format!("{in_flight} in flight");
    let passed = moment(&now["at"]).zip(moment(&before["at"])).map(|(now, before)| (now - before).num_milliseconds());
    let answered = |summary: &Value| summary["requests"]["answered"].as_u64();
    let fresh = answered(now).zip(answered(before)).and_then(|(now, before)| now.checked_sub(before));
    let (Some(passed), Some(fresh)) = (passed.filter(|ms| *ms > 0), fresh) else { return Some(now_open) };
    let rate = fresh as f64 * 1000.0 / passed as f64;
    let at = |part| percentile(&before["requests"], &now["requests"], part);
    let percentiles = at(0.5).zip(at(0.99)).map(|(median, slow)| format!(", median {median}, 99 % within {slow}"));
    Some(format!("{now_open}, {rate:.1} a second{}", percentiles.unwrap_or_default()))
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
    let rank = part * (fresh.iter().map(|(_, count)| count).sum::<u64>() + beyond) as f64;
    let mut passed = 0;
    for (bound, count) in fresh {
        passed += count;
        if count > 0 && passed as f64 >= rank {
            return Some(span(chrono::TimeDelta::microseconds((bound * 1e6) as i64)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_that_wait_for_people_name_their_command() {
        let now = moment(&json!("2026-11-27T10:00:00Z")).unwrap();
        let summary = json!({
            "operations": {"running": 1, "unwinding": 0, "needs_operator": 0}, "debts": {"waiting": 0, "needs_operator": 0}, "queued_deletes": 2,
            "hosts_down": 1, "drains": {"running": 1, "paused": 1, "waiting": 0}, "silent_cells": ["cell3"],
            "unconfirmed_moves": {"count": 3, "oldest_since": "2026-11-27T08:00:00Z", "room": {"VCPU": 6, "MEMORY_MB": 3072, "DISK_GB": 3}},
        });
        let lines: Vec<String> = of(&summary, &Value::Null, now).iter().map(Count::line).collect();
        let expected = [
            "silent cells      cell3: their hosts and moves are not counted  → cellshift cells",
            "need an operator  0",
            "hosts down        1  → cellshift hosts --state down",
            "unconfirmed moves 3, the oldest 2 h ago, holding 6 vCPU, 3.0 GiB of memory, 3 GB of disk  → cellshift unconfirmed",
            "debts             0",
            "queued deletes    2  → cellshift queued-deletes",
            "drains            1 running, 1 paused  → cellshift drains",
            "operations        1 forward, 0 going back",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_service_of_an_older_release_has_no_such_numbers() {
        let lines: Vec<String> = of(&json!({}), &Value::Null, DateTime::UNIX_EPOCH).iter().map(Count::line).collect();
        assert!(lines.contains(&"unconfirmed moves 0".to_owned()) && lines.contains(&"drains            0".to_owned()), "{lines:?}");
    }
}
