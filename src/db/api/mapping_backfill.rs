//! Fills in what an older release left open in mappings: whether a delete was asked for, and whose the server is (docs/DOWN-CELLS.md).
//! Only rows that say nothing are written, so that it may be done again and beside a running service.

use std::collections::{BTreeMap, BTreeSet};

use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::schema::{build_requests, instance_mappings as mappings};
use crate::db::columns::{Multi, Sql};
use crate::db::{Conn, DbError};

impl ApiDb {
    /// Servers of a cell (or of none yet) of whose delete nothing is known, by uuid and after `marker`, at most `limit`.
    pub async fn mappings_without_flag(&self, cell: Option<Uuid>, marker: Option<Uuid>, limit: i64) -> Result<Vec<Uuid>, DbError> {
        let open = || mappings::table.filter(mappings::queued_for_delete.is_null()).into_boxed();
        self.db.read(move |conn| page(conn, open(), cell, marker, limit)).await
    }

    /// Says of these servers that their delete was asked for when they are among `deleted`, else that it was not. Gives the
    /// number of rows that said nothing before.
    pub async fn fill_in_flags(&self, servers: Vec<Uuid>, deleted: BTreeSet<Uuid>) -> Result<u64, DbError> {
        self.db
            .write(move |conn| {
                let mut written = 0;
                for server in servers {
                    let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(server))).filter(mappings::queued_for_delete.is_null());
                    written += diesel::update(row).set(mappings::queued_for_delete.eq(deleted.contains(&server))).execute(conn)? as u64;
                }
                Ok(written)
            })
            .await
    }

    /// Servers of a cell (or of none yet) whose mapping names no user, by uuid and after `marker`, at most `limit`.
    pub async fn mappings_without_user(&self, cell: Option<Uuid>, marker: Option<Uuid>, limit: i64) -> Result<Vec<Uuid>, DbError> {
        let open = || mappings::table.filter(mappings::user_id.is_null()).into_boxed();
        self.db.read(move |conn| page(conn, open(), cell, marker, limit)).await
    }

    /// Names the users of these servers; gives the number of rows that named none before.
    pub async fn fill_in_users(&self, users: BTreeMap<Uuid, String>) -> Result<u64, DbError> {
        self.db
            .write(move |conn| {
                let mut written = 0;
                for (server, user) in users {
                    let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(server))).filter(mappings::user_id.is_null());
                    written += diesel::update(row).set(mappings::user_id.eq(user)).execute(conn)? as u64;
                }
                Ok(written)
            })
            .await
    }

    /// The users of servers that no cell has yet, by what their build requests say.
    pub async fn users_of_builds(&self, servers: Vec<Uuid>) -> Result<BTreeMap<Uuid, String>, DbError> {
        self.db.read(move |conn| servers.into_iter().filter_map(|server| user_of_build(conn, server).transpose()).collect()).await
    }
}

/// A page of those mappings that are a cell's (or none's yet).
fn page(
    conn: &mut Conn,
    mut open: mappings::BoxedQuery<'static, Multi>,
    cell: Option<Uuid>,
    marker: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Uuid>, DbError> {
    open = match cell {
        Some(cell) => open.filter(mappings::cell_uuid.eq(Sql(Some(cell)))),
        None => open.filter(mappings::cell_uuid.is_null()),
    };
    if let Some(marker) = marker {
        open = open.filter(mappings::instance_uuid.gt(Sql(marker)));
    }
    Ok(open.order(mappings::instance_uuid).limit(limit).select(mappings::instance_uuid).load(conn)?)
}

fn user_of_build(conn: &mut Conn, server: Uuid) -> Result<Option<(Uuid, String)>, DbError> {
    use crate::db::cell::bundle::InstanceBundle;
    let found: Option<InstanceBundle> = build_requests::table.find(Sql(server)).select(build_requests::instance).first(conn).optional()?;
    Ok(found.map(|bundle| (server, bundle.instance.user_id)))
}
