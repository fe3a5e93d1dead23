//! Migration records and contexts. A cross-cell move has a record with the same uuid in both of its cells.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::schema::{migration_contexts as contexts, migrations};
use super::{CellDb, CellTxn};
use crate::db::columns::Sql;
use crate::db::row::{self, changes, row};
use crate::db::{Conn, DbError};
use crate::domain::migration::{Migration, MigrationChange, MigrationContext, MigrationFilter, MigrationStatus, MigrationType};
use crate::domain::reason;

row! {
    #[diesel(table_name = migrations)]
    MigrationRow of Migration {
        #[diesel(skip_insertion)]
        id: i32,
        uuid: Uuid as Sql,
        instance_uuid: Uuid as Sql,
        created_at: DateTime<Utc> as Sql,
        updated_at: Option<DateTime<Utc>> as Sql,
        migration_type: MigrationType as Sql,
        status: MigrationStatus as Sql,
        source_compute: String,
        source_node: String,
        dest_compute: Option<String>,
        dest_node: Option<String>,
        dest_host: Option<String>,
        old_flavor_id: String,
        new_flavor_id: String,
        old_instance_type_id: i32,
        new_instance_type_id: i32,
        cross_cell_move: bool,
        hidden: bool,
        user_id: String,
        project_id: String,
        first_id: Option<i32>,
    }
}

changes! {
    #[diesel(table_name = migrations)]
    MigrationColumns of MigrationChange {
        #[diesel(serialize_as = Sql<MigrationStatus>)]
        status: Option<MigrationStatus>,
        dest_compute: Option<Option<String>>,
        dest_node: Option<Option<String>>,
        dest_host: Option<Option<String>>,
        cross_cell_move: Option<bool>,
        hidden: Option<bool>,
    }
}

impl CellDb {
    /// Returns the record with this uuid.
    pub async fn migration(&self, uuid: Uuid) -> Result<Migration, DbError> {
        self.db.read(move |conn| get(conn, uuid)).await
    }

    /// Returns records newest first, then by descending uuid: a total order over all cells.
    pub async fn migrations(&self, filter: MigrationFilter) -> Result<Vec<Migration>, DbError> {
        self.db.read(move |conn| list(conn, filter)).await
    }

    /// Returns the server's newest migration with one of these statuses. An empty list allows any status.
    pub async fn latest_migration(&self, instance: Uuid, statuses: &[MigrationStatus]) -> Result<Option<Migration>, DbError> {
        let filter =
            MigrationFilter { instance_uuid: Some(instance), statuses: statuses.to_vec(), limit: Some(1), ..MigrationFilter::default() };
        Ok(self.migrations(filter).await?.pop())
    }

    /// Returns the context of the server's move in this cell.
    pub async fn migration_context(&self, instance: Uuid) -> Result<Option<MigrationContext>, DbError> {
        self.db.read(move |conn| context(conn, instance)).await
    }
}

impl CellTxn {
    /// Records a move. Succeeds if the uuid is recorded for the same server: a step may write it twice.
    pub fn create_migration(self, migration: Migration) -> CellTxn {
        self.with(move |conn, _| match get(conn, migration.uuid) {
            Ok(present) if present.instance_uuid == migration.instance_uuid => Ok(()),
            Ok(present) => Err(DbError::Conflict(reason!("migration {} is of instance {}", present.uuid, present.instance_uuid))),
            Err(DbError::NotFound(_)) => insert(conn, migration),
            Err(error) => Err(error),
        })
    }

    /// Changes a migration record. [`DbError::NotFound`] if there is none.
    pub fn migration_change(self, uuid: Uuid, change: MigrationChange) -> CellTxn {
        self.with(move |conn, now| {
            let row = migrations::table.filter(migrations::uuid.eq(Sql(uuid)));
            match diesel::update(row).set((MigrationColumns::from(change), migrations::updated_at.eq(Sql(Some(now))))).execute(conn)? {
                0 => Err(not_found(uuid)),
                _ => Ok(()),
            }
        })
    }

