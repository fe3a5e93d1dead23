//! Instance mappings: the cell of each server. During a move, only the mapping decides which of the server's two records is visible
//! (INVARIANTS D1).

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::schema::{build_requests, instance_mappings as mappings, request_specs, server_group_members};
use crate::db::columns::Sql;
use crate::db::row::{self, row};
use crate::db::{Conn, DbError};
use crate::domain::delete_request::DeleteRequest;
use crate::domain::fence::Fence;
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::quota_grant::{AcceptedServer, QuotaGrant};

/// The maximum number of uuids in one statement.
const CHUNK: usize = 500;

row! {
    #[diesel(table_name = mappings)]
    InstanceMappingRow of InstanceMapping {
        instance_uuid: Uuid as Sql,
        cell_uuid: Option<Uuid> as Sql,
        project_id: String,
        user_id: Option<String>,
        queued_for_delete: Option<bool>,
        delete_request: Option<DeleteRequest> as Sql,
        created_at: DateTime<Utc> as Sql,
        updated_at: Option<DateTime<Utc>> as Sql,
    }
}

/// Selects mappings. All conditions that are set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MappingFilter {
    /// In this cell; `Some(None)` selects servers that no cell has yet.
    pub cell: Option<Option<Uuid>>,
    pub project_id: Option<String>,
    pub user_id: Option<String>,
    /// Leaves out servers that are queued for delete.
    pub living: bool,
    pub limit: Option<i64>,
}

impl ApiDb {
    /// Returns a server's mapping.
    pub async fn instance_mapping(&self, instance: Uuid) -> Result<InstanceMapping, DbError> {
        self.db.read(move |conn| get(conn, instance)).await
    }

    /// Returns a server's mapping, and the uuid of the group that the server is in.
    pub async fn instance_mapping_and_group(&self, instance: Uuid) -> Result<(InstanceMapping, Option<Uuid>), DbError> {
        let grouped = move |conn: &mut Conn| {
            let pair: Option<(InstanceMappingRow, Option<Uuid>)> = mappings::table
                .left_join(server_group_members::table.on(server_group_members::instance_uuid.eq(mappings::instance_uuid)))
                .filter(mappings::instance_uuid.eq(Sql(instance)))
                .select((InstanceMappingRow::as_select(), server_group_members::group_uuid.nullable()))
                .first(conn)
                .optional()?;
            let (mapping, group) = pair.ok_or_else(|| not_found(instance))?;
            Ok((mapping.into(), group))
        };
        self.db.read(grouped).await
    }

    /// Returns mappings, newest first.
    pub async fn instance_mappings(&self, filter: MappingFilter) -> Result<Vec<InstanceMapping>, DbError> {
        self.db.read(move |conn| list(conn, filter)).await
    }

    /// Returns the mappings of these servers, ordered by uuid. Servers without a mapping are left out.
    pub async fn instance_mappings_of(&self, instances: Vec<Uuid>) -> Result<Vec<InstanceMapping>, DbError> {
        self.db
            .read(move |conn| {
                let mut records = Vec::with_capacity(instances.len());
                for chunk in instances.chunks(CHUNK) {
                    let rows = mappings::table.filter(mappings::instance_uuid.eq_any(chunk.iter().copied().map(Sql)));
                    records.extend(row::load::<InstanceMapping>(conn, rows.select(InstanceMappingRow::as_select()))?);
                }
                records.sort_by_key(|mapping: &InstanceMapping| mapping.instance_uuid);
                Ok(records)
            })
            .await
    }

    /// Returns the servers (of one project, if given) whose mapping changed at or after `at`.
    pub async fn mappings_changed_since(&self, at: DateTime<Utc>, project_id: Option<&str>) -> Result<Vec<Uuid>, DbError> {
        let project = project_id.map(str::to_owned);
        self.db
            .read(move |conn| {
                let mut query = mappings::table.filter(mappings::updated_at.ge(Sql(Some(at)))).into_boxed();
                if let Some(project) = project {
                    query = query.filter(mappings::project_id.eq(project));
                }
                Ok(query.select(mappings::instance_uuid).load(conn)?)
            })
            .await
    }

