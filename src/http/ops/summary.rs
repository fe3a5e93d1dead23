//! `GET /ops/v1/summary`: how much is in flight, owed and waiting for people, and how fast requests are answered.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::{Value, json};

use super::cells::instant;
use super::hosts::{Rooms, sums};
use super::unconfirmed::Unconfirmed;
use super::{Catalog, Operators};
use crate::domain::saga_record::UnknownTable;
use crate::http::call::Call;
use crate::http::compute::answer::Answer;
use crate::http::error::ApiError;
use crate::metrics::AnswerCounts;

pub async fn show(Call { request, api: operators, catalog, caller, .. }: Call<Operators>) -> Answer {
    catalog.allow(&caller, "ops:summary")?;
    operators.recent.answer(&request, numbers(&catalog, &operators)).await
}

async fn numbers(catalog: &Catalog, operators: &Operators) -> Result<Value, ApiError> {
    let counts = operators.operations.summary().await?;
    let (unconfirmed, hosts_down) = (Unconfirmed::read(catalog).await, hosts_down(catalog).await);
    let free = operators.event_streams.available_permits();
    Ok(json!({
        "at": instant(catalog.env.now()),
        "operations": {"running": counts.running, "unwinding": counts.unwinding, "needs_operator": counts.needs_operator},
        "left_alone": left_alone(&counts.left_alone, &counts.debts_left_alone),
        "debts": {
            "waiting": counts.debts_waiting,
            "needs_operator": counts.debts_need_operator,
            "oldest_since": counts.oldest_debt.map(instant),
        },
        "queued_deletes": counts.queued_deletes,
        "unconfirmed_moves": unconfirmed.summary(),
        "hosts_down": hosts_down,
        "drains": {"running": counts.drains.running, "paused": counts.drains.paused, "waiting": counts.drains.waiting},
        "silent_cells": unconfirmed.silent_cells,
        "event_streams": {"open": operators.max_event_streams.saturating_sub(free), "max": operators.max_event_streams},
        "requests": catalog.env.metrics().answers().map(requests),
    }))
}

/// Counts the hosts that take no requests. Those of a cell that does not answer are not known.
async fn hosts_down(catalog: &Catalog) -> u64 {
    let rooms = Rooms::none();
    let counted = join_all(catalog.cells.iter().map(|cell| sums(catalog, cell, &rooms))).await;
    counted.iter().map(|(sums, _)| sums.down()).sum()
}

/// Describes the operations and the debts that wait for a release that knows their tables.
fn left_alone(operations: &BTreeMap<UnknownTable, i64>, debts: &BTreeMap<UnknownTable, i64>) -> Value {
    let tables: BTreeSet<String> = operations.keys().chain(debts.keys()).map(UnknownTable::to_string).collect();
    let remedy = (!tables.is_empty()).then_some("start the release that began them, let them end, then change releases");
    let number = |by_table: &BTreeMap<UnknownTable, i64>| by_table.values().sum::<i64>();
    json!({"operations": number(operations), "debts": number(debts), "tables": tables, "remedy": remedy})
}

/// Describes the answers since the start of the process. Two readings give the rate and the percentiles between them.
fn requests(answers: AnswerCounts) -> Value {
    let buckets: Vec<Value> = answers.buckets.iter().map(|(bound, count)| json!([bound, count])).collect();
    json!({"in_flight": answers.in_flight, "answered": answers.answered(), "buckets": buckets, "beyond": answers.beyond})
}
