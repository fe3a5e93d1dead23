//! Removes a cell's old records: servers that were deleted long ago, and the history of the others.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::CellDb;
use super::bundle::of_instance;
use super::instances::{find, hard_delete, not_found};
use super::schema::{instance_actions, instance_faults, instances, migration_contexts, migrations};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError, fence};
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::migration::MigrationStatus;

diesel::alias!(instance_faults as newer: Newer);

/// The numbers of removed records of a cell's history.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct History {
    pub actions: usize,
    pub faults: usize,
    pub migrations: usize,
}

impl CellDb {
    /// Returns at most `limit` servers that were deleted before this moment, in the order of their ids, after the server `after`.
    pub async fn deleted_before(&self, before: DateTime<Utc>, after: Option<Uuid>, limit: i64) -> Result<Vec<Uuid>, DbError> {
        let deleted = move |conn: &mut Conn| -> Result<Vec<Uuid>, DbError> {
            let old = instances::table
                .filter(instances::deleted.eq(true))
                .filter(instances::deleted_at.lt(Sql(Some(before))))
                .filter(instances::uuid.gt(Sql(after.unwrap_or_default())))
                .order(instances::uuid)
                .limit(limit)
                .select(instances::uuid);
            Ok(old.load::<Uuid>(conn)?)
        };
        self.db.read(deleted).await
    }

    /// Returns all records of a deleted server.
    pub async fn export_deleted(&self, uuid: Uuid) -> Result<InstanceBundle, DbError> {
        let export = move |conn: &mut Conn| {
            let instance = find(conn, uuid)?.filter(|instance| instance.deleted).ok_or_else(|| not_found(uuid))?;
            of_instance(conn, instance)
        };
        self.db.read(move |conn| conn.transaction(export)).await
    }

    /// Removes all records of these deleted servers, and their fences, in one commit. Skips a server that is not deleted.
    pub async fn purge_servers(&self, servers: Vec<Uuid>) -> Result<(), DbError> {
        self.db
            .write(move |conn| {
                for server in servers {
                    let deleted = instances::table.filter(instances::uuid.eq(Sql(server))).filter(instances::deleted.eq(true));
                    if deleted.count().get_result::<i64>(conn)? > 0 {
                        hard_delete(conn, server)?;
                        fence::forget(conn, &[server])?;
                    }
                }
                Ok(())
            })
            .await
    }

    /// Counts or removes at most `limit` finished records of each kind from before this moment: instance actions with their events, faults that
    /// a newer fault of the server has replaced, and migrations that have ended.
    pub async fn purge_history(&self, before: DateTime<Utc>, limit: i64, remove: bool) -> Result<History, DbError> {
        if remove {
            self.db.write(move |conn| purge_history(conn, before, limit, true)).await
        } else {
            self.db.read(move |conn| purge_history(conn, before, limit, false)).await
        }
    }
}

fn purge_history(conn: &mut Conn, before: DateTime<Utc>, limit: i64, remove: bool) -> Result<History, DbError> {
    let actions: Vec<i32> = instance_actions::table
        .filter(instance_actions::finish_time.is_not_null())
        .filter(instance_actions::updated_at.lt(Sql(before)))
        .limit(limit)
        .select(instance_actions::id)
        .load(conn)?;
    let replaced = newer
        .filter(newer.field(instance_faults::instance_uuid).eq(instance_faults::instance_uuid))
        .filter(newer.field(instance_faults::id).gt(instance_faults::id));
    let faults: Vec<i32> = instance_faults::table
        .filter(instance_faults::created_at.lt(Sql(before)))
        .filter(diesel::dsl::exists(replaced))
        .limit(limit)
        .select(instance_faults::id)
        .load(conn)?;
    let in_use = migration_contexts::table.select(migration_contexts::migration_id);
    let migrations: Vec<i32> = migrations::table
        .filter(migrations::status.eq_any(MigrationStatus::OVER.iter().map(Sql)))
        .filter(migrations::created_at.lt(Sql(before)))
        .filter(migrations::updated_at.is_null().or(migrations::updated_at.lt(Sql(Some(before)))))
        .filter(migrations::id.ne_all(in_use))
        .limit(limit)
        .select(migrations::id)
        .load(conn)?;
    if remove {
        // The foreign key deletes the events too.
        diesel::delete(instance_actions::table.filter(instance_actions::id.eq_any(&actions))).execute(conn)?;
        diesel::delete(instance_faults::table.filter(instance_faults::id.eq_any(&faults))).execute(conn)?;
        diesel::delete(migrations::table.filter(migrations::id.eq_any(&migrations))).execute(conn)?;
    }
    Ok(History { actions: actions.len(), faults: faults.len(), migrations: migrations.len() })
}
