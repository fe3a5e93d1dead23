//! The places of server groups' members: the hosts that own them, and those that an operation may bring them to or back to. A member takes its
//! new place in the group's turn, so that operations at once cannot break the group's rule together.
//!
//! Nobody gives a place up: it counts while the operation that took it may still use it, and the member's next place replaces it.

use std::collections::BTreeMap;

use diesel::dsl::{exists, not};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::group_moves;
use super::operations::{operations, parse, sagas};
use super::ownership::ownership;
use super::quota_turns::take_turn;
use super::retention::{ENDS_OF_MOVES, MOVE};
use super::schema::{server_group_members as members, server_groups as groups};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError, fence};
use crate::domain::fence::Fence;
use crate::domain::group_move::GroupMoveState;
use crate::domain::reason::Reason;
use crate::domain::saga_state::SagaState;
use crate::domain::server_group::{GroupPolicy, ServerGroup};
use crate::env::guard::{Guard, stands};

diesel::table! {
    group_places (server_uuid) {
        server_uuid -> Text,
        saga_id -> Text,
        host -> Text,
        source_host -> Nullable<Text>,
    }
}

diesel::alias!(sagas as ending: Ending);

/// The place that an operation wants for a member of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupPlace {
    pub group: Uuid,
    pub server: Uuid,
    /// The operation.
    pub saga: Uuid,
    pub host: String,
    /// The host to which the operation, or a revert of it, may bring the member back.
    pub source_host: Option<String>,
}

impl ApiDb {
    /// Returns a group with its members' places, for the scheduler. None if there is no such group.
    pub async fn placed_group(&self, group: Uuid) -> Result<Option<ServerGroup>, DbError> {
        self.db.read(move |conn| placed(conn, group)).await
    }

    /// Returns all groups with their members' places, for the audit.
    pub async fn placed_groups(&self) -> Result<Vec<ServerGroup>, DbError> {
        self.db
            .read(|conn| {
                let all: Vec<Uuid> = groups::table.order(groups::id).select(groups::uuid).load(conn)?;
                let placed_groups = all.into_iter().map(|group| placed(conn, group)).collect::<Result<Vec<_>, _>>()?;
                Ok(placed_groups.into_iter().flatten().collect())
            })
            .await
    }

    /// Takes a place for a member, or returns the reason why the group's rule forbids it. A group that is gone forbids nothing.
    pub async fn take_group_place(&self, fence: Fence, place: GroupPlace) -> Result<Option<Reason>, DbError> {
        let work = move |conn: &mut Conn| {
            fence::obey(conn, fence)?;
            take_turn(conn, &turn_of(place.group))?;
            let Some(group) = placed(conn, place.group)? else { return Ok(None) };
            match group.violation(place.server, &place.host).filter(|_| stands(Guard::GroupRecheck)) {
                None => take(conn, &place).map(|()| None),
                refused => Ok(refused),
            }
        };
        match self.db.write(work.clone()).await {
            // Two members inserted the group's first turn at once. The row exists now, so try again.
            Err(DbError::Conflict(_)) => self.db.write(work).await,
            other => other,
        }
    }
}

/// The name of a group among the holders of turns.
pub(super) fn turn_of(group: Uuid) -> String {
    format!("group {group}")
}

fn take(conn: &mut Conn, place: &GroupPlace) -> Result<(), DbError> {
    let server = place.server.to_string();
    diesel::delete(group_places::table.find(&server)).execute(conn)?;
    let row = (
        group_places::server_uuid.eq(&server),
        group_places::saga_id.eq(place.saga.to_string()),
        group_places::host.eq(&place.host),
        group_places::source_host.eq(&place.source_host),
    );
    diesel::insert_into(group_places::table).values(row).execute(conn)?;
    Ok(())
}

/// Forgets a server's place.
pub(super) fn forget(conn: &mut Conn, server: &str) -> Result<(), DbError> {
    diesel::delete(group_places::table.find(server)).execute(conn)?;
    Ok(())
}

fn placed(conn: &mut Conn, group: Uuid) -> Result<Option<ServerGroup>, DbError> {
    let row: Option<(GroupPolicy, serde_json::Value)> =
        groups::table.filter(groups::uuid.eq(Sql(group))).select((groups::policy, groups::rules)).first(conn).optional()?;
    let Some((policy, rules)) = row else { return Ok(None) };
    let in_group = members::table.filter(members::group_uuid.eq(Sql(group))).order(members::id).select(members::instance_uuid);
    let servers: Vec<Uuid> = in_group.load(conn)?;
    let ids: Vec<String> = servers.iter().map(Uuid::to_string).collect();
    let mut places: BTreeMap<Uuid, Vec<String>> = servers.into_iter().map(|server| (server, Vec::new())).collect();
    let owners = ownership::table.filter(ownership::server_uuid.eq_any(&ids)).select((ownership::server_uuid, ownership::owner_host));
    for (server, host) in owners.load::<(String, Option<String>)>(conn)? {
        add(&mut places, &server, host)?;
    }
    let rows: Vec<(String, String, String, Option<String>)> =
        group_places::table.filter(group_places::server_uuid.eq_any(&ids)).order(group_places::server_uuid).load(conn)?;
    for (server, saga, host, source_host) in rows {
        if counts(conn, &server, &saga)? {
            add(&mut places, &server, Some(host))?;
            add(&mut places, &server, source_host)?;
        }
    }
    let limit = rules.get("max_server_per_host").and_then(serde_json::Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let last = group_moves::latest(conn, group)?;
    let split = last.as_ref().is_some_and(|last| last.state == GroupMoveState::Incomplete);
    let moving_among = last.filter(|last| last.state.is_open()).map(|last| last.hosts()).unwrap_or_default();
    Ok(Some(ServerGroup { uuid: group, policy, max_server_per_host: limit.unwrap_or(1), members: places, moving_among, split }))
}

fn add(places: &mut BTreeMap<Uuid, Vec<String>>, server: &str, host: Option<String>) -> Result<(), DbError> {
    let hosts = places.entry(parse(server)?).or_default();
    hosts.extend(host.filter(|host| !hosts.contains(host)));
    Ok(())
}

/// True while the operation that took the place has the server, and while its move waits for a confirm or a revert.
fn counts(conn: &mut Conn, server: &str, saga: &str) -> Result<bool, DbError> {
    let holds = exists(operations::table.filter(operations::saga_id.eq(sagas::id)));
    let ended = ending
        .filter(ending.field(sagas::server_uuid).eq(sagas::server_uuid))
        .filter(ending.field(sagas::kind).eq_any(ENDS_OF_MOVES))
        .filter(ending.field(sagas::state).eq(SagaState::Done.as_str()))
        .filter(ending.field(sagas::created_at).ge(sagas::created_at));
    let runs = sagas::state.ne_all(SagaState::OVER).and(holds);
    let waits = sagas::kind.eq(MOVE).and(sagas::state.eq(SagaState::Done.as_str())).and(not(exists(ended)));
    let count: i64 = sagas::table.find(saga).filter(sagas::server_uuid.eq(server)).filter(runs.or(waits)).count().get_result(conn)?;
    Ok(count > 0)
}

#[cfg(test)]
mod tests;
