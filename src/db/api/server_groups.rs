//! Server groups and their members.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::group_places;
use super::quota_turns::forget_turn;
use super::schema::{server_group_members as members, server_groups as groups};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::quota;
use crate::domain::quota_grant::{AcceptedServer, QuotaGrant};
use crate::domain::server_group::{GroupPolicy, ServerGroupRecord};

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = groups)]
struct GroupRow {
    #[diesel(serialize_as = Sql<Uuid>)]
    uuid: Uuid,
    #[diesel(serialize_as = Sql<DateTime<Utc>>)]
    created_at: DateTime<Utc>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    updated_at: Option<DateTime<Utc>>,
    project_id: String,
    user_id: String,
    name: String,
    #[diesel(serialize_as = Sql<GroupPolicy>)]
    policy: GroupPolicy,
    #[diesel(serialize_as = Sql<serde_json::Value>)]
    rules: serde_json::Value,
}

impl GroupRow {
    fn with_members(self, members: Vec<Uuid>) -> ServerGroupRecord {
        ServerGroupRecord {
            uuid: self.uuid,
            created_at: self.created_at,
            updated_at: self.updated_at,
            project_id: self.project_id,
            user_id: self.user_id,
            name: self.name,
            policy: self.policy,
            rules: self.rules,
            members,
        }
    }
}

impl ApiDb {
    /// Creates a group without members: a server joins it when the server is accepted.
    pub async fn create_server_group(&self, group: ServerGroupRecord, granted: QuotaGrant<ServerGroupRecord>) -> Result<(), DbError> {
        self.db.write(move |conn| create(conn, group, granted)).await
    }

    /// Creates a group as [`ApiDb::create_server_group`] does, or returns false if the project has `most` groups already, or the user has
    /// `most_of_user` of them. Concurrent requests take turns, so that they cannot exceed these together.
    pub async fn create_server_group_within(&self, group: ServerGroupRecord, most: i64, most_of_user: i64) -> Result<bool, DbError> {
        self.in_turn(group.project_id.clone(), move |conn| {
            let of_project = || groups::table.filter(groups::project_id.eq(&group.project_id));
            let of_user: i64 = of_project().filter(groups::user_id.eq(&group.user_id)).count().get_result(conn)?;
            if !quota::within(most_of_user, of_user, 1) {
                return Ok(false);
            }
            let count: i64 = of_project().count().get_result(conn)?;
            match QuotaGrant::within(most, count, 1) {
                None => Ok(false),
                Some(granted) => create(conn, group.clone(), granted).map(|()| true),
            }
        })
        .await
    }

    /// Returns the groups of a project, or all groups, oldest first.
    pub async fn server_groups(&self, project_id: Option<&str>) -> Result<Vec<ServerGroupRecord>, DbError> {
        let project = project_id.map(str::to_owned);
        self.db
            .read(move |conn| {
                let mut query = groups::table.into_boxed();
                if let Some(project) = project {
                    query = query.filter(groups::project_id.eq(project));
                }
                let rows: Vec<GroupRow> = query.order(groups::id).select(GroupRow::as_select()).load(conn)?;
                let pairs: Vec<(Uuid, Uuid)> =
                    members::table.order(members::id).select((members::group_uuid, members::instance_uuid)).load(conn)?;
                let mut by_group: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
                for (group, server) in pairs {
                    by_group.entry(group).or_default().push(server);
                }
                let whole = |row: GroupRow| {
                    let servers = by_group.remove(&row.uuid).unwrap_or_default();
                    row.with_members(servers)
                };
                Ok(rows.into_iter().map(whole).collect())
            })
            .await
    }

    /// Returns the group with this uuid.
    pub async fn server_group(&self, uuid: Uuid) -> Result<ServerGroupRecord, DbError> {
        self.db.read(move |conn| get(conn, uuid)).await
    }

    /// Returns the uuid of the group that a server is in.
    pub async fn server_group_of(&self, instance: Uuid) -> Result<Option<Uuid>, DbError> {
        self.db.read(move |conn| group_of(conn, instance)).await
    }

    /// Removes a group and its memberships.
    pub async fn delete_server_group(&self, uuid: Uuid) -> Result<(), DbError> {
        self.db
            .write(move |conn| match diesel::delete(groups::table.filter(groups::uuid.eq(Sql(uuid)))).execute(conn)? {
                0 => Err(not_found(uuid)),
                _ => forget_turn(conn, &group_places::turn_of(uuid)),
            })
            .await
    }
}

/// Returns the uuid of the group that a server is in.
pub(super) fn group_of(conn: &mut Conn, instance: Uuid) -> Result<Option<Uuid>, DbError> {
    let group = members::table.filter(members::instance_uuid.eq(Sql(instance))).select(members::group_uuid);
    Ok(group.first(conn).optional()?)
}

fn create(conn: &mut Conn, group: ServerGroupRecord, _: QuotaGrant<ServerGroupRecord>) -> Result<(), DbError> {
    let ServerGroupRecord { uuid, created_at, updated_at, project_id, user_id, name, policy, rules, members: _ } = group;
    let row = GroupRow { uuid, created_at, updated_at, project_id, user_id, name, policy, rules };
    diesel::insert_into(groups::table).values(row).execute(conn)?;
    Ok(())
}

fn get(conn: &mut Conn, uuid: Uuid) -> Result<ServerGroupRecord, DbError> {
    let row: Option<GroupRow> = groups::table.filter(groups::uuid.eq(Sql(uuid))).select(GroupRow::as_select()).first(conn).optional()?;
    let row = row.ok_or_else(|| not_found(uuid))?;
    let servers = members::table.filter(members::group_uuid.eq(Sql(uuid))).order(members::id).select(members::instance_uuid).load(conn)?;
    Ok(row.with_members(servers))
}

/// Adds an accepted server to its group.
pub(super) fn add_member(conn: &mut Conn, _: QuotaGrant<AcceptedServer>, group: Uuid, instance: Uuid) -> Result<(), DbError> {
    let exists: i64 = groups::table.filter(groups::uuid.eq(Sql(group))).count().get_result(conn)?;
    if exists == 0 {
        return Err(not_found(group));
    }
    let row = (members::group_uuid.eq(Sql(group)), members::instance_uuid.eq(Sql(instance)));
    diesel::insert_into(members::table).values(row).execute(conn)?;
    Ok(())
}

fn not_found(uuid: Uuid) -> DbError {
    DbError::NotFound(format!("Instance group {uuid}"))
}