    /// Names the server's cell.
    pub async fn set_cell(&self, fence: Fence, instance: Uuid, cell: Uuid) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db.write_fenced(fence, move |conn| set_cell(conn, instance, cell, now)).await
    }

    /// Records whether the delete was asked for.
    pub async fn set_queued_for_delete(&self, instance: Uuid, queued: bool) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db
            .write(move |conn| {
                let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(instance)));
                let set = (mappings::queued_for_delete.eq(queued), mappings::updated_at.eq(Sql(Some(now))));
                match diesel::update(row).set(set).execute(conn)? {
                    0 => Err(not_found(instance)),
                    _ => Ok(()),
                }
            })
            .await
    }

    /// Removes a server from this database: mapping, request spec, build request and group membership. Succeeds if they are gone already.
    pub async fn purge_server(&self, fence: Fence, instance: Uuid) -> Result<(), DbError> {
        self.db.write_fenced(fence, move |conn| purge(conn, instance)).await
    }
}

pub(in crate::db) fn get(conn: &mut Conn, instance: Uuid) -> Result<InstanceMapping, DbError> {
    let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(instance)));
    row::first(conn, row.select(InstanceMappingRow::as_select()))?.ok_or_else(|| not_found(instance))
}

/// Inserts the mapping of a server that the grant covers.
pub(super) fn insert(conn: &mut Conn, _: &QuotaGrant<AcceptedServer>, mapping: InstanceMapping) -> Result<(), DbError> {
    diesel::insert_into(mappings::table).values(InstanceMappingRow::from(mapping)).execute(conn)?;
    Ok(())
}

pub(in crate::db) fn set_cell(conn: &mut Conn, instance: Uuid, cell: Uuid, now: DateTime<Utc>) -> Result<(), DbError> {
    let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(instance)));
    let set = (mappings::cell_uuid.eq(Sql(Some(cell))), mappings::updated_at.eq(Sql(Some(now))));
    match diesel::update(row).set(set).execute(conn)? {
        0 => Err(not_found(instance)),
        _ => Ok(()),
    }
}

fn purge(conn: &mut Conn, instance: Uuid) -> Result<(), DbError> {
    diesel::delete(server_group_members::table.filter(server_group_members::instance_uuid.eq(Sql(instance)))).execute(conn)?;
    diesel::delete(build_requests::table.find(Sql(instance))).execute(conn)?;
    diesel::delete(request_specs::table.find(Sql(instance))).execute(conn)?;
    diesel::delete(mappings::table.filter(mappings::instance_uuid.eq(Sql(instance)))).execute(conn)?;
    Ok(())
}

fn list(conn: &mut Conn, filter: MappingFilter) -> Result<Vec<InstanceMapping>, DbError> {
    let mut query = mappings::table.into_boxed();
    match filter.cell {
        Some(Some(cell)) => query = query.filter(mappings::cell_uuid.eq(Sql(Some(cell)))),
        Some(None) => query = query.filter(mappings::cell_uuid.is_null()),
        None => {}
    }
    if let Some(project) = filter.project_id {
        query = query.filter(mappings::project_id.eq(project));
    }
    if let Some(user) = filter.user_id {
        query = query.filter(mappings::user_id.eq(user));
    }
    if filter.living {
        query = query.filter(mappings::queued_for_delete.is_null().or(mappings::queued_for_delete.eq(false)));
    }
    if let Some(limit) = filter.limit {
        query = query.limit(limit);
    }
    row::load(conn, query.order(mappings::id.desc()).select(InstanceMappingRow::as_select()))
}

fn not_found(instance: Uuid) -> DbError {
    DbError::NotFound(format!("Instance {instance}"))
}
