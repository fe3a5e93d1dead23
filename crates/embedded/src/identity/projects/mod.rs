//! Projects, the owners of servers, images, networks and volumes, and their tags.

pub mod records;
pub mod routes;
pub mod tags;

use cellshift_store::columns::StringList;

use super::tokens::revocations;
use super::{DEFAULT_DOMAIN, EmbeddedIdentity, Project, ProjectChanges, ServiceError, Target, statements, words};
use crate::identity::assignments::records as assignments;

/// A project to make.
#[derive(Clone, Debug)]
pub struct NewProject {
    pub domain_id: String,
    pub name: String,
    pub description: String,
    pub enabled: bool,
    pub tags: Vec<String>,
}

statements::readers!(Project, project, projects);

impl EmbeddedIdentity {
    /// Makes a project. Conflict if the name is taken in its domain; NotFound if there is no such domain.
    pub async fn create_project(&self, new: NewProject) -> Result<Project, ServiceError> {
        let project = Project {
            id: self.new_id(),
            domain_id: new.domain_id,
            name: words::short_name("project", &new.name)?,
            description: words::text("description", &new.description)?,
            enabled: new.enabled,
            created_at: self.env.now().naive_utc(),
            tags: words::tags(new.tags)?.into(),
        };
        self.write(move |conn| records::insert(conn, &project).map(|()| project)).await
    }

    /// Returns the default domain's project with this name, or makes it.
    pub async fn ensure_project(&self, name: &str) -> Result<Project, ServiceError> {
        let fresh = Project {
            id: self.new_id(),
            domain_id: DEFAULT_DOMAIN.to_owned(),
            name: name.to_owned(),
            description: String::new(),
            enabled: true,
            created_at: self.env.now().naive_utc(),
            tags: StringList::default(),
        };
        self.write(move |conn| match records::by_name(conn, &fresh.domain_id, &fresh.name)? {
            Some(project) => Ok(project),
            None => records::insert(conn, &fresh).map(|()| fresh),
        })
        .await
    }

    /// Changes a project. Disabling it revokes the tokens that are scoped to it.
    pub async fn update_project(&self, id: &str, mut changes: ProjectChanges) -> Result<Project, ServiceError> {
        changes.name = changes.name.map(|name| words::short_name("project", &name)).transpose()?;
        changes.description = changes.description.map(|text| words::text("description", &text)).transpose()?;
        changes.tags = changes.tags.map(|tags| words::tags(tags.0).map(StringList::from)).transpose()?;
        let (id, until) = (id.to_owned(), self.last_expiry());
        self.revise(move |conn| {
            let changed = records::update(conn, &id, &changes)?;
            if changes.enabled == Some(false) {
                revocations::of_target(conn, &Target::Project(id), until)?;
            }
            Ok(changed)
        })
        .await
    }

    /// Adds tags to a project's, or removes some of them, and returns all. `change` gets the present ones.
    pub async fn retag_project<F>(&self, id: &str, change: F) -> Result<Vec<String>, ServiceError>
    where
        F: FnOnce(Vec<String>) -> Result<Vec<String>, ServiceError> + Send + 'static,
    {
        let id = id.to_owned();
        let changed = self.write(move |conn| {
            let before = records::find(conn, &id)?.tags.0;
            Ok(match change(before).and_then(words::tags) {
                Ok(tags) => {
                    let changes = ProjectChanges { tags: Some(tags.clone().into()), ..ProjectChanges::default() };
                    records::update(conn, &id, &changes)?;
                    Ok(tags)
                }
                Err(refusal) => Err(refusal),
            })
        });
        changed.await?
    }

    pub async fn delete_project(&self, id: &str) -> Result<(), ServiceError> {
        let id = id.to_owned();
        self.write(move |conn| records::delete(conn, &id)).await
    }

    /// Returns the enabled projects in which the user has a role, also by a group, ordered by name.
    pub async fn projects_of(&self, user_id: &str) -> Result<Vec<Project>, ServiceError> {
        let user_id = user_id.to_owned();
        self.read(move |conn| {
            let project = |target| match target {
                Target::Project(id) => Some(id),
                Target::Domain(_) | Target::System => None,
            };
            let ids: Vec<String> = assignments::targets_of(conn, &user_id)?.into_iter().filter_map(project).collect();
            records::enabled_among(conn, &ids)
        })
        .await
    }
}
