//! The API database's own record of a project's servers, so that quotas work while cells are down.

use std::collections::BTreeSet;

use diesel::Connection;
use diesel::dsl::{count_star, sum};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::operations::{operations, sagas};
use super::schema::{build_requests as builds, instance_mappings as mappings, request_specs, server_group_members};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::quota::{CountedRoom, ProjectServers, ServerUsage, refusal, refusal_of_user};
use crate::domain::quota_grant::{AcceptedServer, QuotaGrant};
use crate::domain::request_spec::RequestSpec;

/// The maximum number of uuids in one statement.
const CHUNK: usize = 500;

impl ApiDb {
    /// Returns the servers of a project, or of one user in it.
    pub async fn project_servers(&self, project_id: &str, user_id: Option<&str>) -> Result<ProjectServers, DbError> {
        let (project, user) = (project_id.to_owned(), user_id.map(str::to_owned));
        self.db.read(move |conn| conn.transaction(|conn| servers_of(conn, &project, user.as_deref()))).await
    }

    /// Returns the living servers of a project whose mappings have an id above `newest`.
    pub async fn servers_since(&self, project_id: &str, newest: i32) -> Result<BTreeSet<Uuid>, DbError> {
        let project = project_id.to_owned();
        self.db.read(move |conn| Ok(since(conn, &project, newest)?.into_iter().collect())).await
    }

    /// Returns the cells of a project's servers (of all servers, without a project): of living servers, or with `ever` of deleted ones too.
    pub async fn cells_of_project(&self, project_id: Option<&str>, ever: bool) -> Result<BTreeSet<Uuid>, DbError> {
        let project = project_id.map(str::to_owned);
        self.db
            .read(move |conn| {
                let mut rows = mappings::table.filter(mappings::cell_uuid.is_not_null()).into_boxed();
                if let Some(project) = project {
                    rows = rows.filter(mappings::project_id.eq(project));
                }
                if !ever {
                    rows = rows.filter(mappings::queued_for_delete.is_null().or(mappings::queued_for_delete.eq(false)));
                }
                let cells: Vec<Option<Uuid>> = rows.select(mappings::cell_uuid).distinct().load(conn)?;
                Ok(cells.into_iter().flatten().collect())
            })
            .await
    }

    /// Returns the number of a group's living members that belong to the user, or whose user is unknown.
    pub async fn members_of_user(&self, group: Uuid, user_id: &str) -> Result<i64, DbError> {
        let user = user_id.to_owned();
        self.db.read(move |conn| members_of_user(conn, group, &user)).await
    }
}

fn servers_of(conn: &mut Conn, project: &str, user: Option<&str>) -> Result<ProjectServers, DbError> {
    let living = || mappings::table.filter(mappings::project_id.eq(project)).filter(mappings::queued_for_delete.eq(false));
    let newest: Option<i32> = living().order(mappings::id.desc()).select(mappings::id).first(conn).optional()?;
    let usage = usage(conn, project, user)?;
    let silent = mappings::table.filter(mappings::project_id.eq(project)).filter(mappings::queued_for_delete.is_null());
    let silent: i64 = silent.count().get_result(conn)?;
    let nobodys: i64 = living().filter(mappings::user_id.is_null()).count().get_result(conn)?;
    let leaving = leaving(conn, project)?;
    let requests: Vec<InstanceBundle> =
        builds::table.filter(builds::project_id.eq(project)).order(builds::instance_uuid).select(builds::instance).load(conn)?;
    let building = requests
        .into_iter()
        .map(|bundle| bundle.instance)
        .filter(|instance| user.is_none_or(|user| instance.user_id == user) && !leaving.contains(&instance.uuid))
        .map(|instance| (instance.uuid, instance.flavor))
        .collect();
    Ok(ProjectServers { usage, populated: silent == 0 && nobodys == 0, building, leaving, newest: newest.unwrap_or(0) })
}

fn usage(conn: &mut Conn, project: &str, user: Option<&str>) -> Result<ServerUsage, DbError> {
    let of_mapping = request_specs::instance_uuid.eq(mappings::instance_uuid);
    let mut living = mappings::table
        .left_join(request_specs::table.on(of_mapping))
        .filter(mappings::project_id.eq(project))
        .filter(mappings::queued_for_delete.eq(false))
        .select((count_star(), sum(request_specs::vcpus.nullable()), sum(request_specs::memory_mb.nullable())))
        .into_boxed();
    if let Some(user) = user {
        living = living.filter(mappings::user_id.eq(user));
    }
    let (instances, cores, ram): (i64, Option<i64>, Option<i64>) = living.get_result(conn)?;
    Ok(ServerUsage { instances, cores: cores.unwrap_or(0), ram: ram.unwrap_or(0) })
}

