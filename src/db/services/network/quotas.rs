//! Limits of projects, what they have used, and the turns in which they use more.

use std::collections::BTreeMap;

use diesel::prelude::*;

use super::schema::{network_quota_turns, network_quotas, networks, ports, security_group_rules, security_groups, subnets};
use crate::db::{Conn, DbError};

/// Limits that are set for a project, by resource.
pub fn of_project(conn: &mut Conn, project: &str) -> Result<BTreeMap<String, i64>, DbError> {
    let rows: Vec<(String, i64)> = network_quotas::table
        .filter(network_quotas::project_id.eq(project))
        .select((network_quotas::resource, network_quotas::hard_limit))
        .load(conn)?;
    Ok(rows.into_iter().collect())
}

/// All that is set: project, resource and limit, by project.
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

/// Forgets what is set for a project.
pub fn clear(conn: &mut Conn, project: &str) -> Result<(), DbError> {
    diesel::delete(network_quotas::table.filter(network_quotas::project_id.eq(project))).execute(conn)?;
    Ok(())
}

/// True when the project has had a turn.
pub fn has_turn(conn: &mut Conn, project: &str) -> Result<bool, DbError> {
    let rows: i64 = network_quota_turns::table.filter(network_quota_turns::project_id.eq(project)).count().get_result(conn)?;
    Ok(rows > 0)
}

/// Makes the project's turn. Conflict when it is there.
pub fn make_turn(conn: &mut Conn, project: &str) -> Result<(), DbError> {
    let row = (network_quota_turns::project_id.eq(project), network_quota_turns::turns.eq(0_i64));
    diesel::insert_into(network_quota_turns::table).values(row).execute(conn)?;
    Ok(())
}

/// Takes the project's turn: until this transaction ends, no other takes it. False when it was never made.
pub fn take_turn(conn: &mut Conn, project: &str) -> Result<bool, DbError> {
    let raised = network_quota_turns::turns.eq(network_quota_turns::turns + 1);
    Ok(diesel::update(network_quota_turns::table.find(project)).set(raised).execute(conn)? == 1)
}

/// How many networks a project has.
pub fn networks(conn: &mut Conn, project: &str) -> Result<i64, DbError> {
    Ok(networks::table.filter(networks::project_id.eq(project)).count().get_result(conn)?)
}

/// How many subnets a project has.
pub fn subnets(conn: &mut Conn, project: &str) -> Result<i64, DbError> {
    Ok(subnets::table.filter(subnets::project_id.eq(project)).count().get_result(conn)?)
}

/// How many ports a project has.
pub fn ports(conn: &mut Conn, project: &str) -> Result<i64, DbError> {
    Ok(ports::table.filter(ports::project_id.eq(project)).count().get_result(conn)?)
}

/// How many security groups a project has.
pub fn security_groups(conn: &mut Conn, project: &str) -> Result<i64, DbError> {
    Ok(security_groups::table.filter(security_groups::project_id.eq(project)).count().get_result(conn)?)
}

/// How many rules of security groups a project has.
pub fn security_group_rules(conn: &mut Conn, project: &str) -> Result<i64, DbError> {
    Ok(security_group_rules::table.filter(security_group_rules::project_id.eq(project)).count().get_result(conn)?)
}