    /// Changes the status of a migration record.
    pub fn migration_status(self, uuid: Uuid, status: MigrationStatus) -> CellTxn {
        self.migration_change(uuid, MigrationChange::status(status))
    }

    /// Gives the record of a move a status of its end if its status is live. Succeeds if there is none.
    pub fn end_live_migration(self, uuid: Uuid, status: MigrationStatus) -> CellTxn {
        self.with(move |conn, now| {
            let live = migrations::table
                .filter(migrations::uuid.eq(Sql(uuid)))
                .filter(migrations::status.eq_any(MigrationStatus::LIVE.iter().map(Sql)));
            diesel::update(live)
                .set((MigrationColumns::from(MigrationChange::status(status)), migrations::updated_at.eq(Sql(Some(now)))))
                .execute(conn)?;
            Ok(())
        })
    }

    /// Removes the record of a move if its status is live. Succeeds if there is none. A record that has ended is history that the server
    /// brought along, and stays.
    pub fn forget_live_migration(self, uuid: Uuid) -> CellTxn {
        self.with(move |conn, _| {
            let live = migrations::table
                .filter(migrations::uuid.eq(Sql(uuid)))
                .filter(migrations::status.eq_any(MigrationStatus::LIVE.iter().map(Sql)));
            diesel::delete(live).execute(conn)?;
            Ok(())
        })
    }

    /// Sets the server's move back to `finished` if a confirm or revert of it has begun, so that it waits for confirm or revert again.
    pub fn end_not_begun(self, instance: Uuid) -> CellTxn {
        self.with(move |conn, now| {
            let ending = [MigrationStatus::Confirming, MigrationStatus::Reverting];
            let rows = migrations::table
                .filter(migrations::instance_uuid.eq(Sql(instance)))
                .filter(migrations::status.eq_any(ending.iter().map(Sql)));
            let change = MigrationChange::status(MigrationStatus::Finished);
            diesel::update(rows).set((MigrationColumns::from(change), migrations::updated_at.eq(Sql(Some(now))))).execute(conn)?;
            Ok(())
        })
    }

    /// Copies another cell's record of the move onto this cell's record, except for id and `created_at`, or adds it.
    pub fn mirror_migration(self, mut migration: Migration) -> CellTxn {
        self.with(move |conn, _| {
            if let Ok(present) = get(conn, migration.uuid) {
                migration.created_at = present.created_at;
                let change = MigrationChange {
                    status: Some(migration.status),
                    dest_compute: Some(migration.dest_compute),
                    dest_node: Some(migration.dest_node),
                    dest_host: Some(migration.dest_host),
                    cross_cell_move: Some(migration.cross_cell_move),
                    hidden: Some(migration.hidden),
                };
                let updated = migrations::updated_at.eq(Sql(migration.updated_at));
                diesel::update(migrations::table.find(present.id)).set((MigrationColumns::from(change), updated)).execute(conn)?;
                return Ok(());
            }
            insert(conn, migration)
        })
    }

    /// Sets the context of the server's move. The migration must be recorded here.
    pub fn set_migration_context(self, instance: Uuid, value: MigrationContext) -> CellTxn {
        self.with(move |conn, _| put_context(conn, instance, value))
    }

    /// Removes the context. Succeeds if there is none.
    pub fn clear_migration_context(self, instance: Uuid) -> CellTxn {
        self.with(move |conn, _| {
            diesel::delete(contexts::table.find(Sql(instance))).execute(conn)?;
            Ok(())
        })
    }
}

fn not_found(uuid: Uuid) -> DbError {
    DbError::NotFound(format!("migration {uuid}"))
}

fn get(conn: &mut Conn, uuid: Uuid) -> Result<Migration, DbError> {
    let with_uuid = migrations::table.filter(migrations::uuid.eq(Sql(uuid))).select(MigrationRow::as_select());
    row::first(conn, with_uuid)?.ok_or_else(|| not_found(uuid))
}

