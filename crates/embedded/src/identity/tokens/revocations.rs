//! Revocations of all tokens of a user, a scope or a role assignment. A revoked token stays revoked, even if the right is given back later.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::identity::assignments::records as assignments;
use crate::identity::domains::records as domains;
use crate::identity::groups::records as groups;
use crate::identity::schema::{group_role_assignments, role_assignments, token_revocations};
use crate::identity::{Actor, Assignment, Target, state};

/// Stands for all users, or all targets.
const ANY: &str = "";

/// Revokes all tokens of the user. As for all functions here, the caller first calls [`state::advance`]; `expires_at` is the moment when
/// the last token that is valid now has expired.
pub fn of_user(conn: &mut Conn, user_id: &str, expires_at: NaiveDateTime) -> Result<(), DbError> {
    end(conn, user_id, ANY, expires_at)
}

/// Revokes all tokens that are scoped to the target.
pub fn of_target(conn: &mut Conn, target: &Target, expires_at: NaiveDateTime) -> Result<(), DbError> {
    end(conn, ANY, &target.as_text(), expires_at)
}

/// Revokes the tokens of the domain's users, and those that are scoped to the domain or one of its projects.
pub fn of_domain(conn: &mut Conn, domain_id: &str, expires_at: NaiveDateTime) -> Result<(), DbError> {
    of_target(conn, &Target::Domain(domain_id.to_owned()), expires_at)?;
    for project_id in domains::project_ids(conn, domain_id)? {
        of_target(conn, &Target::Project(project_id), expires_at)?;
    }
    domains::user_ids(conn, domain_id)?.iter().try_for_each(|user_id| of_user(conn, user_id, expires_at))
}

/// Revokes the tokens, of the user or of the group's members, that are scoped to the assignment's target.
pub fn of_assignment(conn: &mut Conn, assignment: &Assignment, expires_at: NaiveDateTime) -> Result<(), DbError> {
    let target = assignment.target.as_text();
    match &assignment.actor {
        Actor::User(id) => end(conn, id, &target, expires_at),
        Actor::Group(id) => end_of_members(conn, id, &target, expires_at),
    }
}

/// Revokes the user's tokens that are scoped to a target at which the group has a role.
pub fn of_member(conn: &mut Conn, group_id: &str, user_id: &str, expires_at: NaiveDateTime) -> Result<(), DbError> {
    assignments::targets_of_group(conn, group_id)?.iter().try_for_each(|target| end(conn, user_id, target, expires_at))
}

fn end_of_members(conn: &mut Conn, group_id: &str, target: &str, expires_at: NaiveDateTime) -> Result<(), DbError> {
    groups::member_ids(conn, group_id)?.iter().try_for_each(|user_id| end(conn, user_id, target, expires_at))
}

/// Revokes, for each assignment of the role, the user's or the members' tokens that are scoped to its target.
pub fn of_role(conn: &mut Conn, role_id: &str, expires_at: NaiveDateTime) -> Result<(), DbError> {
    let held: Vec<(String, String)> = role_assignments::table
        .filter(role_assignments::role_id.eq(role_id))
        .select((role_assignments::user_id, role_assignments::target))
        .load(conn)?;
    held.iter().try_for_each(|(user_id, target)| end(conn, user_id, target, expires_at))?;
    let assignments: Vec<(String, String)> = group_role_assignments::table
        .filter(group_role_assignments::role_id.eq(role_id))
        .select((group_role_assignments::group_id, group_role_assignments::target))
        .load(conn)?;
    assignments.iter().try_for_each(|(group_id, target)| end_of_members(conn, group_id, target, expires_at))
}

fn end(conn: &mut Conn, user_id: &str, target: &str, expires_at: NaiveDateTime) -> Result<(), DbError> {
    // Changes take turns at the state's row, so that no other transaction inserts the key meanwhile.
    let now = (token_revocations::revision.eq(state::revision(conn)?), token_revocations::expires_at.eq(expires_at));
    if diesel::update(token_revocations::table.find((user_id, target))).set(now).execute(conn)? == 0 {
        let key = (token_revocations::user_id.eq(user_id), token_revocations::target.eq(target));
        diesel::insert_into(token_revocations::table).values((key, now)).execute(conn)?;
    }
    Ok(())
}

/// True if a token of this user and target (none: unscoped), issued at this revision, is revoked.
pub fn is_ended(conn: &mut Conn, user_id: &str, target: Option<&Target>, issued_at: i64) -> Result<bool, DbError> {
    let targets = [ANY.to_owned(), target.map(Target::as_text).unwrap_or_default()];
    let ended = token_revocations::table
        .filter(token_revocations::user_id.eq_any([ANY, user_id]))
        .filter(token_revocations::target.eq_any(targets))
        .filter(token_revocations::revision.gt(issued_at));
    Ok(diesel::select(diesel::dsl::exists(ended)).get_result(conn)?)
}

/// Removes the revocations whose tokens have all expired by `now`.
pub fn forget_expired(conn: &mut Conn, now: NaiveDateTime) -> Result<(), DbError> {
    diesel::delete(token_revocations::table.filter(token_revocations::expires_at.lt(now))).execute(conn)?;
    Ok(())
}
