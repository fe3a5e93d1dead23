//! Cancellation: the wish that an operation in flight be turned back, kept with the operation until its runner looks at it, and the
//! delete that takes the server in the commit in which the operation before ends.

use std::fmt;
use std::sync::Arc;

use chrono::NaiveDateTime;
use diesel::prelude::*;
use uuid::Uuid;

use super::instance_mappings;
use super::operations::{NewSaga, Operations, begin_in, operations, parse, sagas};
use super::schema::instance_mappings as mappings;
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::cancellation::Cancellation;
use crate::domain::delete_request::DeleteRequest;
use crate::domain::saga_state::SagaState;

/// The kind of a delete: it is not turned back for another one.
pub(super) const DELETE: &str = "delete";

/// Makes the operation that carries a waiting delete out, for the owner that ends the operation before. None leaves it to be found later.
#[derive(Clone)]
pub struct FollowUp(Arc<Making>);

type Making = dyn Fn(&DeleteRequest, &str) -> Option<NewSaga> + Send + Sync;

impl FollowUp {
    /// A follow-up made by this function from the request and the lease owner's name.
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
    /// Wishes that the operation in flight be cancelled; of several wishes the first is kept. False when it is not in flight.
    pub async fn cancel(&self, saga: Uuid, wish: Cancellation) -> Result<bool, DbError> {
        self.db().write(move |conn| if holds(conn, saga)? { wish_in(conn, saga, &wish).map(|()| true) } else { Ok(false) }).await
    }

    /// Records, in one commit, that the server is to be deleted and that the operation which has it is to make room; of several
    /// requests the first is kept. Gives that operation; none when there is none, and then nothing is recorded.
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
                if waiting.is_none() {
                    let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(server)));
                    diesel::update(row).set(mappings::delete_request.eq(&request)).execute(conn)?;
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

/// Whether an operation is in flight. On PostgreSQL its end waits for this commit, or this waits for its end: an update, not a read.
fn holds(conn: &mut Conn, saga: Uuid) -> Result<bool, DbError> {
    let id = saga.to_string();
    diesel::update(sagas::table.find(&id)).set(sagas::lease_epoch.eq(sagas::lease_epoch)).execute(conn)?;
    let held: i64 = operations::table.filter(operations::saga_id.eq(id)).count().get_result(conn)?;
    Ok(held > 0)
}

/// A saga that has ended, and holds its server for a debt, is not cancelled any more.
fn wish_in(conn: &mut Conn, saga: Uuid, wish: &Cancellation) -> Result<(), DbError> {
    let open = sagas::table.find(saga.to_string()).filter(sagas::cancellation.is_null()).filter(sagas::state.ne_all(SagaState::OVER));
    diesel::update(open).set(sagas::cancellation.eq(wish)).execute(conn)?;
    Ok(())
}

/// The wish that a saga be cancelled.
pub(super) fn of(conn: &mut Conn, saga: &str) -> Result<Option<Cancellation>, DbError> {
    Ok(sagas::table.find(saga).select(sagas::cancellation).first(conn).optional()?.flatten())
}

/// The delete that waits for the server, if one does.
pub(super) fn waiting_delete(conn: &mut Conn, server: Uuid) -> Result<Option<DeleteRequest>, DbError> {
    let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(server)));
    Ok(row.select(mappings::delete_request).first(conn).optional()?.flatten())
}

/// Gives the server of a saga that ends to the delete that waits for it. One that was asked for out of sight is not begun unseen, and
/// after a delete that failed the next look tries again, not this.
pub(super) fn follow(
    conn: &mut Conn,
    ended: &str,
    server: Uuid,
    follow_up: &FollowUp,
    (now, until): (NaiveDateTime, NaiveDateTime),
) -> Result<Option<Uuid>, DbError> {
    let Some(request) = waiting_delete(conn, server)?.filter(|request| request.in_sight) else { return Ok(None) };
    let (kind, owner): (String, String) = sagas::table.find(ended).select((sagas::kind, sagas::lease_owner)).first(conn)?;
    let Some(new) = (follow_up.0)(&request, &owner).filter(|_| kind != DELETE) else { return Ok(None) };
    let id = new.id;
    begin_in(conn, new, now, until)?;
    Ok(Some(id))
}
