//! Security groups and their rules.

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_store::{Conn, DbError, Of};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::network::schema::{security_group_rules, security_groups};
use crate::network::statements::statements;
use crate::of::load_of;

/// A security group. A unique index allows one default group per project.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = security_groups)]
pub struct GroupRow {
    pub id: String,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub stateful: bool,
    pub is_default: bool,
    pub tags: String,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
}

/// A rule of a group.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = security_group_rules)]
pub struct RuleRow {
    pub id: String,
    pub security_group_id: String,
    pub project_id: String,
    pub direction: String,
    pub ethertype: String,
    pub protocol: Option<String>,
    pub port_range_min: Option<i32>,
    pub port_range_max: Option<i32>,
    pub remote_ip_prefix: Option<String>,
    pub remote_group_id: Option<String>,
    pub description: String,
    pub created_at: NaiveDateTime,
}

statements!(security_groups, GroupRow: insert, list, find, hold, save);

/// Returns ids and projects of the groups with these ids. The caller limits the number of ids.
pub fn owners(conn: &mut Conn, ids: &[String]) -> Result<Vec<(String, String)>, DbError> {
    let groups = security_groups::table.filter(security_groups::id.eq_any(ids));
    Ok(groups.select((security_groups::id, security_groups::project_id)).load(conn)?)
}

/// Returns the default group of a project.
pub fn default_of(conn: &mut Conn, project: &str) -> Result<Option<GroupRow>, DbError> {
    Ok(security_groups::table
        .filter(security_groups::project_id.eq(project))
        .filter(security_groups::is_default.eq(true))
        .select(GroupRow::as_select())
        .first(conn)
        .optional()?)
}

/// Removes a group and its rules.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(security_group_rules::table.filter(security_group_rules::security_group_id.eq(id))).execute(conn)?;
    diesel::delete(security_groups::table.filter(security_groups::id.eq(id))).execute(conn)?;
    Ok(())
}

/// Adds a rule.
pub fn insert_rule(conn: &mut Conn, _: QuotaGrant<RuleRow>, row: &RuleRow) -> Result<(), DbError> {
    diesel::insert_into(security_group_rules::table).values(row).execute(conn)?;
    Ok(())
}

/// Returns rules of all groups or of these, oldest first.
pub fn rules(conn: &mut Conn, of: Of<'_>) -> Result<Vec<RuleRow>, DbError> {
    let query = security_group_rules::table.order(security_group_rules::number.asc()).select(RuleRow::as_select());
    load_of!(conn, query, security_group_rules::security_group_id, of, |row| &row.security_group_id)
}

/// Returns the rule with this id.
pub fn find_rule(conn: &mut Conn, id: &str) -> Result<Option<RuleRow>, DbError> {
    Ok(security_group_rules::table.filter(security_group_rules::id.eq(id)).select(RuleRow::as_select()).first(conn).optional()?)
}

/// Removes a rule.
pub fn delete_rule(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(security_group_rules::table.filter(security_group_rules::id.eq(id))).execute(conn)?;
    Ok(())
}
