//! Drains and their servers. A drain is driven by the holder of its lease: every write of its driver names the lease's epoch, so that a driver
//! that stood still writes nothing after another has taken the drain over.

pub(super) mod driver;
mod reasons;

use chrono::{DateTime, NaiveDateTime, Utc};
use diesel::dsl::count_star;
use diesel::prelude::*;
use uuid::Uuid;

use super::operations::{Operations, parse};
use crate::db::clock::ClockTime;
use crate::db::{Conn, DbError};
use crate::domain::drain::{Counts, Drain, DrainPlan, DrainServer, DrainServerState, DrainState, MoveKind};
use crate::domain::reason;

diesel::table! {
    drains (id) {
        id -> Text,
        state -> Text,
        plan -> Text,
        hosts_disabled -> Bool,
        is_settled -> Bool,
        reason -> Nullable<Text>,
        lease_owner -> Text,
        lease_epoch -> BigInt,
        lease_until -> Timestamp,
        created_at -> Timestamp,
        updated_at -> Timestamp,
    }
}

diesel::table! {
    drained_hosts (host) {
        host -> Text,
        drain_id -> Text,
    }
}

diesel::table! {
    drain_servers (drain_id, server_uuid) {
        drain_id -> Text,
        server_uuid -> Text,
        host -> Text,
        state -> Text,
        tries -> Integer,
        next_try_at -> Nullable<Timestamp>,
        move_kind -> Nullable<Text>,
        target -> Nullable<Text>,
        operation_id -> Nullable<Text>,
        confirm_id -> Nullable<Text>,
        reason -> Nullable<Text>,
        updated_at -> Timestamp,
    }
}

/// A driver's right to a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrainLease {
    pub drain: Uuid,
    pub epoch: i64,
}

type DrainRow = (String, String, String, bool, bool, Option<String>, NaiveDateTime, NaiveDateTime);
type ServerRow = (
    String,
    String,
    String,
    i32,
    Option<NaiveDateTime>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    NaiveDateTime,
);

/// Selects a drain's columns.
#[diesel::dsl::auto_type(no_type_alias)]
fn drain_columns() -> _ {
    (
        drains::id,
        drains::state,
        drains::plan,
        drains::hosts_disabled,
        drains::is_settled,
        drains::reason,
        drains::created_at,
        drains::updated_at,
    )
}

/// Selects a server's columns.
#[diesel::dsl::auto_type(no_type_alias)]
fn server_columns() -> _ {
    (
        drain_servers::server_uuid,
        drain_servers::host,
        drain_servers::state,
        drain_servers::tries,
        drain_servers::next_try_at,
        drain_servers::move_kind,
        drain_servers::target,
        drain_servers::operation_id,
        drain_servers::confirm_id,
        drain_servers::reason,
        drain_servers::updated_at,
    )
}

impl Operations {
    /// Records a drain. Conflict if another drain empties one of its hosts.
    pub async fn create_drain(&self, id: Uuid, plan: DrainPlan) -> Result<(), DbError> {
        let (now, expired) = (self.db().env().now().naive_utc(), ClockTime::now(self.db().env()));
        let text = serde_json::to_string(&plan)?;
        self.db()
            .write(move |conn| {
                let own = id.to_string();
                demand_free(conn, &plan.hosts)?;
                let row = (
                    (drains::id.eq(&own), drains::state.eq(DrainState::Running.as_str()), drains::plan.eq(&text)),
                    (drains::hosts_disabled.eq(false), drains::is_settled.eq(false)),
                    (drains::lease_owner.eq(""), drains::lease_epoch.eq(0_i64), drains::lease_until.eq(expired)),
                    (drains::created_at.eq(now), drains::updated_at.eq(now)),
                );
                diesel::insert_into(drains::table).values(row).execute(conn)?;
                hold_hosts(conn, &own, &plan.hosts)
            })
            .await
    }

    /// Returns a drain.
    pub async fn drain(&self, id: Uuid) -> Result<Option<Drain>, DbError> {
        self.db().read(move |conn| find(conn, id)).await
    }

