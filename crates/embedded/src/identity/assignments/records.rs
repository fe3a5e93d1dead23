//! Role assignments: each gives a user, or each member of a group, a role in a project, in a domain or in the system.

use std::collections::BTreeSet;

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::identity::groups::records as groups;
use crate::identity::schema::{group_role_assignments, role_assignments, roles};
use crate::identity::{Role, storable};

/// The scope of a role or a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A project, by id.
    Project(String),
    /// A domain, by id.
    Domain(String),
    /// The whole deployment.
    System,
}

impl Target {
    /// Returns the text form, which the database and tokens contain.
    pub fn as_text(&self) -> String {
        match self {
            Target::Project(id) => format!("project:{id}"),
            Target::Domain(id) => format!("domain:{id}"),
            Target::System => "system".to_owned(),
        }
    }

    /// Parses the text form of [`Target::as_text`].
    pub fn parse(text: &str) -> Option<Target> {
        match text.split_once(':') {
            None if text == "system" => Some(Target::System),
            Some(("project", id)) => Some(Target::Project(id.to_owned())),
            Some(("domain", id)) => Some(Target::Domain(id.to_owned())),
            _ => None,
        }
    }
}

/// The holder of a role, by id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Actor {
    User(String),
    /// Each member of the group.
    Group(String),
}

impl Actor {
    /// Returns the id.
    pub fn id(&self) -> &str {
        match self {
            Actor::User(id) | Actor::Group(id) => id,
        }
    }
}

/// A role of a user or group in one scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    pub actor: Actor,
    pub target: Target,
    pub role_id: String,
}

impl Assignment {
    fn is_storable(&self) -> bool {
        storable(self.actor.id()) && storable(&self.role_id) && storable(&self.target.as_text())
    }

    fn key(&self) -> (&str, String, &str) {
        (self.actor.id(), self.target.as_text(), &self.role_id)
    }
}

/// Gives the actor the role. Succeeds if the actor has it already.
pub fn grant(conn: &mut Conn, assignment: &Assignment) -> Result<(), DbError> {
    if is_granted(conn, assignment)? {
        return Ok(());
    }
    let (id, target, role_id) = assignment.key();
    match &assignment.actor {
        Actor::User(_) => diesel::insert_into(role_assignments::table)
            .values((role_assignments::user_id.eq(id), role_assignments::target.eq(target), role_assignments::role_id.eq(role_id)))
            .execute(conn)?,
        Actor::Group(_) => diesel::insert_into(group_role_assignments::table)
            .values((
                group_role_assignments::group_id.eq(id),
                group_role_assignments::target.eq(target),
                group_role_assignments::role_id.eq(role_id),
            ))
            .execute(conn)?,
    };
    Ok(())
}

/// True if the actor itself has exactly this role in this scope. Implied roles do not count, nor those of a user's groups.
pub fn is_granted(conn: &mut Conn, assignment: &Assignment) -> Result<bool, DbError> {
    if !assignment.is_storable() {
        return Ok(false);
    }
    let key = assignment.key();
    Ok(match &assignment.actor {
        Actor::User(_) => diesel::select(diesel::dsl::exists(role_assignments::table.find(key))).get_result(conn)?,
        Actor::Group(_) => diesel::select(diesel::dsl::exists(group_role_assignments::table.find(key))).get_result(conn)?,
    })
}

/// Takes the role away. NotFound if the actor itself does not have it.
pub fn revoke(conn: &mut Conn, assignment: &Assignment) -> Result<(), DbError> {
    if !assignment.is_storable() {
        return Err(DbError::NotFound("role assignment".into()));
    }
    let key = assignment.key();
    let revoked = match &assignment.actor {
        Actor::User(_) => diesel::delete(role_assignments::table.find(key)).execute(conn)?,
        Actor::Group(_) => diesel::delete(group_role_assignments::table.find(key)).execute(conn)?,
    };
    match revoked {
        0 => Err(DbError::NotFound("role assignment".into())),
        _ => Ok(()),
    }
}

/// Returns the actor's own roles in this scope without implied roles, ordered by name.
pub fn granted(conn: &mut Conn, actor: &Actor, target: &Target) -> Result<Vec<Role>, DbError> {
    let ids = own_role_ids(conn, actor, target)?;
    Ok(roles::table.filter(roles::id.eq_any(ids)).order(roles::name).select(Role::as_select()).load(conn)?)
}

