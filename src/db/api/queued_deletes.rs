//! Queued deletes: a delete is accepted although it cannot run yet, because the server's cell does not answer or its create has not ended.
//! The request stays on the mapping, and hides the server, until the server is gone.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::instance_mappings::InstanceMappingRow;
use super::schema::instance_mappings as mappings;
use crate::db::columns::Sql;
use crate::db::{DbError, row};
use crate::domain::context::RequestContext;
use crate::domain::delete_request::DeleteRequest;
use crate::domain::instance_mapping::InstanceMapping;

impl ApiDb {
    /// Queues the delete of a server. An earlier request is kept; if it was a soft delete, it becomes a delete for good. [`DbError::NotFound`]
    /// if there is no such server.
    pub async fn queue_delete(&self, instance: Uuid, caller: RequestContext) -> Result<(), DbError> {
        self.queue(instance, caller, false).await
    }

    /// Queues the soft delete of a server, as [`ApiDb::queue_delete`] does.
    pub async fn queue_soft_delete(&self, instance: Uuid, caller: RequestContext) -> Result<(), DbError> {
        self.queue(instance, caller, true).await
    }

    async fn queue(&self, instance: Uuid, caller: RequestContext, deferred: bool) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db
            .write(move |conn| {
                let mut queued = super::instance_mappings::get(conn, instance)?.delete_request;
                let new = DeleteRequest::new(caller, now).deferred(deferred);
                let request = queued.get_or_insert_with(|| new.clone());
                request.joined_by(&new);
                let set = (
                    mappings::queued_for_delete.eq(true),
                    mappings::delete_request.eq(Sql(Some(&*request))),
                    mappings::updated_at.eq(Sql(Some(now))),
                );
                diesel::update(mappings::table.filter(mappings::instance_uuid.eq(Sql(instance)))).set(set).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Records why a queued delete still waits. Succeeds if no delete waits any more.
    pub async fn note_queued_delete(&self, instance: Uuid, why: String) -> Result<(), DbError> {
        self.change_delete(instance, move |request| request.last_error = Some(why.clone())).await
    }

    /// Records that a queued delete was tried and refused, and the time before which it is not tried again. Succeeds if no delete waits
    /// any more.
    pub async fn pause_queued_delete(&self, instance: Uuid, why: String, next_try_at: DateTime<Utc>) -> Result<(), DbError> {
        self.change_delete(instance, move |request| {
            request.attempts = request.attempts.saturating_add(1);
            request.last_error = Some(why.clone());
            request.next_try_at = Some(next_try_at);
        })
        .await
    }

    async fn change_delete(&self, instance: Uuid, change: impl Fn(&mut DeleteRequest) + Send + 'static) -> Result<(), DbError> {
        self.db
            .write(move |conn| {
                let Some(mut request) = super::instance_mappings::get(conn, instance)?.delete_request else { return Ok(()) };
                change(&mut request);
                let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(instance)));
                diesel::update(row).set(mappings::delete_request.eq(Sql(Some(&request)))).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Closes the queued delete of a server that is gone. Succeeds if no delete waits, or the mapping is gone too.
    pub async fn settle_delete(&self, instance: Uuid) -> Result<(), DbError> {
        self.close_delete(instance, true).await
    }

    /// Closes the queued soft delete of a server that is soft-deleted. A delete for good that was requested meanwhile still waits.
    pub async fn settle_soft_delete(&self, instance: Uuid) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db
            .write(move |conn| {
                let waiting = super::instance_mappings::get(conn, instance)?.delete_request.filter(|request| !request.deferred);
                let set = (
                    mappings::queued_for_delete.eq(true),
                    mappings::delete_request.eq(Sql(waiting)),
                    mappings::updated_at.eq(Sql(Some(now))),
                );
                diesel::update(mappings::table.filter(mappings::instance_uuid.eq(Sql(instance)))).set(set).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Closes a queued delete that was refused: the server is visible again.
    pub async fn withdraw_delete(&self, instance: Uuid) -> Result<(), DbError> {
        self.close_delete(instance, false).await
    }

    async fn close_delete(&self, instance: Uuid, queued: bool) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db
            .write(move |conn| {
                let set = (
                    mappings::queued_for_delete.eq(queued),
                    mappings::delete_request.eq(Sql(None::<DeleteRequest>)),
                    mappings::updated_at.eq(Sql(Some(now))),
                );
                diesel::update(mappings::table.filter(mappings::instance_uuid.eq(Sql(instance)))).set(set).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Returns the cells that have queued deletes, ordered by uuid, and shows in metrics how many deletes wait.
    pub async fn cells_with_queued_deletes(&self) -> Result<Vec<Uuid>, DbError> {
        let metrics = self.db.env().metrics().clone();
        self.db
            .read(move |conn| {
                let number: i64 = mappings::table.filter(mappings::delete_request.is_not_null()).count().get_result(conn)?;
                metrics.queued_deletes(usize::try_from(number).unwrap_or_default());
                let waiting = mappings::table.filter(mappings::delete_request.is_not_null()).filter(mappings::cell_uuid.is_not_null());
                let cells: Vec<Option<Uuid>> = waiting.select(mappings::cell_uuid).distinct().order(mappings::cell_uuid).load(conn)?;
                Ok(cells.into_iter().flatten().collect())
            })
            .await
    }

    /// Returns a page of servers with queued deletes, of one cell or all, ordered by uuid, after `marker`.
    pub async fn queued_deletes(&self, cell: Option<Uuid>, marker: Option<Uuid>, limit: i64) -> Result<Vec<InstanceMapping>, DbError> {
        self.db
            .read(move |conn| {
                let mut waiting = mappings::table.filter(mappings::delete_request.is_not_null()).into_boxed();
                if let Some(cell) = cell {
                    waiting = waiting.filter(mappings::cell_uuid.eq(Sql(Some(cell))));
                }
                if let Some(marker) = marker {
                    waiting = waiting.filter(mappings::instance_uuid.gt(Sql(marker)));
                }
                row::load(conn, waiting.order(mappings::instance_uuid).limit(limit).select(InstanceMappingRow::as_select()))
            })
            .await
    }

    /// Counts the queued deletes, including those of servers that no cell has yet.
    pub async fn count_queued_deletes(&self) -> Result<i64, DbError> {
        self.db.read(|conn| Ok(mappings::table.filter(mappings::delete_request.is_not_null()).count().get_result(conn)?)).await
    }
}
