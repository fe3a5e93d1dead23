//! `GET /ops/v1/unconfirmed-moves`: the moves that wait for confirm or revert, with the room that their sources keep.

use actix_web::{HttpRequest, web};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cells::instant;
use super::{Catalog, Operators, next_page};
use crate::domain::flavor::Resources;
use crate::domain::migration::UnconfirmedMove;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request};
use crate::http::error::ApiError;

/// The requested page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    limit: Option<u32>,
    marker: Option<Uuid>,
}

/// The unconfirmed moves of all cells that answer, the oldest first.
pub(super) struct Unconfirmed<'a> {
    /// Each move with the name of the cell that it has reached.
    moves: Vec<(&'a str, UnconfirmedMove)>,
    pub(super) silent_cells: Vec<&'a str>,
}

impl<'a> Unconfirmed<'a> {
    /// Reads them from all cells.
    pub(super) async fn read(catalog: &'a Catalog) -> Unconfirmed<'a> {
        let (mut moves, mut silent_cells) = (Vec::new(), Vec::new());
        for heard in catalog.ask_cells(|db| db.unconfirmed_moves()).await {
            match heard.answer {
                Ok(of_cell) => moves.extend(of_cell.into_iter().map(|waiting| (heard.cell.name.as_str(), waiting))),
                Err(_) => silent_cells.push(heard.cell.name.as_str()),
            }
        }
        moves.sort_by_key(|(_, waiting)| (waiting.since(), waiting.migration.uuid));
        Unconfirmed { moves, silent_cells }
    }

    /// Describes them by their number, the age of the oldest, and the room that they hold.
    pub(super) fn summary(&self) -> Value {
        let oldest: Option<DateTime<Utc>> = self.moves.first().map(|(_, oldest)| oldest.since());
        let room: Resources = self.moves.iter().map(|(_, waiting)| waiting.room()).sum();
        json!({"count": self.moves.len(), "oldest_since": oldest.map(instant), "room": room.by_class()})
    }
}

/// Answers `GET`, the oldest first.
pub async fn list(Call { request, api: operators, catalog, caller, .. }: Call<Operators>, query: web::Query<ListQuery>) -> Answer {
    catalog.allow(&caller, "ops:migrations")?;
    operators.recent.answer(&request, page(&request, &query, &catalog, operators.page_size(query.limit))).await
}

async fn page(request: &HttpRequest, query: &ListQuery, catalog: &Catalog, size: u32) -> Result<Value, ApiError> {
    let all = Unconfirmed::read(catalog).await;
    let before = match query.marker {
        None => 0,
        Some(marker) => {
            let at = all.moves.iter().position(|(_, waiting)| waiting.migration.uuid == marker);
            1 + at.ok_or_else(|| bad_request("The marker is not a move that waits."))?
        }
    };
    let page: Vec<_> = all.moves.iter().skip(before).take(size as usize).collect();
    let ids: Vec<Uuid> = page.iter().map(|(_, waiting)| waiting.migration.uuid).collect();
    let mut views = Vec::new();
    for (cell, waiting) in page {
        views.push(view(catalog, cell, waiting).await);
    }
    let mut body = json!({"unconfirmed_moves": views, "silent_cells": all.silent_cells});
    if let Some(next) = next_page(request, size, &ids, &[]) {
        body["unconfirmed_moves_links"] = next;
    }
    Ok(body)
}

async fn view(catalog: &Catalog, cell: &str, waiting: &UnconfirmedMove) -> Value {
    let UnconfirmedMove { migration, server } = waiting;
    let source = &migration.source_compute;
    json!({
        "migration": migration.uuid,
        "server": server.uuid,
        "server_name": server.display_name,
        "project_id": server.project_id,
        "since": instant(waiting.since()),
        "source": {"cell": catalog.cell_of_host(source).await.ok().map(|cell| &cell.name), "host": source},
        "target": {"cell": cell, "host": server.host},
        "flavor": server.old_flavor.as_ref().map(|flavor| &flavor.name),
        "new_flavor": server.flavor.name,
        "room": waiting.room().by_class(),
    })
}
