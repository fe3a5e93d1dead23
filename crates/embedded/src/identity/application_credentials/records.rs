//! Application credentials, each with the roles that it gives in its project.

use cellshift_domain::reason;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::identity::schema::{application_credential_roles, application_credentials, roles};
use crate::identity::{Actor, Assignment, Role, Target, statements, storable};

/// An application credential without its roles.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = application_credentials)]
pub struct CredentialRecord {
    pub id: String,
    pub user_id: String,
    pub project_id: String,
    /// No two credentials of a user have the same name.
    pub name: String,
    pub description: Option<String>,
    /// The secret's hash as a PHC string.
    pub secret_hash: String,
    pub expires_at: Option<NaiveDateTime>,
    /// Its tokens may make and delete application credentials.
    pub unrestricted: bool,
    pub created_at: NaiveDateTime,
}

statements::by_id!(application_credentials, CredentialRecord);

/// Stores a new credential that gives these roles. Conflict if the user has one with this name.
pub fn insert(conn: &mut Conn, credential: &CredentialRecord, role_ids: &[String]) -> Result<(), DbError> {
    if by_name(conn, &credential.user_id, &credential.name)?.is_some() {
        let name = &credential.name;
        return Err(DbError::Conflict(reason!("Conflict occurred attempting to store application credential: the name {name} is taken")));
    }
    diesel::insert_into(application_credentials::table).values(credential).execute(conn)?;
    for role_id in role_ids {
        let row = (application_credential_roles::credential_id.eq(&credential.id), application_credential_roles::role_id.eq(role_id));
        diesel::insert_into(application_credential_roles::table).values(row).execute(conn)?;
    }
    Ok(())
}

/// Returns the user's credential with this name, if any.
pub fn by_name(conn: &mut Conn, user_id: &str, name: &str) -> Result<Option<CredentialRecord>, DbError> {
    if !storable(name) {
        return Ok(None);
    }
    let statement =
        application_credentials::table.filter(application_credentials::user_id.eq(user_id)).filter(application_credentials::name.eq(name));
    Ok(statement.select(CredentialRecord::as_select()).first(conn).optional()?)
}

/// Returns the user's credentials, ordered by name.
pub fn of_user(conn: &mut Conn, user_id: &str) -> Result<Vec<CredentialRecord>, DbError> {
    let owned = application_credentials::table.filter(application_credentials::user_id.eq(user_id));
    Ok(owned.order(application_credentials::name).select(CredentialRecord::as_select()).load(conn)?)
}

/// Returns the number of the user's credentials.
pub fn count(conn: &mut Conn, user_id: &str) -> Result<i64, DbError> {
    Ok(application_credentials::table.filter(application_credentials::user_id.eq(user_id)).count().get_result(conn)?)
}

/// Returns the roles that the credential gives, ordered by name.
pub fn roles_of(conn: &mut Conn, id: &str) -> Result<Vec<Role>, DbError> {
    let ids = application_credential_roles::table
        .filter(application_credential_roles::credential_id.eq(id))
        .select(application_credential_roles::role_id)
        .load::<String>(conn)?;
    Ok(roles::table.filter(roles::id.eq_any(ids)).order(roles::name).select(Role::as_select()).load(conn)?)
}

/// Stores a newer hash of the same secret.
pub fn replace_hash(conn: &mut Conn, id: &str, hash: &str) -> Result<(), DbError> {
    diesel::update(application_credentials::table.find(id)).set(application_credentials::secret_hash.eq(hash)).execute(conn)?;
    Ok(())
}

/// Deletes a user's credential. NotFound if the user has none with this id.
pub fn delete(conn: &mut Conn, user_id: &str, id: &str) -> Result<(), DbError> {
    let missing = || DbError::NotFound(format!("application credential: {id}"));
    match by_id(conn, id)? {
        Some(credential) if credential.user_id == user_id => {
            diesel::delete(application_credentials::table.find(id)).execute(conn)?;
            Ok(())
        }
        _ => Err(missing()),
    }
}

/// Deletes the credentials that the assignment's user made in its project. An assignment of a group deletes none.
pub fn delete_of_assignment(conn: &mut Conn, assignment: &Assignment) -> Result<(), DbError> {
    let (Actor::User(user_id), Target::Project(project_id)) = (&assignment.actor, &assignment.target) else { return Ok(()) };
    let rows = application_credentials::table
        .filter(application_credentials::user_id.eq(user_id))
        .filter(application_credentials::project_id.eq(project_id));
    diesel::delete(rows).execute(conn)?;
    Ok(())
}

/// Deletes the credentials that give the role.
pub(in crate::identity) fn delete_of_role(conn: &mut Conn, role_id: &str) -> Result<(), DbError> {
    let ids = application_credential_roles::table
        .filter(application_credential_roles::role_id.eq(role_id))
        .select(application_credential_roles::credential_id)
        .load::<String>(conn)?;
    for ids in ids.chunks(500) {
        diesel::delete(application_credentials::table.filter(application_credentials::id.eq_any(ids))).execute(conn)?;
    }
    Ok(())
}

statements::delete_with_owners!(application_credentials);