/// Returns the user's roles in this scope, own and by groups, without implied roles, ordered by name.
pub fn held(conn: &mut Conn, user_id: &str, target: &Target) -> Result<Vec<Role>, DbError> {
    let mut ids: BTreeSet<String> = own_role_ids(conn, &Actor::User(user_id.to_owned()), target)?.into_iter().collect();
    for groups in groups::ids_of_user(conn, user_id)?.chunks(500) {
        let by_groups = group_role_assignments::table
            .filter(group_role_assignments::group_id.eq_any(groups))
            .filter(group_role_assignments::target.eq(target.as_text()))
            .select(group_role_assignments::role_id);
        ids.extend(by_groups.load::<String>(conn)?);
    }
    Ok(roles::table.filter(roles::id.eq_any(ids)).order(roles::name).select(Role::as_select()).load(conn)?)
}

fn own_role_ids(conn: &mut Conn, actor: &Actor, target: &Target) -> Result<Vec<String>, DbError> {
    if !storable(actor.id()) || !storable(&target.as_text()) {
        return Ok(Vec::new());
    }
    Ok(match actor {
        Actor::User(id) => role_assignments::table
            .filter(role_assignments::user_id.eq(id))
            .filter(role_assignments::target.eq(target.as_text()))
            .select(role_assignments::role_id)
            .load(conn)?,
        Actor::Group(id) => group_role_assignments::table
            .filter(group_role_assignments::group_id.eq(id))
            .filter(group_role_assignments::target.eq(target.as_text()))
            .select(group_role_assignments::role_id)
            .load(conn)?,
    })
}

/// Returns the text forms of the targets at which the group has a role.
pub(in crate::identity) fn targets_of_group(conn: &mut Conn, group_id: &str) -> Result<Vec<String>, DbError> {
    let assignments = group_role_assignments::table.filter(group_role_assignments::group_id.eq(group_id));
    Ok(assignments.select(group_role_assignments::target).distinct().load(conn)?)
}

/// Returns the projects, domains and the system in which the user has a role, own or by a group.
pub fn targets_of(conn: &mut Conn, user_id: &str) -> Result<Vec<Target>, DbError> {
    let held = role_assignments::table.filter(role_assignments::user_id.eq(user_id)).select(role_assignments::target).distinct();
    let mut targets: BTreeSet<String> = held.load::<String>(conn)?.into_iter().collect();
    for group_id in groups::ids_of_user(conn, user_id)? {
        targets.extend(targets_of_group(conn, &group_id)?);
    }
    Ok(targets.iter().filter_map(|text| Target::parse(text)).collect())
}

/// Returns all assignments, those of users before those of groups.
pub fn list(conn: &mut Conn) -> Result<Vec<Assignment>, DbError> {
    let of_users: Vec<(String, String, String)> =
        role_assignments::table.order((role_assignments::target, role_assignments::user_id, role_assignments::role_id)).load(conn)?;
    let of_groups: Vec<(String, String, String)> = group_role_assignments::table
        .order((group_role_assignments::target, group_role_assignments::group_id, group_role_assignments::role_id))
        .load(conn)?;
    let of_users = of_users.into_iter().map(|(id, target, role_id)| (Actor::User(id), target, role_id));
    let of_groups = of_groups.into_iter().map(|(id, target, role_id)| (Actor::Group(id), target, role_id));
    of_users
        .chain(of_groups)
        .map(|(actor, target, role_id)| {
            let target = Target::parse(&target).ok_or_else(|| DbError::unreadable("role_assignments.target", &target))?;
            Ok(Assignment { actor, target, role_id })
        })
        .collect()
}

pub(in crate::identity) fn delete_of_user(conn: &mut Conn, user_id: &str) -> Result<(), DbError> {
    diesel::delete(role_assignments::table.filter(role_assignments::user_id.eq(user_id))).execute(conn)?;
    Ok(())
}

pub(in crate::identity) fn delete_of_target(conn: &mut Conn, target: &Target) -> Result<(), DbError> {
    diesel::delete(role_assignments::table.filter(role_assignments::target.eq(target.as_text()))).execute(conn)?;
    diesel::delete(group_role_assignments::table.filter(group_role_assignments::target.eq(target.as_text()))).execute(conn)?;
    Ok(())
}

pub(in crate::identity) fn delete_of_role(conn: &mut Conn, role_id: &str) -> Result<(), DbError> {
    diesel::delete(role_assignments::table.filter(role_assignments::role_id.eq(role_id))).execute(conn)?;
    diesel::delete(group_role_assignments::table.filter(group_role_assignments::role_id.eq(role_id))).execute(conn)?;
    Ok(())
}
