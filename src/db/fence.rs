//! The fence of a database: the highest `(epoch, attempt)` per server whose effect was written here (architecture §5, rule 3).

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

/// Raises the server's fence to `fence` within the caller's transaction, or refuses a lower one.
pub fn obey(conn: &mut Conn, fence: Fence) -> Result<(), DbError> {
    let server = fence.server.to_string();
    let highest: Option<(i64, i64)> = fences::table.find(&server).select((fences::epoch, fences::attempt)).first(conn).optional()?;
    match highest {
        Some(pair) if fence.is_below(pair) && !stands(Guard::DatabaseFence) => return Ok(()),
        Some(pair) if fence.is_below(pair) => return Err(DbError::Stale(fence.epoch, fence.attempt, fence.server)),
        Some(pair) if pair == fence.pair() => return Ok(()),
        Some(pair) => {
            // Compare-and-swap: on PostgreSQL two writers may have read the same pair.
            let raised = diesel::update(fences::table.find(&server).filter(fences::epoch.eq(pair.0)).filter(fences::attempt.eq(pair.1)))
                .set((fences::epoch.eq(fence.epoch), fences::attempt.eq(fence.attempt)))
                .execute(conn)?;
            if raised == 0 {
                return Err(DbError::Stale(fence.epoch, fence.attempt, fence.server));
            }
        }
        None => {
            diesel::insert_into(fences::table)
                .values((fences::server_uuid.eq(&server), fences::epoch.eq(fence.epoch), fences::attempt.eq(fence.attempt)))
                .execute(conn)?;
        }
    }
    Ok(())
}

/// The highest fence of every server that was written for here; for the audit.
pub fn all(conn: &mut Conn) -> Result<BTreeMap<Uuid, (i64, i64)>, DbError> {
    let rows: Vec<(String, i64, i64)> = fences::table.load(conn)?;
    let read = |(server, epoch, attempt): (String, i64, i64)| match Uuid::parse_str(&server) {
        Ok(id) => Ok((id, (epoch, attempt))),
        Err(_) => Err(DbError::unreadable("fences.server_uuid", &server)),
    };
    rows.into_iter().map(read).collect()
}
