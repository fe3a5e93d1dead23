//! Instance mappings: the cell of each server. The mapping is the only authority on which copy of a server in a move is the
//! live one (INVARIANTS D1).

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ApiDb;
use super::schema::{build_requests, instance_mappings as mappings, request_specs, server_group_members};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::delete_request::DeleteRequest;
use crate::domain::fence::Fence;

/// Uuids in one statement at most.
const CHUNK: usize = 500;

/// Where a server is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Queryable, Selectable, Insertable)]
#[diesel(table_name = mappings)]
pub struct InstanceMapping {
    #[diesel(serialize_as = Sql<Uuid>)]
    pub instance_uuid: Uuid,
    /// None while it is only a build request.
    #[diesel(serialize_as = Sql<Option<Uuid>>)]
    pub cell_uuid: Option<Uuid>,
    pub project_id: String,
    pub user_id: Option<String>,
    /// Delete was asked for; none means unknown: "no" for lists, "do not trust" for quota (docs/DOWN-CELLS.md).
    pub queued_for_delete: Option<bool>,
    /// A delete that could not begin when it was asked for.
    pub delete_request: Option<DeleteRequest>,
    #[diesel(serialize_as = Sql<DateTime<Utc>>)]
    pub created_at: DateTime<Utc>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub updated_at: Option<DateTime<Utc>>,
}

impl InstanceMapping {
    /// Its delete waits, and the server is gone for its users already: it could not be reached when they asked.
    pub fn is_hidden(&self) -> bool {
        self.delete_request.as_ref().is_some_and(|request| !request.in_sight)
    }

    /// Its delete follows the operation that has the server; until it is gone, its users see that it is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.delete_request.as_ref().is_some_and(|request| request.in_sight)
    }
}

/// Which mappings to list. Every given condition must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MappingFilter {
    /// In this cell; `Some(None)`: in none yet.
    pub cell: Option<Option<Uuid>>,
    pub project_id: Option<String>,
    pub user_id: Option<String>,
    /// Leave out servers that are queued for delete.
    pub living: bool,
    pub limit: Option<i64>,
}

impl ApiDb {
    /// A server's mapping.
    pub async fn instance_mapping(&self, instance: Uuid) -> Result<InstanceMapping, DbError> {
        self.db.read(move |conn| get(conn, instance)).await
    }

    /// Mappings, newest first.
    pub async fn instance_mappings(&self, filter: MappingFilter) -> Result<Vec<InstanceMapping>, DbError> {
        self.db.read(move |conn| list(conn, filter)).await
    }

    /// The mappings of these servers, those that exist, by uuid.
    pub async fn instance_mappings_of(&self, instances: Vec<Uuid>) -> Result<Vec<InstanceMapping>, DbError> {
        self.db
            .read(move |conn| {
                let mut found = Vec::with_capacity(instances.len());
                for chunk in instances.chunks(CHUNK) {
                    let rows = mappings::table.filter(mappings::instance_uuid.eq_any(chunk.iter().copied().map(Sql)));
                    found.extend(rows.select(InstanceMapping::as_select()).load(conn)?);
                }
                found.sort_by_key(|mapping: &InstanceMapping| mapping.instance_uuid);
                Ok(found)
            })
            .await
    }

    /// The servers (of one project, when given) whose mapping changed at or after a moment.
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

    /// Says whether delete was asked for.
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

    /// Forgets a server in this database: mapping, request spec, build request and group membership. Fine when it is forgotten.
    pub async fn purge_server(&self, fence: Fence, instance: Uuid) -> Result<(), DbError> {
        self.db.write_fenced(fence, move |conn| purge(conn, instance)).await
    }
}

pub(in crate::db) fn get(conn: &mut Conn, instance: Uuid) -> Result<InstanceMapping, DbError> {
    let row = mappings::table.filter(mappings::instance_uuid.eq(Sql(instance)));
    row.select(InstanceMapping::as_select()).first(conn).optional()?.ok_or_else(|| not_found(instance))
}

pub(in crate::db) fn insert(conn: &mut Conn, mapping: InstanceMapping) -> Result<(), DbError> {
    diesel::insert_into(mappings::table).values(mapping).execute(conn)?;
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
    Ok(query.order(mappings::id.desc()).select(InstanceMapping::as_select()).load(conn)?)
}

fn not_found(instance: Uuid) -> DbError {
    DbError::NotFound(format!("Instance {instance}"))
}
