//! The driver's side of drains: every call names the lease, and is refused once another driver has the drain.

use chrono::NaiveDateTime;
use diesel::prelude::*;
use uuid::Uuid;

use super::{DrainLease, ServerRow, drain_servers, drains, release_hosts, server_columns, server_of};
use crate::db::api::operations::{Operations, parse};
use crate::db::clock::ClockTime;
use crate::db::{Conn, DbError};
use crate::domain::drain::{DrainServer, DrainServerState, DrainState, MoveKind, OpenDrains};
use crate::domain::reason;

impl Operations {
    /// Returns the drains that somebody must drive, oldest first, and shows their numbers in the metrics.
    pub async fn drains_to_drive(&self) -> Result<Vec<Uuid>, DbError> {
        let metrics = self.db().env().metrics().clone();
        self.db()
            .read(move |conn| {
                let open = open(conn)?;
                let numbers = numbers_of(&open);
                metrics.drains(numbers.running, numbers.paused, numbers.waiting);
                open.iter().map(|(id, ..)| parse(id)).collect()
            })
            .await
    }

    /// Takes a drain's lease, or renews it if `held` is its present epoch. None while another driver has it.
    pub async fn lease_drain(&self, id: Uuid, owner: &str, held: Option<i64>) -> Result<Option<DrainLease>, DbError> {
        let (owner, now, until) = (owner.to_owned(), ClockTime::now(self.db().env()), self.lease_end());
        self.db()
            .write(move |conn| {
                let row = || drains::table.find(id.to_string());
                if let Some(epoch) = held {
                    let renewed =
                        diesel::update(row().filter(drains::lease_epoch.eq(epoch))).set(drains::lease_until.eq(until)).execute(conn)?;
                    if renewed > 0 {
                        return Ok(Some(DrainLease { drain: id, epoch }));
                    }
                }
                let free = row().filter(drains::lease_owner.eq(&owner).or(drains::lease_until.le(now)));
                let set = (drains::lease_owner.eq(&owner), drains::lease_epoch.eq(drains::lease_epoch + 1), drains::lease_until.eq(until));
                if diesel::update(free).set(set).execute(conn)? == 0 {
                    return Ok(None);
                }
                let epoch = row().select(drains::lease_epoch).first(conn)?;
                Ok(Some(DrainLease { drain: id, epoch }))
            })
            .await
    }

    /// Records whether the drain keeps the hosts' services disabled.
    pub async fn drain_hosts_disabled(&self, lease: DrainLease, disabled: bool) -> Result<(), DbError> {
        self.under_drain_lease(lease, move |conn, id, now| {
            let set = (drains::hosts_disabled.eq(disabled), drains::reason.eq(None::<String>), drains::updated_at.eq(now));
            diesel::update(drains::table.find(id)).set(set).execute(conn)?;
            Ok(())
        })
        .await
    }

    /// Records why a drain does not get on; none once it does.
    pub async fn note_drain(&self, lease: DrainLease, reason: Option<String>) -> Result<(), DbError> {
        self.under_drain_lease(lease, move |conn, id, now| {
            diesel::update(drains::table.find(id)).set((drains::reason.eq(reason), drains::updated_at.eq(now))).execute(conn)?;
            Ok(())
        })
        .await
    }

    /// Adds servers to a drain that it does not know, and returns their number: the `residents` of its hosts, and those that `left` by
    /// moves which may still be reverted. A server that has moved and is back on the host is refused.
    pub async fn add_drain_servers(
        &self,
        lease: DrainLease,
        residents: Vec<(Uuid, String)>,
        left: Vec<(Uuid, String)>,
    ) -> Result<usize, DbError> {
        self.under_drain_lease(lease, move |conn, id, now| {
            let mut added = 0;
            for (server, host) in &left {
                if drain_servers::table.find((id, server.to_string())).count().get_result::<i64>(conn)? == 0 {
                    insert(conn, id, *server, host, now)?;
                    added += 1;
                }
            }
            for (server, host) in &residents {
                let row = || drain_servers::table.find((id, server.to_string()));
                let record: Option<ServerRow> = row().select(server_columns()).first(conn).optional()?;
                match record.map(server_of).transpose()? {
                    None => {
                        insert(conn, id, *server, host, now)?;
                        added += 1;
                    }
                    Some(record) if matches!(record.state, DrainServerState::Moved | DrainServerState::Gone) => {
                        let set = (
                            drain_servers::state.eq(DrainServerState::Refused.as_str()),
                            drain_servers::reason.eq(format!("it had left, and is on host {host} again")),
                            drain_servers::updated_at.eq(now),
                        );
                        diesel::update(row()).set(set).execute(conn)?;
                    }
                    Some(_) => {}
                }
            }
            Ok(added)
        })
        .await
    }

    /// Records how far a server is.
    pub async fn write_drain_server(&self, lease: DrainLease, server: DrainServer) -> Result<(), DbError> {
        self.under_drain_lease(lease, move |conn, id, now| write(conn, id, &server, now)).await
    }

