//! Completes mappings of an older release: whether the delete was asked for, and the server's user (docs/DOWN-CELLS.md). Only empty columns
//! are written, so the work can be repeated, and can run beside a live service.

use std::collections::{BTreeMap, BTreeSet};

use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::schema::{build_requests, instance_mappings as mappings};
use crate::db::columns::{Multi, Sql};
use crate::db::{Conn, DbError};

impl ApiDb {
    /// Returns at most `limit` servers of a cell (or of none yet) whose mapping has no delete flag, ordered by uuid, after `marker`.
    pub async fn mappings_without_flag(&self, cell: Option<Uuid>, marker: Option<Uuid>, limit: i64) -> Result<Vec<Uuid>, DbError> {
        let open = || mappings::table.filter(mappings::queued_for_delete.is_null()).into_boxed();
        self.db.read(move |conn| page(conn, open(), cell, marker, limit)).await
    }

    /// Sets the delete flag of these servers: true for those in `deleted`, else false. Returns the number of rows that had no flag before.
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

    /// Returns at most `limit` servers of a cell (or of none yet) whose mapping names no user, ordered by uuid, after `marker`.
    pub async fn mappings_without_user(&self, cell: Option<Uuid>, marker: Option<Uuid>, limit: i64) -> Result<Vec<Uuid>, DbError> {
        let open = || mappings::table.filter(mappings::user_id.is_null()).into_boxed();
        self.db.read(move |conn| page(conn, open(), cell, marker, limit)).await
    }

    /// Sets the users of these servers. Returns the number of rows that named none before.
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

    /// Returns the users of servers that no cell has yet, from their build requests.
    pub async fn users_of_builds(&self, servers: Vec<Uuid>) -> Result<BTreeMap<Uuid, String>, DbError> {
        self.db.read(move |conn| servers.into_iter().filter_map(|server| user_of_build(conn, server).transpose()).collect()).await
    }
}

/// Returns a page of the selected mappings in a cell, or in none yet.
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
    use crate::domain::instance_bundle::InstanceBundle;
    let build: Option<InstanceBundle> = build_requests::table.find(Sql(server)).select(build_requests::instance).first(conn).optional()?;
    Ok(build.map(|bundle| (server, bundle.instance.user_id)))
}
