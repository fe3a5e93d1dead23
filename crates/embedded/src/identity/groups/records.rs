//! Groups of users, and their members.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::identity::schema::{user_group_members, user_groups, users};
use crate::identity::{User, statements, storable};

/// A group of users. Its members may be of other domains.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = user_groups)]
pub struct Group {
    pub id: String,
    pub domain_id: String,
    pub name: String,
    pub description: String,
    pub created_at: NaiveDateTime,
}

/// The changes of an update. `None` leaves a field unchanged.
#[derive(Clone, Default, Debug)]
pub struct GroupChanges {
    pub name: Option<String>,
    pub description: Option<String>,
}

statements::in_domains!(user_groups, Group, "group");

/// Changes a group and returns its new state.
pub fn update(conn: &mut Conn, id: &str, changes: &GroupChanges) -> Result<Group, DbError> {
    let mut group = find(conn, id)?;
    if let Some(name) = &changes.name {
        check_name_is_free(conn, &group.domain_id, name, id)?;
        group.name.clone_from(name);
    }
    group.description = changes.description.clone().unwrap_or(group.description);
    let changed = (user_groups::name.eq(&group.name), user_groups::description.eq(&group.description));
    diesel::update(user_groups::table.find(id)).set(changed).execute(conn)?;
    Ok(group)
}

/// Deletes a group, its memberships and its role assignments.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    find(conn, id)?;
    diesel::delete(user_groups::table.find(id)).execute(conn)?;
    Ok(())
}

/// Makes the user a member. Succeeds if the user is one already.
pub fn add_member(conn: &mut Conn, group_id: &str, user_id: &str) -> Result<(), DbError> {
    if is_member(conn, group_id, user_id)? {
        return Ok(());
    }
    let row = (user_group_members::group_id.eq(group_id), user_group_members::user_id.eq(user_id));
    diesel::insert_into(user_group_members::table).values(row).execute(conn)?;
    Ok(())
}

/// True if the user is a member.
pub fn is_member(conn: &mut Conn, group_id: &str, user_id: &str) -> Result<bool, DbError> {
    if !storable(group_id) || !storable(user_id) {
        return Ok(false);
    }
    Ok(diesel::select(diesel::dsl::exists(user_group_members::table.find((group_id, user_id)))).get_result(conn)?)
}

/// Ends a membership. NotFound if the user is no member.
pub fn remove_member(conn: &mut Conn, group_id: &str, user_id: &str) -> Result<(), DbError> {
    match is_member(conn, group_id, user_id)? {
        true => {
            diesel::delete(user_group_members::table.find((group_id, user_id))).execute(conn)?;
            Ok(())
        }
        false => Err(DbError::NotFound(format!("user {user_id} in group: {group_id}"))),
    }
}

/// Returns the ids of the members.
pub fn member_ids(conn: &mut Conn, group_id: &str) -> Result<Vec<String>, DbError> {
    Ok(user_group_members::table
        .filter(user_group_members::group_id.eq(group_id))
        .order(user_group_members::user_id)
        .select(user_group_members::user_id)
        .load(conn)?)
}

/// Returns the members, ordered by name.
pub fn members(conn: &mut Conn, group_id: &str) -> Result<Vec<User>, DbError> {
    let ids = member_ids(conn, group_id)?;
    let mut members = Vec::new();
    for ids in ids.chunks(500) {
        members.extend(users::table.filter(users::id.eq_any(ids)).select(User::as_select()).load(conn)?);
    }
    members.sort_by(|one: &User, other| one.name.cmp(&other.name));
    Ok(members)
}

/// Returns the ids of the user's groups.
pub fn ids_of_user(conn: &mut Conn, user_id: &str) -> Result<Vec<String>, DbError> {
    if !storable(user_id) {
        return Ok(Vec::new());
    }
    let held = user_group_members::table.filter(user_group_members::user_id.eq(user_id));
    Ok(held.order(user_group_members::group_id).select(user_group_members::group_id).load(conn)?)
}

/// Returns all memberships: a group's id, and a user's.
pub fn memberships(conn: &mut Conn) -> Result<Vec<(String, String)>, DbError> {
    Ok(user_group_members::table.order((user_group_members::group_id, user_group_members::user_id)).load(conn)?)
}