    /// Returns a page of drains, newest first. NotFound if the marker is unknown.
    pub async fn drains(&self, marker: Option<Uuid>, limit: i64) -> Result<Vec<Drain>, DbError> {
        self.db()
            .read(move |conn| {
                let mut query = drains::table.into_boxed().order((drains::created_at.desc(), drains::id.desc())).limit(limit);
                if let Some(marker) = marker {
                    let id = marker.to_string();
                    let at: Option<NaiveDateTime> = drains::table.find(&id).select(drains::created_at).first(conn).optional()?;
                    let at = at.ok_or_else(|| DbError::NotFound(format!("Drain {marker}")))?;
                    query = query.filter(drains::created_at.lt(at).or(drains::created_at.eq(at).and(drains::id.lt(id))));
                }
                query.select(drain_columns()).load::<DrainRow>(conn)?.into_iter().map(drain_of).collect()
            })
            .await
    }

    /// Counts a drain's servers by state.
    pub async fn drain_counts(&self, drain: Uuid) -> Result<Counts, DbError> {
        self.db()
            .read(move |conn| {
                let mut counts = Counts::new();
                for state in DrainServerState::ALL {
                    let count: i64 = drain_servers::table
                        .filter(drain_servers::drain_id.eq(drain.to_string()))
                        .filter(drain_servers::state.eq(state.as_str()))
                        .count()
                        .get_result(conn)?;
                    counts.insert(*state, count);
                }
                Ok(counts)
            })
            .await
    }

    /// Counts the moves that a drain has begun and not given up, by their kind.
    pub async fn drain_kinds(&self, drain: Uuid) -> Result<Vec<(MoveKind, i64)>, DbError> {
        let states = [DrainServerState::Moving, DrainServerState::Moved].map(DrainServerState::as_str);
        self.db()
            .read(move |conn| {
                let moves = drain_servers::table
                    .filter(drain_servers::drain_id.eq(drain.to_string()))
                    .filter(drain_servers::state.eq_any(states))
                    .filter(drain_servers::move_kind.is_not_null());
                let by_kind = moves.group_by(drain_servers::move_kind).select((drain_servers::move_kind, count_star()));
                let rows: Vec<(Option<String>, i64)> = by_kind.load(conn)?;
                let kind_of = |text: Option<String>| MoveKind::parse(text.as_deref()?);
                Ok(rows.into_iter().filter_map(|(kind, number)| Some((kind_of(kind)?, number))).collect())
            })
            .await
    }

