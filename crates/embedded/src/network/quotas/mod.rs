//! Quotas: the maximum numbers of a project's networks, subnets, subnet pools, ports, routers, floating IPs, security groups and
//! rules. Creation takes the project's turn in its
//! transaction before it counts, so that the second of two creations counts the first.

pub(super) mod records;
pub(super) mod routes;

use std::collections::BTreeMap;

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_store::{Conn, DbError};

use super::EmbeddedNetwork;
use super::floating_ips::records::FloatingIpRow;
use super::limits::Limits;
use super::networks::records::NetworkRow;
use super::ports::records::PortRow;
use super::records::Attributes;
use super::routers::records::RouterRow;
use super::security_groups::records::{GroupRow, RuleRow};
use super::subnet_pools::records::PoolRow;
use super::subnets::records::SubnetRow;
use super::values;
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::{self as table, Counted};

const UNLIMITED: i64 = -1;
/// The flags beside the limits of a request. The second one says what is done anyway, unless the first one is set.
pub const OPTIONS: [&str; 2] = ["force", "check_limit"];

/// A limit, and the used amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    pub limit: i64,
    pub used: i64,
}

impl EmbeddedNetwork {
    /// Returns the default limits, by resource.
    pub fn default_quota(&self) -> BTreeMap<String, i64> {
        self.limits.by_resource()
    }

    /// Returns a project's limits, by resource.
    pub async fn quota(&self, project: String) -> Result<BTreeMap<String, i64>, ServiceError> {
        let limits = self.limits.clone();
        self.read(move |conn| Ok(of(conn, &limits, &project)?)).await
    }

    /// Returns the limits of all projects that have their own.
    pub async fn quotas(&self) -> Result<BTreeMap<String, BTreeMap<String, i64>>, ServiceError> {
        let defaults = self.default_quota();
        self.read(move |conn| {
            let mut by_project: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
            for (project, resource, limit) in table::all(conn)? {
                by_project.entry(project).or_insert_with(|| defaults.clone()).insert(resource, limit);
            }
            Ok(by_project)
        })
        .await
    }

    /// Returns a project's limits and usage, by resource.
    pub async fn quota_usage(&self, project: String) -> Result<BTreeMap<String, Room>, ServiceError> {
        let limits = self.limits.clone();
        self.read(move |conn| {
            let mut rooms = BTreeMap::new();
            for (resource, limit) in of(conn, &limits, &project)? {
                let used = used(conn, &project, &resource)?;
                rooms.insert(resource, Room { limit, used });
            }
            Ok(rooms)
        })
        .await
    }

    /// Returns how many more ports a project may have; none if there is no limit. The ports are counted only if there is a limit.
    pub(super) async fn port_room(&self, project: String) -> Result<Option<i64>, ServiceError> {
        let limits = self.limits.clone();
        self.read(move |conn| {
            let limit = of(conn, &limits, &project)?.remove(PortRow::RESOURCE).filter(|limit| *limit >= 0);
            Ok(limit.map(|limit| PortRow::count(conn, &project).map(|used| limit - used)).transpose()?)
        })
        .await
    }

    /// Sets some limits of a project. Invalid if a limit is below the usage, unless the request has `force`.
    pub async fn set_quota(&self, project: String, mut quota: Attributes) -> Result<BTreeMap<String, i64>, ServiceError> {
        let limits = self.limits.clone();
        let mut option = |name: &str| {
            quota.remove(name).map(|value| values::flag(&value)).transpose().map_err(|why| ServiceError::Invalid(Reason::public(why)))
        };
        let [force, check_limit] = OPTIONS;
        let forced = option(force)?.is_some_and(|forced| forced == true);
        option(check_limit)?;
        let mut changes = BTreeMap::new();
        for (resource, limit) in &quota {
            if !limits.knows(resource) {
                return Err(ServiceError::Invalid(reason!("Unrecognized attribute(s) '{}'", values::shortened(resource))));
            }
            let limit = values::number(limit, UNLIMITED, i64::from(i32::MAX));
            let limit = limit.map_err(|why| ServiceError::Invalid(reason!("Invalid input for {resource}. Reason: {why}.")))?;
            changes.insert(resource.clone(), limit.as_i64().unwrap_or(UNLIMITED));
        }
        self.make_turn(&project).await?;
        self.write(None, move |conn| {
            // The turn keeps others from creating anything between this count and the new limit.
            table::take_turn(conn, &project)?;
            for (resource, limit) in &changes {
                let used = used(conn, &project, resource)?;
                if !forced && *limit != UNLIMITED && used > *limit {
                    let text = reason!("Quota limit {limit} for {resource} must be greater than or equal to already used {used}");
                    return Err(ServiceError::Invalid(text).into());
                }
                table::set(conn, &project, resource, *limit)?;
            }
            Ok(of(conn, &limits, &project)?)
        })
        .await
    }

