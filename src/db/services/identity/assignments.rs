//! Role assignments: each gives a user a role in a project, in the domain or in the system.

use diesel::prelude::*;

use super::schema::{role_assignments, roles};
use super::{Role, storable};
use crate::db::{Conn, DbError};

/// The scope of a role or a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A project, by id.
    Project(String),
    /// The domain `default`.
    Domain,
    /// The whole deployment.
    System,
}

impl Target {
    /// Returns the text form, which the database and tokens contain.
    pub fn as_text(&self) -> String {
        match self {
            Target::Project(id) => format!("project:{id}"),
            Target::Domain => "domain:default".to_owned(),
            Target::System => "system".to_owned(),
        }
    }

    /// Parses the text form of [`Target::as_text`].
    pub fn parse(text: &str) -> Option<Target> {
        match text {
            "system" => Some(Target::System),
            "domain:default" => Some(Target::Domain),
            _ => text.strip_prefix("project:").map(|id| Target::Project(id.to_owned())),
        }
    }
}

/// A role of a user in one scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    pub user_id: String,
    pub target: Target,
    pub role_id: String,
}

impl Assignment {
    fn is_storable(&self) -> bool {
        storable(&self.user_id) && storable(&self.role_id) && storable(&self.target.as_text())
    }
}

/// Gives the user the role. Succeeds if the user has it already.
pub fn grant(conn: &mut Conn, assignment: &Assignment) -> Result<(), DbError> {
    if is_granted(conn, assignment)? {
        return Ok(());
    }
    diesel::insert_into(role_assignments::table)
        .values((
            role_assignments::user_id.eq(&assignment.user_id),
            role_assignments::target.eq(assignment.target.as_text()),
            role_assignments::role_id.eq(&assignment.role_id),
        ))
        .execute(conn)?;
    Ok(())
}

/// True if the user has exactly this role in this scope. Implied roles do not count.
pub fn is_granted(conn: &mut Conn, assignment: &Assignment) -> Result<bool, DbError> {
    if !assignment.is_storable() {
        return Ok(false);
    }
    let key = (&assignment.user_id, assignment.target.as_text(), &assignment.role_id);
    Ok(diesel::select(diesel::dsl::exists(role_assignments::table.find(key))).get_result(conn)?)
}

/// Takes the role away. NotFound if the user does not have it.
pub fn revoke(conn: &mut Conn, assignment: &Assignment) -> Result<(), DbError> {
    if !assignment.is_storable() {
        return Err(DbError::NotFound("role assignment".into()));
    }
    let key = (&assignment.user_id, assignment.target.as_text(), &assignment.role_id);
    match diesel::delete(role_assignments::table.find(key)).execute(conn)? {
        0 => Err(DbError::NotFound("role assignment".into())),
        _ => Ok(()),
    }
}

/// Returns the user's roles in this scope without implied roles, ordered by name.
pub fn roles_of(conn: &mut Conn, user_id: &str, target: &Target) -> Result<Vec<Role>, DbError> {
    if !storable(user_id) || !storable(&target.as_text()) {
        return Ok(Vec::new());
    }
    let ids = role_assignments::table
        .filter(role_assignments::user_id.eq(user_id))
        .filter(role_assignments::target.eq(target.as_text()))
        .select(role_assignments::role_id)
        .load::<String>(conn)?;
    Ok(roles::table.filter(roles::id.eq_any(ids)).order(roles::name).select(Role::as_select()).load(conn)?)
}

/// Returns the ids of the projects in which the user has a role.
pub fn projects_of(conn: &mut Conn, user_id: &str) -> Result<Vec<String>, DbError> {
    let held = role_assignments::table.filter(role_assignments::user_id.eq(user_id)).select(role_assignments::target).distinct();
    let targets: Vec<String> = held.load(conn)?;
    let project = |text: &String| match Target::parse(text) {
        Some(Target::Project(id)) => Some(id),
        _ => None,
    };
    Ok(targets.iter().filter_map(project).collect())
}

/// Returns all assignments.
pub fn list(conn: &mut Conn) -> Result<Vec<Assignment>, DbError> {
    let rows: Vec<(String, String, String)> =
        role_assignments::table.order((role_assignments::target, role_assignments::user_id, role_assignments::role_id)).load(conn)?;
    rows.into_iter()
        .map(|(user_id, target, role_id)| {
            let target = Target::parse(&target).ok_or_else(|| DbError::unreadable("role_assignments.target", &target))?;
            Ok(Assignment { user_id, target, role_id })
        })
        .collect()
}

pub(super) fn delete_of_user(conn: &mut Conn, user_id: &str) -> Result<(), DbError> {
    diesel::delete(role_assignments::table.filter(role_assignments::user_id.eq(user_id))).execute(conn)?;
    Ok(())
}

pub(super) fn delete_of_target(conn: &mut Conn, target: &Target) -> Result<(), DbError> {
    diesel::delete(role_assignments::table.filter(role_assignments::target.eq(target.as_text()))).execute(conn)?;
    Ok(())
}
