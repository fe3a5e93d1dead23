//! Ownership: the row that names the host which may run a server's guest, and the counters behind every fence.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use uuid::Uuid;

use crate::db::{Conn, DbError};
use crate::domain::fence::Fence;
use crate::env::guard::{Guard, stands};

diesel::table! {
    ownership (server_uuid) {
        server_uuid -> Text,
        owner_cell -> Nullable<Text>,
        owner_host -> Nullable<Text>,
        epoch -> BigInt,
        attempt -> BigInt,
    }
}

/// The owner of a server's guest, and the server's highest fence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ownership {
    pub server: Uuid,
    /// Cell and host. None before a create has chosen a host, and after a delete.
    pub owner: Option<(String, String)>,
    pub epoch: i64,
    pub attempt: i64,
}

impl Ownership {
    fn from_row((server, cell, host, epoch, attempt): (String, Option<String>, Option<String>, i64, i64)) -> Result<Ownership, DbError> {
        let server = Uuid::parse_str(&server).map_err(|_| DbError::unreadable("ownership.server_uuid", &server))?;
        Ok(Ownership { server, owner: cell.zip(host), epoch, attempt })
    }
}

/// Returns the server's row.
pub fn find(conn: &mut Conn, server: Uuid) -> Result<Option<Ownership>, DbError> {
    ownership::table.find(server.to_string()).first(conn).optional()?.map(Ownership::from_row).transpose()
}

/// Returns all rows, for the audit.
pub fn all(conn: &mut Conn) -> Result<Vec<Ownership>, DbError> {
    ownership::table.order(ownership::server_uuid).load(conn)?.into_iter().map(Ownership::from_row).collect()
}

const TAKE: &str = "INSERT INTO ownership (server_uuid, epoch, attempt) VALUES ($1, 0, 1) \
     ON CONFLICT (server_uuid) DO UPDATE SET attempt = ownership.attempt + 1 RETURNING epoch, attempt";

#[derive(QueryableByName)]
struct Counters {
    #[diesel(sql_type = BigInt)]
    epoch: i64,
    #[diesel(sql_type = BigInt)]
    attempt: i64,
}

/// Takes the next attempt of a server. Makes the server's row if there is none.
pub fn take_attempt(conn: &mut Conn, server: Uuid) -> Result<Fence, DbError> {
    let statement = diesel::sql_query(TAKE).bind::<Text, _>(server.to_string());
    let Counters { epoch, attempt } = statement.get_result(conn)?;
    Ok(Fence { server, epoch, attempt })
}

/// Names a new owner (or none) and raises the epoch: *the* commit that moves a server. Refused unless the fence has the present epoch and
/// no newer attempt exists: a delayed commit could land after its own undo. An undo that runs first leaves the epoch unchanged. Naming the
/// present owner again succeeds and changes nothing.
pub fn hand_over(conn: &mut Conn, fence: Fence, owner: Option<(&str, &str)>) -> Result<(), DbError> {
    let key = fence.server.to_string();
    let present = find(conn, fence.server)?.ok_or_else(|| DbError::NotFound(format!("ownership of server {key}")))?;
    if present.owner.as_ref().map(|(cell, host)| (cell.as_str(), host.as_str())) == owner {
        return Ok(());
    }
    let stale = DbError::Stale(fence.epoch, fence.attempt, fence.server);
    let is_of_another_epoch = stands(Guard::OwnershipEpoch) && fence.epoch != present.epoch;
    let is_overtaken = stands(Guard::OwnershipAttempt) && fence.attempt < present.attempt;
    if is_of_another_epoch || is_overtaken {
        return Err(stale);
    }
    // On PostgreSQL another writer may have come since the row was read.
    let newest = present.attempt.max(fence.attempt);
    let unchanged = ownership::table.find(&key).filter(ownership::epoch.eq(present.epoch)).filter(ownership::attempt.le(newest));
    let changed = diesel::update(unchanged)
        .set((
            ownership::owner_cell.eq(owner.map(|o| o.0)),
            ownership::owner_host.eq(owner.map(|o| o.1)),
            ownership::epoch.eq(present.epoch + 1),
        ))
        .execute(conn)?;
    if changed == 0 { Err(stale) } else { Ok(()) }
}