    /// Gives a project the default limits again.
    pub async fn reset_quota(&self, project: String) -> Result<(), ServiceError> {
        self.write(None, move |conn| Ok(table::clear(conn, &project)?)).await
    }

    /// Makes the project's row of turns if it is missing. A separate transaction must do this first: two that insert the row concurrently
    /// conflict, and a conflict ends the transaction.
    pub(super) async fn make_turn(&self, project: &str) -> Result<(), ServiceError> {
        let (key, turn) = (project.to_owned(), project.to_owned());
        if self.read(move |conn| Ok(table::has_turn(conn, &key)?)).await? {
            return Ok(());
        }
        match self.write(None, move |conn| Ok(table::make_turn(conn, &turn)?)).await {
            // Another transaction inserted the row meanwhile.
            Err(ServiceError::Conflict(_)) => Ok(()),
            other => other,
        }
    }
}

/// Takes the project's turn: other transactions wait for it until this one ends.
pub(super) fn take_turn(conn: &mut Conn, project: &str) -> Result<(), DbError> {
    table::take_turn(conn, project).map(|_| ())
}

/// Grants, in the project's turn, one more row. Conflict if the project has no room for it.
pub(super) fn take<T: Counted>(conn: &mut Conn, limits: &Limits, project: &str) -> Result<QuotaGrant<T>, TransactionError> {
    let (limit, used) = figures::<T>(conn, limits, project)?;
    QuotaGrant::within(limit, used, 1).ok_or_else(|| exceeded(T::RESOURCE))
}

/// Grants, in the project's turn, a row for each item. Conflict if the project has no room for all of them.
pub(super) fn take_for_each<'a, T: Counted, I>(
    conn: &mut Conn,
    limits: &Limits,
    project: &str,
    items: &'a [I],
) -> Result<Vec<(QuotaGrant<T>, &'a I)>, TransactionError> {
    let (limit, used) = figures::<T>(conn, limits, project)?;
    QuotaGrant::for_each(limit, used, items).ok_or_else(|| exceeded(T::RESOURCE))
}

/// Returns the limit and the used amount, in the project's turn. The rows are not counted if the project has no limit.
fn figures<T: Counted>(conn: &mut Conn, limits: &Limits, project: &str) -> Result<(i64, i64), DbError> {
    table::take_turn(conn, project)?;
    match of(conn, limits, project)?.get(T::RESOURCE).copied() {
        Some(limit) if limit >= 0 => Ok((limit, T::count(conn, project)?)),
        _ => Ok((UNLIMITED, 0)),
    }
}

fn exceeded(resource: &str) -> TransactionError {
    ServiceError::Conflict(Reason::quota_exceeded(resource)).into()
}

fn of(conn: &mut Conn, limits: &Limits, project: &str) -> Result<BTreeMap<String, i64>, DbError> {
    let mut of_project = limits.by_resource();
    of_project.extend(table::of_project(conn, project)?);
    Ok(of_project)
}

fn used(conn: &mut Conn, project: &str, resource: &str) -> Result<i64, DbError> {
    match resource {
        NetworkRow::RESOURCE => NetworkRow::count(conn, project),
        SubnetRow::RESOURCE => SubnetRow::count(conn, project),
        PoolRow::RESOURCE => PoolRow::count(conn, project),
        PortRow::RESOURCE => PortRow::count(conn, project),
        RouterRow::RESOURCE => RouterRow::count(conn, project),
        FloatingIpRow::RESOURCE => FloatingIpRow::count(conn, project),
        GroupRow::RESOURCE => GroupRow::count(conn, project),
        RuleRow::RESOURCE => RuleRow::count(conn, project),
        // The service cannot create the other resources, so there are none.
        _ => Ok(0),
    }
}
