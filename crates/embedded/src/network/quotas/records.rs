//! Projects' limits and usage, and the turns in which projects use up their quota.

use std::collections::BTreeMap;

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::network::floating_ips::records::FloatingIpRow;
use crate::network::networks::records::NetworkRow;
use crate::network::ports::records::PortRow;
use crate::network::routers::records::RouterRow;
use crate::network::schema::{
    floating_ips, network_quota_turns, network_quotas, networks, ports, routers, security_group_rules, security_groups, subnet_pools,
    subnets,
};
use crate::network::security_groups::records::{GroupRow, RuleRow};
use crate::network::subnet_pools::records::PoolRow;
use crate::network::subnets::records::SubnetRow;

/// Returns the limits that are set for a project, by resource.
pub fn of_project(conn: &mut Conn, project: &str) -> Result<BTreeMap<String, i64>, DbError> {
    let rows: Vec<(String, i64)> = network_quotas::table
        .filter(network_quotas::project_id.eq(project))
        .select((network_quotas::resource, network_quotas::hard_limit))
        .load(conn)?;
    Ok(rows.into_iter().collect())
}

/// Returns all limits as project, resource and limit, ordered by project.
pub fn all(conn: &mut Conn) -> Result<Vec<(String, String, i64)>, DbError> {
    Ok(network_quotas::table.order((network_quotas::project_id.asc(), network_quotas::resource.asc())).load(conn)?)
}

/// Sets one limit of a project.
pub fn set(conn: &mut Conn, project: &str, resource: &str, limit: i64) -> Result<(), DbError> {
    diesel::delete(network_quotas::table.find((project, resource))).execute(conn)?;
    let key = (network_quotas::project_id.eq(project), network_quotas::resource.eq(resource));
    diesel::insert_into(network_quotas::table).values((key, network_quotas::hard_limit.eq(limit))).execute(conn)?;
    Ok(())
}

/// Removes all limits of a project.
pub fn clear(conn: &mut Conn, project: &str) -> Result<(), DbError> {
    diesel::delete(network_quotas::table.filter(network_quotas::project_id.eq(project))).execute(conn)?;
    Ok(())
}

/// True if the project's row of turns exists.
pub fn has_turn(conn: &mut Conn, project: &str) -> Result<bool, DbError> {
    let rows: i64 = network_quota_turns::table.filter(network_quota_turns::project_id.eq(project)).count().get_result(conn)?;
    Ok(rows > 0)
}

/// Inserts the project's row of turns. Conflict if it exists.
pub fn make_turn(conn: &mut Conn, project: &str) -> Result<(), DbError> {
    let row = (network_quota_turns::project_id.eq(project), network_quota_turns::turns.eq(0_i64));
    diesel::insert_into(network_quota_turns::table).values(row).execute(conn)?;
    Ok(())
}

/// Takes the project's turn: other transactions wait for it until this one ends. False if the project has no row of turns.
pub fn take_turn(conn: &mut Conn, project: &str) -> Result<bool, DbError> {
    let raised = network_quota_turns::turns.eq(network_quota_turns::turns + 1);
    Ok(diesel::update(network_quota_turns::table.find(project)).set(raised).execute(conn)? == 1)
}

/// A row that counts against a quota of its project. Storing one takes a [`QuotaGrant`](cellshift_domain::quota_grant::QuotaGrant) of it.
pub trait Counted {
    /// The quota's name.
    const RESOURCE: &'static str;

    /// Counts the rows of a project.
    fn count(conn: &mut Conn, project: &str) -> Result<i64, DbError>;
}

macro_rules! counted {
    ($row:ty, $table:ident, $resource:literal) => {
        impl Counted for $row {
            const RESOURCE: &'static str = $resource;

            fn count(conn: &mut Conn, project: &str) -> Result<i64, DbError> {
                Ok($table::table.filter($table::project_id.eq(project)).count().get_result(conn)?)
            }
        }
    };
}

counted!(NetworkRow, networks, "network");
counted!(SubnetRow, subnets, "subnet");
counted!(PoolRow, subnet_pools, "subnetpool");
counted!(PortRow, ports, "port");
counted!(RouterRow, routers, "router");
counted!(FloatingIpRow, floating_ips, "floatingip");
counted!(GroupRow, security_groups, "security_group");
counted!(RuleRow, security_group_rules, "security_group_rule");
