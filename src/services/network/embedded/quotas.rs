//! Quotas: the maximum numbers of a project's networks, subnets, ports, security groups and rules. Creation takes the project's turn in its
//! transaction before it counts, so that the second of two creations counts the first.

use std::collections::BTreeMap;

use super::super::limits::Limits;
use super::super::records::Attributes;
use super::super::values;
use super::EmbeddedNetwork;
use crate::db::services::network::quotas as table;
use crate::db::{Conn, DbError};
use crate::services::ServiceError;
use crate::services::transaction::{TransactionError, Transactions};

const UNLIMITED: i64 = -1;
/// The prefix of quota errors. The API gives these errors their own type.
pub const EXCEEDED: &str = "Quota exceeded for resources: ";

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
            let mut found: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
            for (project, resource, limit) in table::all(conn)? {
                found.entry(project).or_insert_with(|| defaults.clone()).insert(resource, limit);
            }
            Ok(found)
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

    /// Sets some limits of a project. Invalid if a limit is below the usage, unless the request has `force`.
    pub async fn set_quota(&self, project: String, mut wanted: Attributes) -> Result<BTreeMap<String, i64>, ServiceError> {
        let limits = self.limits.clone();
        let mut option = |name: &str| wanted.remove(name).map(|value| values::flag(&value)).transpose();
        let forced = option("force").map_err(ServiceError::Invalid)?.is_some_and(|forced| forced == true);
        option("check_limit").map_err(ServiceError::Invalid)?;
        let mut changes = BTreeMap::new();
        for (resource, limit) in &wanted {
            if !limits.knows(resource) {
                return Err(ServiceError::Invalid(format!("Unrecognized attribute(s) '{}'", values::shortened(resource))));
            }
            let limit = values::number(limit, UNLIMITED, i64::from(i32::MAX));
            let limit = limit.map_err(|why| ServiceError::Invalid(format!("Invalid input for {resource}. Reason: {why}.")))?;
            changes.insert(resource.clone(), limit.as_i64().unwrap_or(UNLIMITED));
        }
        self.make_turn(&project).await?;
        self.write(None, move |conn| {
            // The turn keeps others from creating anything between this count and the new limit.
            table::take_turn(conn, &project)?;
            for (resource, limit) in &changes {
                let used = used(conn, &project, resource)?;
                if !forced && *limit != UNLIMITED && used > *limit {
                    let text = format!("Quota limit {limit} for {resource} must be greater than or equal to already used {used}");
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
        let (asked, made) = (project.to_owned(), project.to_owned());
        if self.read(move |conn| Ok(table::has_turn(conn, &asked)?)).await? {
            return Ok(());
        }
        match self.write(None, move |conn| Ok(table::make_turn(conn, &made)?)).await {
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

/// Checks, in the project's turn, that there is room for `more`. Conflict if there is not.
pub(super) fn take(conn: &mut Conn, limits: &Limits, project: &str, resource: &str, more: i64) -> Result<(), TransactionError> {
    table::take_turn(conn, project)?;
    let limit = of(conn, limits, project)?.get(resource).copied().unwrap_or(UNLIMITED);
    if limit < 0 || used(conn, project, resource)? + more <= limit {
        return Ok(());
    }
    Err(ServiceError::Conflict(format!("{EXCEEDED}['{resource}'].")).into())
}

fn of(conn: &mut Conn, limits: &Limits, project: &str) -> Result<BTreeMap<String, i64>, DbError> {
    let mut of_project = limits.by_resource();
    of_project.extend(table::of_project(conn, project)?);
    Ok(of_project)
}

fn used(conn: &mut Conn, project: &str, resource: &str) -> Result<i64, DbError> {
    match resource {
        "network" => table::networks(conn, project),
        "subnet" => table::subnets(conn, project),
        "port" => table::ports(conn, project),
        "security_group" => table::security_groups(conn, project),
        "security_group_rule" => table::security_group_rules(conn, project),
        // This service cannot create the other resources, so there are none.
        _ => Ok(0),
    }
}