    /// Records the move that is about to begin. False if the drain was paused or cancelled: then it must not begin.
    pub async fn begin_drain_move(&self, lease: DrainLease, server: DrainServer) -> Result<bool, DbError> {
        self.under_drain_lease(lease, move |conn, id, now| {
            let state: String = drains::table.find(id).select(drains::state).first(conn)?;
            if state != DrainState::Running.as_str() {
                return Ok(false);
            }
            write(conn, id, &server, now)?;
            Ok(true)
        })
        .await
    }

    /// Ends a drain that has nothing in flight, if it is still in the state in which its driver saw it. Its hosts may be drained anew, and
    /// nobody drives it any more.
    pub async fn settle_drain(&self, lease: DrainLease, from: DrainState) -> Result<(), DbError> {
        self.under_drain_lease(lease, move |conn, id, now| {
            let set = (
                drains::state.eq(from.settled().as_str()),
                drains::is_settled.eq(true),
                drains::reason.eq(None::<String>),
                drains::updated_at.eq(now),
            );
            let unchanged = drains::table.find(id).filter(drains::state.eq(from.as_str()));
            match diesel::update(unchanged).set(set).execute(conn)? {
                0 => Ok(()),
                _ => release_hosts(conn, lease.drain),
            }
        })
        .await
    }

    /// Returns the servers that may be tried now: those with the fewest failed tries first.
    pub async fn drain_servers_due(&self, drain: Uuid, limit: i64) -> Result<Vec<DrainServer>, DbError> {
        let now = self.db().env().now().naive_utc();
        self.db()
            .read(move |conn| {
                let pending = drain_servers::table
                    .filter(drain_servers::drain_id.eq(drain.to_string()))
                    .filter(drain_servers::state.eq(DrainServerState::Pending.as_str()))
                    .filter(drain_servers::next_try_at.is_null().or(drain_servers::next_try_at.le(now)))
                    .order((drain_servers::tries, drain_servers::server_uuid))
                    .limit(limit)
                    .select(server_columns());
                pending.load::<ServerRow>(conn)?.into_iter().map(server_of).collect()
            })
            .await
    }

    /// Runs `work` in one commit that renews the lease. Conflict if another driver has the drain.
    async fn under_drain_lease<T, F>(&self, lease: DrainLease, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn, &str, NaiveDateTime) -> Result<T, DbError> + Send + 'static,
    {
        let (now, until) = (self.db().env().now().naive_utc(), self.lease_end());
        self.db()
            .write(move |conn| {
                let id = lease.drain.to_string();
                let held = diesel::update(drains::table.find(&id).filter(drains::lease_epoch.eq(lease.epoch)))
                    .set(drains::lease_until.eq(until))
                    .execute(conn)?;
                if held == 0 {
                    return Err(DbError::Conflict(reason!("drain {id} is driven by another controller")));
                }
                work(conn, &id, now)
            })
            .await
    }
}

/// Counts the drains by their state and the reason why they wait.
pub(in crate::db::api) fn numbers_of(open: &[OpenDrain]) -> OpenDrains {
    let mut numbers = OpenDrains::default();
    for (_, state, reason) in open {
        match (state == DrainState::Paused.as_str(), reason.is_some()) {
            (true, _) => numbers.paused += 1,
            (false, true) => numbers.waiting += 1,
            (false, false) => numbers.running += 1,
        }
    }
    numbers
}

/// The id of a drain that has not ended, its state, and the reason why it waits.
type OpenDrain = (String, String, Option<String>);

/// Reads the drains that have not ended, oldest first.
pub(in crate::db::api) fn open(conn: &mut Conn) -> Result<Vec<OpenDrain>, DbError> {
    let open = drains::table.filter(drains::is_settled.eq(false)).order((drains::created_at, drains::id));
    Ok(open.select((drains::id, drains::state, drains::reason)).load(conn)?)
}

fn insert(conn: &mut Conn, drain: &str, server: Uuid, host: &str, now: NaiveDateTime) -> Result<(), DbError> {
    let row = (
        drain_servers::drain_id.eq(drain),
        drain_servers::server_uuid.eq(server.to_string()),
        drain_servers::host.eq(host),
        drain_servers::state.eq(DrainServerState::Pending.as_str()),
        drain_servers::tries.eq(0),
        drain_servers::updated_at.eq(now),
    );
    diesel::insert_into(drain_servers::table).values(row).execute(conn)?;
    Ok(())
}

fn write(conn: &mut Conn, drain: &str, server: &DrainServer, now: NaiveDateTime) -> Result<(), DbError> {
    let set = (
        drain_servers::state.eq(server.state.as_str()),
        drain_servers::tries.eq(server.tries),
        drain_servers::next_try_at.eq(server.next_try_at.map(|at| at.naive_utc())),
        drain_servers::move_kind.eq(server.kind.map(MoveKind::as_str)),
        drain_servers::target.eq(&server.target),
        drain_servers::operation_id.eq(server.operation.map(|id| id.to_string())),
        drain_servers::confirm_id.eq(server.confirm.map(|id| id.to_string())),
        drain_servers::reason.eq(&server.reason),
        drain_servers::updated_at.eq(now),
    );
    diesel::update(drain_servers::table.find((drain, server.server.to_string()))).set(set).execute(conn)?;
    Ok(())
}
