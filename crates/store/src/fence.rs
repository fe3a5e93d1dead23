//! The fence of a database: the highest `(epoch, attempt)` per server whose effect was written here (INVARIANTS S3).

use std::collections::BTreeMap;

use cellshift_domain::fence::Fence;
use cellshift_env::guard::{Guard, stands};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use uuid::Uuid;

use crate::columns::read_id;
use crate::{Conn, DbError};

diesel::table! {
    fences (server_uuid) {
        server_uuid -> Text,
        epoch -> BigInt,
        attempt -> BigInt,
    }
}

/// The column of the servers, for messages.
const SERVER: &str = "fences.server_uuid";

/// Changes no row if the server's fence is higher.
const RAISE: &str = "INSERT INTO fences (server_uuid, epoch, attempt) VALUES ($1, $2, $3) \
     ON CONFLICT (server_uuid) DO UPDATE SET epoch = $2, attempt = $3 \
     WHERE fences.epoch < $2 OR (fences.epoch = $2 AND fences.attempt <= $3)";

/// Raises the server's fence to `fence` within the caller's transaction. Refuses a lower fence.
pub fn obey(conn: &mut Conn, fence: Fence) -> Result<(), DbError> {
    // A single statement: on PostgreSQL two writers may come at the same time, and both may be the first.
    let raised = diesel::sql_query(RAISE)
        .bind::<Text, _>(fence.server.to_string())
        .bind::<BigInt, _>(fence.epoch)
        .bind::<BigInt, _>(fence.attempt)
        .execute(conn)?;
    if stands(Guard::DatabaseFence) && raised == 0 {
        return Err(DbError::Stale(fence.epoch, fence.attempt, fence.server));
    }
    Ok(())
}

/// Returns the highest fence of each server that has written here, for the audit.
pub fn all(conn: &mut Conn) -> Result<BTreeMap<Uuid, (i64, i64)>, DbError> {
    let rows: Vec<(String, i64, i64)> = fences::table.load(conn)?;
    rows.into_iter().map(|(server, epoch, attempt)| Ok((read_id(SERVER, &server)?, (epoch, attempt)))).collect()
}

/// Returns at most `limit` servers that have a fence here, in the order of their ids, after the server `after`.
pub fn servers(conn: &mut Conn, after: Option<Uuid>, limit: i64) -> Result<Vec<Uuid>, DbError> {
    let after = after.map_or_else(String::new, |id| id.to_string());
    let page = fences::table.filter(fences::server_uuid.gt(after)).order(fences::server_uuid).limit(limit).select(fences::server_uuid);
    page.load::<String>(conn)?.iter().map(|id| read_id(SERVER, id)).collect()
}

/// Forgets the fences of servers to which nothing late can come any more (`Operations::forgotten`).
pub fn forget(conn: &mut Conn, servers: &[Uuid]) -> Result<(), DbError> {
    let ids: Vec<String> = servers.iter().map(Uuid::to_string).collect();
    diesel::delete(fences::table.filter(fences::server_uuid.eq_any(ids))).execute(conn)?;
    Ok(())
}
