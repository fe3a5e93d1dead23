//! Cancellation: the wish that an operation in flight turn back is stored with the operation until its runner reads it. A queued delete
//! takes the server in the commit that ends the earlier operation.

use std::fmt;
use std::sync::Arc;

use chrono::NaiveDateTime;
use diesel::prelude::*;
use uuid::Uuid;

use super::instance_mappings;
use super::operations::{NewSaga, Operations, begin_in, operations, parse, sagas};
use super::schema::instance_mappings as mappings;
use crate::db::clock::ClockTime;
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::cancellation::Cancellation;
use crate::domain::delete_request::DeleteRequest;
use crate::domain::saga_state::SagaState;

/// The kind of a delete. No delete turns back for another delete.
pub(super) const DELETE: &str = "delete";

/// Makes the saga of a queued delete, for the lease owner who ends the operation before it. None leaves the delete for a later round.
#[derive(Clone)]
pub struct FollowUp(Arc<Making>);

type Making = dyn Fn(&DeleteRequest, &str) -> Option<NewSaga> + Send + Sync;

impl FollowUp {
    /// Wraps a function that makes the saga from the request and the lease owner's name.
    pub fn new(making: impl Fn(&DeleteRequest, &str) -> Option<NewSaga> + Send + Sync + 'static) -> FollowUp {
        FollowUp(Arc::new(making))
    }
}

impl fmt::Debug for FollowUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FollowUp")
    }
}

impl Operations {
    /// Records the wish that the operation in flight be cancelled. The first wish is kept. False if the operation is not in flight.
    pub async fn cancel(&self, saga: Uuid, wish: Cancellation) -> Result<bool, DbError> {
        self.db().write(move |conn| if holds(conn, saga)? { wish_in(conn, saga, &wish).map(|()| true) } else { Ok(false) }).await
    }

    /// Returns the wish that the operation be cancelled.
    pub async fn wish(&self, saga: Uuid) -> Result<Option<Cancellation>, DbError> {
        self.db().read(move |conn| of(conn, &saga.to_string())).await
    }

    /// Records in one commit the request to delete the server, and the wish to cancel the operation that holds it. Returns that operation.
    /// An earlier request is kept; if it was a soft delete and this one deletes for good, it becomes a delete for good. If no operation
    /// holds the server, returns None and records nothing.
    pub async fn delete_after(&self, server: Uuid, request: DeleteRequest, wish: Cancellation) -> Result<Option<Uuid>, DbError> {
        self.db()
            .write(move |conn| {
                let holder: Option<String> =
                    operations::table.find(server.to_string()).select(operations::saga_id).first(conn).optional()?;
                let Some(holder) = holder.map(|id| parse(&id)).transpose()? else { return Ok(None) };
                if !holds(conn, holder)? {
                    return Ok(None);
                }
                let waiting = instance_mappings::get(conn, server)?.delete_request;
                let mut first = waiting.clone().unwrap_or_else(|| request.clone());
                first.joined_by(&request);
                if waiting.as_ref() != Some(&first) {
                    let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(server)));
                    diesel::update(row).set(mappings::delete_request.eq(Sql(Some(&first)))).execute(conn)?;
                }
                let kind: String = sagas::table.find(holder.to_string()).select(sagas::kind).first(conn)?;
                if kind != DELETE {
                    wish_in(conn, holder, &wish)?;
                }
                Ok(Some(holder))
            })
            .await
    }
}

/// True if the operation is in flight. An update, not a read: on PostgreSQL it makes this commit and the operation's end wait for each
/// other.
fn holds(conn: &mut Conn, saga: Uuid) -> Result<bool, DbError> {
    let id = saga.to_string();
    diesel::update(sagas::table.find(&id)).set(sagas::lease_epoch.eq(sagas::lease_epoch)).execute(conn)?;
    let held: i64 = operations::table.filter(operations::saga_id.eq(id)).count().get_result(conn)?;
    Ok(held > 0)
}

/// Skips a saga that has ended: it may hold its server for a debt, but there is nothing left to cancel.
fn wish_in(conn: &mut Conn, saga: Uuid, wish: &Cancellation) -> Result<(), DbError> {
    let open = sagas::table.find(saga.to_string()).filter(sagas::cancellation.is_null()).filter(sagas::state.ne_all(SagaState::OVER));
    diesel::update(open).set(sagas::cancellation.eq(Sql(Some(wish)))).execute(conn)?;
    Ok(())
}

/// Returns the wish that the saga be cancelled.
fn of(conn: &mut Conn, saga: &str) -> Result<Option<Cancellation>, DbError> {
    Ok(sagas::table.find(saga).select(sagas::cancellation).first(conn).optional()?.flatten())
}

/// Returns the delete that waits for the server.
pub(super) fn waiting_delete(conn: &mut Conn, server: Uuid) -> Result<Option<DeleteRequest>, DbError> {
    let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(server)));
    Ok(row.select(mappings::delete_request).first(conn).optional()?.flatten())
}

/// Hands the server of a saga that ends to its queued delete. Skips a delete that is not in sight, because a cell must answer first. Skips
/// it after a delete that failed: the next periodic round tries again.
pub(super) fn follow(
    conn: &mut Conn,
    ended: &str,
    server: Uuid,
    follow_up: &FollowUp,
    (now, until): (NaiveDateTime, ClockTime),
) -> Result<Option<Uuid>, DbError> {
    let Some(request) = waiting_delete(conn, server)?.filter(|request| request.in_sight) else { return Ok(None) };
    let (kind, owner): (String, String) = sagas::table.find(ended).select((sagas::kind, sagas::lease_owner)).first(conn)?;
    let Some(new) = (follow_up.0)(&request, &owner).filter(|_| kind != DELETE) else { return Ok(None) };
    let id = new.id;
    begin_in(conn, new, now, until)?;
    Ok(Some(id))
}