/// Looks only at queued deletes and held servers: a delete that is over has returned all its resources.
fn leaving(conn: &mut Conn, project: &str) -> Result<BTreeSet<Uuid>, DbError> {
    let deleted = || mappings::table.filter(mappings::project_id.eq(project)).filter(mappings::queued_for_delete.eq(true));
    let queued = deleted().filter(mappings::delete_request.is_not_null()).select(mappings::instance_uuid);
    let mut leaving: BTreeSet<Uuid> = queued.load::<Uuid>(conn)?.into_iter().collect();
    let held: Vec<String> = operations::table.select(operations::server_uuid).load(conn)?;
    let held: Vec<Uuid> = held.iter().filter_map(|server| Uuid::parse_str(server).ok()).collect();
    for chunk in held.chunks(CHUNK) {
        let among = mappings::instance_uuid.eq_any(chunk.iter().copied().map(Sql));
        leaving.extend(deleted().filter(among).select(mappings::instance_uuid).load::<Uuid>(conn)?);
    }
    let servers: Vec<String> = leaving.iter().map(Uuid::to_string).collect();
    for chunk in servers.chunks(CHUNK) {
        // Until a move is confirmed, its migration holds the server's former resources.
        let moves = sagas::table.filter(sagas::server_uuid.eq_any(chunk)).filter(sagas::kind.eq("resize"));
        let moves: Vec<String> = moves.select(sagas::id).load(conn)?;
        leaving.extend(moves.iter().filter_map(|id| Uuid::parse_str(id).ok()));
    }
    Ok(leaving)
}

fn since(conn: &mut Conn, project: &str, newest: i32) -> Result<Vec<Uuid>, DbError> {
    let living = mappings::table.filter(mappings::project_id.eq(project)).filter(mappings::queued_for_delete.eq(false));
    Ok(living.filter(mappings::id.gt(newest)).order(mappings::id).select(mappings::instance_uuid).load(conn)?)
}

fn members_of_user(conn: &mut Conn, group: Uuid, user: &str) -> Result<i64, DbError> {
    let members: Vec<Uuid> = server_group_members::table
        .filter(server_group_members::group_uuid.eq(Sql(group)))
        .select(server_group_members::instance_uuid)
        .load(conn)?;
    let mut count = 0;
    for chunk in members.chunks(CHUNK) {
        let living = mappings::table
            .filter(mappings::instance_uuid.eq_any(chunk.iter().copied().map(Sql)))
            .filter(mappings::queued_for_delete.is_null().or(mappings::queued_for_delete.eq(false)))
            .filter(mappings::user_id.is_null().or(mappings::user_id.eq(user)));
        count += living.count().get_result::<i64>(conn)?;
    }
    Ok(count)
}

/// Says why the project or its user has no room for a new server, within the commit that accepts it. Also counts the servers accepted since
/// the room was counted: commits of one project take turns, so none is missed.
pub(super) fn grant(
    conn: &mut Conn,
    spec: &RequestSpec,
    room: &CountedRoom,
) -> Result<Result<QuotaGrant<AcceptedServer>, String>, DbError> {
    let demand = ServerUsage::by(1, &spec.flavor).by_resource();
    let used = room.used + usage_since(conn, spec, room.newest, false)?;
    if let Some(why) = refusal(&room.limits, |resource| used.of(resource), &demand) {
        return Ok(Err(why));
    }
    if let Some(own) = &room.of_user {
        let used = own.used + usage_since(conn, spec, own.newest, true)?;
        if let Some(why) = refusal_of_user(&own.limits, |resource| used.of(resource), &demand) {
            return Ok(Err(why));
        }
    }
    let Some(group) = spec.instance_group else {
        return Ok(Ok(QuotaGrant::without_check("no resource is refused, and the server joins no group")));
    };
    let members = members_of_user(conn, group, &spec.user_id)?;
    let limit = room.limits.get("server_group_members").copied().unwrap_or(-1);
    Ok(QuotaGrant::within(limit, members, 1).ok_or_else(|| "Quota exceeded, too many servers in group".to_owned()))
}

/// Returns what the servers use that the server's project, or only its user, got since a count.
fn usage_since(conn: &mut Conn, server: &RequestSpec, newest: i32, of_its_user: bool) -> Result<ServerUsage, DbError> {
    let mut usage = ServerUsage::default();
    for chunk in since(conn, &server.project_id, newest)?.chunks(CHUNK) {
        let specs = request_specs::table.filter(request_specs::instance_uuid.eq_any(chunk.iter().copied().map(Sql)));
        let specs: Vec<RequestSpec> = specs.select(request_specs::spec).load(conn)?;
        let specs = specs.iter().filter(|spec| !of_its_user || spec.user_id == server.user_id);
        usage = usage + specs.map(|spec| ServerUsage::by(1, &spec.flavor)).sum();
    }
    Ok(usage)
}