/// Inserts a record. A copy from another cell carries that cell's key, which becomes `first_id`: the id that clients see.
pub(super) fn insert(conn: &mut Conn, mut migration: Migration) -> Result<(), DbError> {
    if migration.id != 0 {
        migration.first_id = Some(migration.number());
    }
    diesel::insert_into(migrations::table).values(MigrationRow::from(migration)).execute(conn)?;
    Ok(())
}

/// Returns all migrations of the server, oldest first.
pub(super) fn all(conn: &mut Conn, instance: Uuid) -> Result<Vec<Migration>, DbError> {
    let rows = migrations::table.filter(migrations::instance_uuid.eq(Sql(instance))).order(migrations::id);
    row::load(conn, rows.select(MigrationRow::as_select()))
}

pub(super) fn context(conn: &mut Conn, instance: Uuid) -> Result<Option<MigrationContext>, DbError> {
    let row: Option<(i32, serde_json::Value)> =
        contexts::table.find(Sql(instance)).select((contexts::migration_id, contexts::context)).first(conn).optional()?;
    let Some((id, context)) = row else { return Ok(None) };
    let migration_uuid = migrations::table.find(id).select(migrations::uuid).first(conn)?;
    Ok(Some(MigrationContext { migration_uuid, context }))
}

/// Saves the context under the migration's id in this cell.
pub(super) fn put_context(conn: &mut Conn, instance: Uuid, value: MigrationContext) -> Result<(), DbError> {
    let migration = get(conn, value.migration_uuid)?;
    diesel::delete(contexts::table.find(Sql(instance))).execute(conn)?;
    let row =
        (contexts::instance_uuid.eq(Sql(instance)), contexts::migration_id.eq(migration.id), contexts::context.eq(Sql(value.context)));
    diesel::insert_into(contexts::table).values(row).execute(conn)?;
    Ok(())
}

pub(super) fn list(conn: &mut Conn, filter: MigrationFilter) -> Result<Vec<Migration>, DbError> {
    let mut query = migrations::table.into_boxed();
    if let Some(uuids) = filter.uuids {
        query = query.filter(migrations::uuid.eq_any(uuids.into_iter().map(Sql)));
    }
    if let Some(uuid) = filter.instance_uuid {
        query = query.filter(migrations::instance_uuid.eq(Sql(uuid)));
    }
    if !filter.statuses.is_empty() {
        query = query.filter(migrations::status.eq_any(filter.statuses.into_iter().map(Sql)));
    }
    if let Some(kind) = filter.migration_type {
        query = query.filter(migrations::migration_type.eq(Sql(kind)));
    }
    if let Some(host) = filter.host {
        query = query.filter(migrations::source_compute.eq(host.clone()).or(migrations::dest_compute.eq(host)));
    }
    if let Some(host) = filter.source_compute {
        query = query.filter(migrations::source_compute.eq(host));
    }
    if let Some(hidden) = filter.hidden {
        query = query.filter(migrations::hidden.eq(hidden));
    }
    if let Some(user) = filter.user_id {
        query = query.filter(migrations::user_id.eq(user));
    }
    if let Some(project) = filter.project_id {
        query = query.filter(migrations::project_id.eq(project));
    }
    let never = || migrations::updated_at.is_null();
    if let Some(since) = filter.changes_since {
        let changed = migrations::updated_at.ge(Sql(Some(since)));
        query = query.filter(changed.or(never().and(migrations::created_at.ge(Sql(since)))));
    }
    if let Some(before) = filter.changes_before {
        let changed = migrations::updated_at.le(Sql(Some(before)));
        query = query.filter(changed.or(never().and(migrations::created_at.le(Sql(before)))));
    }
    if let Some((at, uuid)) = filter.after {
        let later = migrations::created_at.eq(Sql(at)).and(migrations::uuid.lt(Sql(uuid)));
        query = query.filter(migrations::created_at.lt(Sql(at)).or(later));
    }
    if let Some(limit) = filter.limit {
        query = query.limit(limit);
    }
    row::load(conn, query.order((migrations::created_at.desc(), migrations::uuid.desc())).select(MigrationRow::as_select()))
}