    /// Returns a page of a drain's servers by uuid, after `marker`, in this state or in any.
    pub async fn drain_servers(
        &self,
        drain: Uuid,
        state: Option<DrainServerState>,
        marker: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<DrainServer>, DbError> {
        self.db()
            .read(move |conn| {
                let mut query = drain_servers::table.filter(drain_servers::drain_id.eq(drain.to_string())).into_boxed();
                if let Some(state) = state {
                    query = query.filter(drain_servers::state.eq(state.as_str()));
                }
                if let Some(marker) = marker {
                    query = query.filter(drain_servers::server_uuid.gt(marker.to_string()));
                }
                let rows: Vec<ServerRow> = query.order(drain_servers::server_uuid).limit(limit).select(server_columns()).load(conn)?;
                rows.into_iter().map(server_of).collect()
            })
            .await
    }

    /// Changes a drain's state as an operator wishes. Conflict if it is in none of the states `from`.
    pub async fn change_drain(&self, id: Uuid, from: &'static [DrainState], to: DrainState) -> Result<(), DbError> {
        let now = self.db().env().now().naive_utc();
        self.db()
            .write(move |conn| {
                let names: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
                let changed = diesel::update(drains::table.find(id.to_string()).filter(drains::state.eq_any(names)))
                    .set((drains::state.eq(to.as_str()), drains::updated_at.eq(now), drains::reason.eq(None::<String>)))
                    .execute(conn)?;
                if changed > 0 {
                    if to == DrainState::Cancelled {
                        release_hosts(conn, id)?;
                    }
                    return Ok(());
                }
                let drain = find(conn, id)?.ok_or_else(|| DbError::NotFound(format!("Drain {id}")))?;
                Err(DbError::Conflict(reason!("Drain {id} is {}.", drain.state)))
            })
            .await
    }

    /// Turns a drain back, also one that has ended. Conflict if that was requested before, or if another drain empties one of its hosts.
    pub async fn undo_drain(&self, id: Uuid) -> Result<(), DbError> {
        let now = self.db().env().now().naive_utc();
        self.db()
            .write(move |conn| {
                let drain = find(conn, id)?.ok_or_else(|| DbError::NotFound(format!("Drain {id}")))?;
                if matches!(drain.state, DrainState::Undoing | DrainState::Undone) {
                    return Err(DbError::Conflict(reason!("Drain {id} is {} already.", drain.state)));
                }
                release_hosts(conn, id)?;
                demand_free(conn, &drain.plan.hosts)?;
                hold_hosts(conn, &id.to_string(), &drain.plan.hosts)?;
                let set = (
                    drains::state.eq(DrainState::Undoing.as_str()),
                    drains::is_settled.eq(false),
                    drains::reason.eq(None::<String>),
                    drains::updated_at.eq(now),
                );
                diesel::update(drains::table.find(id.to_string())).set(set).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Returns at most `limit` settled drains that ended before this moment.
    pub async fn drains_ended_before(&self, before: DateTime<Utc>, limit: i64) -> Result<Vec<Uuid>, DbError> {
        self.db()
            .read(move |conn| {
                let old = drains::table
                    .filter(drains::is_settled.eq(true))
                    .filter(drains::updated_at.lt(before.naive_utc()))
                    .order((drains::created_at, drains::id))
                    .limit(limit)
                    .select(drains::id);
                old.load::<String>(conn)?.iter().map(|id| parse(id)).collect()
            })
            .await
    }

    /// Removes these drains with their servers, in one commit.
    pub async fn forget_drains(&self, ids: Vec<Uuid>) -> Result<(), DbError> {
        let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
        self.db()
            .write(move |conn| {
                diesel::delete(drain_servers::table.filter(drain_servers::drain_id.eq_any(&ids))).execute(conn)?;
                diesel::delete(drains::table.filter(drains::id.eq_any(&ids))).execute(conn)?;
                Ok(())
            })
            .await
    }
}

/// Conflict if a drain empties one of these hosts.
fn demand_free(conn: &mut Conn, hosts: &[String]) -> Result<(), DbError> {
    for host in hosts {
        let holder: Option<String> = drained_hosts::table.find(host).select(drained_hosts::drain_id).first(conn).optional()?;
        if let Some(holder) = holder {
            return Err(DbError::Conflict(reason!("Host {host} is being drained by drain {holder}.")));
        }
    }
    Ok(())
}

fn hold_hosts(conn: &mut Conn, drain: &str, hosts: &[String]) -> Result<(), DbError> {
    for host in hosts {
        let row = (drained_hosts::host.eq(host), drained_hosts::drain_id.eq(drain));
        diesel::insert_into(drained_hosts::table).values(row).execute(conn)?;
    }
    Ok(())
}

fn release_hosts(conn: &mut Conn, drain: Uuid) -> Result<(), DbError> {
    diesel::delete(drained_hosts::table.filter(drained_hosts::drain_id.eq(drain.to_string()))).execute(conn)?;
    Ok(())
}

fn find(conn: &mut Conn, id: Uuid) -> Result<Option<Drain>, DbError> {
    drains::table.find(id.to_string()).select(drain_columns()).first::<DrainRow>(conn).optional()?.map(drain_of).transpose()
}

fn drain_of((id, state, plan, hosts_disabled, is_settled, reason, created_at, updated_at): DrainRow) -> Result<Drain, DbError> {
    Ok(Drain {
        id: parse(&id)?,
        state: DrainState::parse(&state).ok_or_else(|| DbError::unreadable("a drain's state", &state))?,
        plan: serde_json::from_str(&plan)?,
        hosts_disabled,
        is_settled,
        reason,
        created_at: created_at.and_utc(),
        updated_at: updated_at.and_utc(),
    })
}

fn server_of(row: ServerRow) -> Result<DrainServer, DbError> {
    let (server, host, state, tries, next_try_at, kind, target, operation, confirm, reason, updated_at) = row;
    Ok(DrainServer {
        server: parse(&server)?,
        host,
        state: DrainServerState::parse(&state).ok_or_else(|| DbError::unreadable("a drain's state", &state))?,
        tries,
        next_try_at: next_try_at.map(|at| at.and_utc()),
        kind: kind.as_deref().and_then(MoveKind::parse),
        target,
        operation: operation.as_deref().map(parse).transpose()?,
        confirm: confirm.as_deref().map(parse).transpose()?,
        reason,
        updated_at: updated_at.and_utc(),
    })
}

#[cfg(test)]
mod tests;
