//! Domains. Each has its own users, groups and projects, and their names are unique within it.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::identity::assignments::records as assignments;
use crate::identity::groups::records as groups;
use crate::identity::schema::{domains, projects, user_groups, users};
use crate::identity::{Target, statements, storable};

/// The id of the domain that is always there. It can be neither disabled nor deleted.
pub const DEFAULT_DOMAIN: &str = "default";

/// A domain.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
pub struct Domain {
    pub id: String,
    pub name: String,
    pub description: String,
    /// Nobody gets a token as a user of a disabled domain, nor for it or one of its projects.
    pub enabled: bool,
    pub created_at: NaiveDateTime,
}

/// The changes of an update. `None` leaves a field unchanged.
#[derive(Clone, Default, Debug, AsChangeset)]
#[diesel(table_name = domains)]
pub struct DomainChanges {
    pub name: Option<String>,
    pub description: Option<String>,
    pub enabled: Option<bool>,
}

/// A domain as a client names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DomainRef {
    Id(String),
    Name(String),
}

impl Default for DomainRef {
    fn default() -> DomainRef {
        DomainRef::Id(DEFAULT_DOMAIN.to_owned())
    }
}

statements::named!(domains, Domain, "domain");

/// Stores a new domain. Conflict if its name is taken.
pub fn insert(conn: &mut Conn, domain: &Domain) -> Result<(), DbError> {
    check_name_is_free(conn, &domain.name, &domain.id)?;
    diesel::insert_into(domains::table).values(domain).execute(conn)?;
    Ok(())
}

fn check_name_is_free(conn: &mut Conn, name: &str, id: &str) -> Result<(), DbError> {
    let holder = named(conn, &DomainRef::Name(name.to_owned()))?.filter(|other| other.id != id);
    statements::refuse_holder("domain", holder.map(|other| other.name))
}

/// Returns the domain that a client names, if any.
pub fn named(conn: &mut Conn, domain: &DomainRef) -> Result<Option<Domain>, DbError> {
    match domain {
        DomainRef::Id(id) => by_id(conn, id),
        DomainRef::Name(name) if !storable(name) => Ok(None),
        DomainRef::Name(name) => Ok(domains::table.filter(domains::name.eq(name)).select(Domain::as_select()).first(conn).optional()?),
    }
}

/// Changes a domain and returns its new state.
pub fn update(conn: &mut Conn, id: &str, changes: &DomainChanges) -> Result<Domain, DbError> {
    find(conn, id)?;
    if let Some(name) = &changes.name {
        check_name_is_free(conn, name, id)?;
    }
    if changes.name.is_some() || changes.description.is_some() || changes.enabled.is_some() {
        diesel::update(domains::table.find(id)).set(changes).execute(conn)?;
    }
    find(conn, id)
}

/// Deletes a domain with its users, groups and projects, and all role assignments in it.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    find(conn, id)?;
    for group in user_groups::table.filter(user_groups::domain_id.eq(id)).select(user_groups::id).load::<String>(conn)? {
        groups::delete(conn, &group)?;
    }
    for project in project_ids(conn, id)? {
        crate::identity::projects::records::delete(conn, &project)?;
    }
    for user in user_ids(conn, id)? {
        crate::identity::users::records::delete(conn, &user)?;
    }
    assignments::delete_of_target(conn, &Target::Domain(id.to_owned()))?;
    diesel::delete(domains::table.find(id)).execute(conn)?;
    Ok(())
}

/// Returns the ids of the domain's users.
pub fn user_ids(conn: &mut Conn, id: &str) -> Result<Vec<String>, DbError> {
    Ok(users::table.filter(users::domain_id.eq(id)).order(users::id).select(users::id).load(conn)?)
}

/// Returns the ids of the domain's projects.
pub fn project_ids(conn: &mut Conn, id: &str) -> Result<Vec<String>, DbError> {
    Ok(projects::table.filter(projects::domain_id.eq(id)).order(projects::id).select(projects::id).load(conn)?)
}
