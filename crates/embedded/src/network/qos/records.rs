//! QoS policies and their rules.

use cellshift_store::{Conn, DbError, Of};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::network::schema::{networks, qos_policies, qos_rules};
use crate::network::statements::statements;
use crate::of::load_of;

/// A QoS policy.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = qos_policies)]
pub struct PolicyRow {
    pub id: String,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub shared: bool,
    pub is_default: bool,
    pub tags: String,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
}

/// A rule of a policy. `amount` is in the unit of its kind: kilobits or kilopackets per second, or a DSCP mark.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = qos_rules, treat_none_as_null = true)]
pub struct RuleRow {
    pub id: String,
    pub policy_id: String,
    pub kind: String,
    pub direction: String,
    pub amount: i64,
    pub burst: Option<i64>,
}

statements!(qos_policies, PolicyRow: list, find, hold, save);

/// Adds a policy.
pub fn insert(conn: &mut Conn, row: &PolicyRow) -> Result<(), DbError> {
    diesel::insert_into(qos_policies::table).values(row).execute(conn)?;
    Ok(())
}

/// Returns the id of a project's default policy.
pub fn default_of(conn: &mut Conn, project: &str) -> Result<Option<String>, DbError> {
    let of_project = qos_policies::table.filter(qos_policies::project_id.eq(project)).filter(qos_policies::is_default.eq(true));
    Ok(of_project.select(qos_policies::id).first(conn).optional()?)
}

/// Removes a policy and its rules.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(qos_rules::table.filter(qos_rules::policy_id.eq(id))).execute(conn)?;
    diesel::delete(qos_policies::table.filter(qos_policies::id.eq(id))).execute(conn)?;
    Ok(())
}

/// Counts the networks that name the policy.
pub fn count_networks(conn: &mut Conn, policy: &str) -> Result<i64, DbError> {
    Ok(networks::table.filter(networks::qos_policy_id.eq(policy)).count().get_result(conn)?)
}

/// Adds a rule. Conflict if the policy has a rule of this kind and direction.
pub fn insert_rule(conn: &mut Conn, row: &RuleRow) -> Result<(), DbError> {
    diesel::insert_into(qos_rules::table).values(row).execute(conn)?;
    Ok(())
}

/// Returns rules of all policies or of these, oldest first.
pub fn rules(conn: &mut Conn, of: Of<'_>) -> Result<Vec<RuleRow>, DbError> {
    let query = qos_rules::table.order(qos_rules::number.asc()).select(RuleRow::as_select());
    load_of!(conn, query, qos_rules::policy_id, of, |row| &row.policy_id)
}

/// Writes all columns of a rule.
pub fn save_rule(conn: &mut Conn, row: &RuleRow) -> Result<(), DbError> {
    diesel::update(qos_rules::table.filter(qos_rules::id.eq(&row.id))).set(row).execute(conn)?;
    Ok(())
}

/// Removes a rule.
pub fn delete_rule(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(qos_rules::table.filter(qos_rules::id.eq(id))).execute(conn)?;
    Ok(())
}
