//! The fence of a database: the highest `(epoch, attempt)` per server whose effect was written here (INVARIANTS S3).

use std::collections::BTreeMap;

use diesel::prelude::*;
use uuid::Uuid;

use super::{Conn, DbError};
use crate::domain::fence::Fence;
use crate::env::guard::{Guard, stands};

diesel::table! {
    fences (server_uuid) {
        server_uuid -> Text,
        epoch -> BigInt,
        attempt -> BigInt,
    }
}

/// Raises the server's fence to `fence` within the caller's transaction. Refuses a lower fence.
pub fn obey(conn: &mut Conn, fence: Fence) -> Result<(), DbError> {
    let server = fence.server.to_string();
    // A single statement: on PostgreSQL two writers may come at the same time.
    let below = fences::epoch.lt(fence.epoch).or(fences::epoch.eq(fence.epoch).and(fences::attempt.le(fence.attempt)));
    let raised = diesel::update(fences::table.find(&server).filter(below))
        .set((fences::epoch.eq(fence.epoch), fences::attempt.eq(fence.attempt)))
        .execute(conn)?;
    if raised > 0 {
        return Ok(());
    }
    let known: Option<i64> = fences::table.find(&server).select(fences::epoch).first(conn).optional()?;
    if stands(Guard::DatabaseFence) && known.is_some() {
        return Err(DbError::Stale(fence.epoch, fence.attempt, fence.server));
    }
    if known.is_none() {
        diesel::insert_into(fences::table)
            .values((fences::server_uuid.eq(&server), fences::epoch.eq(fence.epoch), fences::attempt.eq(fence.attempt)))
            .execute(conn)?;
    }
    Ok(())
}

/// Returns the highest fence of each server that has written here, for the audit.
pub fn all(conn: &mut Conn) -> Result<BTreeMap<Uuid, (i64, i64)>, DbError> {
    let rows: Vec<(String, i64, i64)> = fences::table.load(conn)?;
    let read = |(server, epoch, attempt): (String, i64, i64)| match Uuid::parse_str(&server) {
        Ok(id) => Ok((id, (epoch, attempt))),
        Err(_) => Err(DbError::unreadable("fences.server_uuid", &server)),
    };
    rows.into_iter().map(read).collect()
}

/// Returns at most `limit` servers that have a fence here, in the order of their ids, after the server `after`.
pub fn servers(conn: &mut Conn, after: Option<Uuid>, limit: i64) -> Result<Vec<Uuid>, DbError> {
    let after = after.map_or_else(String::new, |id| id.to_string());
    let page = fences::table.filter(fences::server_uuid.gt(after)).order(fences::server_uuid).limit(limit).select(fences::server_uuid);
    let read = |id: String| Uuid::parse_str(&id).map_err(|_| DbError::unreadable("fences.server_uuid", &id));
    page.load::<String>(conn)?.into_iter().map(read).collect()
}

/// Forgets the fences of servers to which nothing late can come any more (`Operations::forgotten`).
pub fn forget(conn: &mut Conn, servers: &[Uuid]) -> Result<(), DbError> {
    let ids: Vec<String> = servers.iter().map(Uuid::to_string).collect();
    diesel::delete(fences::table.filter(fences::server_uuid.eq_any(ids))).execute(conn)?;
    Ok(())
}
