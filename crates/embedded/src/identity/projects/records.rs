//! Projects.

use cellshift_store::columns::StringList;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::identity::application_credentials::records as application_credentials;
use crate::identity::assignments::records as assignments;
use crate::identity::credentials::records as credentials;
use crate::identity::domains::records as domains;
use crate::identity::schema::projects;
use crate::identity::{Target, statements};

/// A project.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable)]
pub struct Project {
    pub id: String,
    pub domain_id: String,
    pub name: String,
    pub description: String,
    pub enabled: bool,
    pub created_at: NaiveDateTime,
    pub tags: StringList,
}

/// The changes of an update. `None` leaves a field unchanged.
#[derive(Clone, Default, Debug, AsChangeset)]
#[diesel(table_name = projects)]
pub struct ProjectChanges {
    pub name: Option<String>,
    pub description: Option<String>,
    pub enabled: Option<bool>,
    pub tags: Option<StringList>,
}

statements::in_domains!(projects, Project, "project");

/// Returns the enabled projects of enabled domains among these ids, ordered by name.
pub fn enabled_among(conn: &mut Conn, ids: &[String]) -> Result<Vec<Project>, DbError> {
    let served: Vec<String> = domains::list(conn)?.into_iter().filter(|domain| domain.enabled).map(|domain| domain.id).collect();
    let enabled = projects::table.filter(projects::id.eq_any(ids)).filter(projects::enabled.eq(true));
    let enabled = enabled.filter(projects::domain_id.eq_any(served));
    Ok(enabled.order(projects::name).select(Project::as_select()).load(conn)?)
}

/// Changes a project and returns its new state.
pub fn update(conn: &mut Conn, id: &str, changes: &ProjectChanges) -> Result<Project, DbError> {
    let project = find(conn, id)?;
    if let Some(name) = &changes.name {
        check_name_is_free(conn, &project.domain_id, name, id)?;
    }
    let ProjectChanges { name, description, enabled, tags } = changes;
    if name.is_some() || description.is_some() || enabled.is_some() || tags.is_some() {
        diesel::update(projects::table.find(id)).set(changes).execute(conn)?;
    }
    find(conn, id)
}

/// Deletes a project and all role assignments and credentials in it.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    find(conn, id)?;
    application_credentials::delete_of_project(conn, id)?;
    credentials::delete_of_project(conn, id)?;
    assignments::delete_of_target(conn, &Target::Project(id.to_owned()))?;
    diesel::delete(projects::table.find(id)).execute(conn)?;
    Ok(())
}
