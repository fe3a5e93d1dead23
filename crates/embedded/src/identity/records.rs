//! The administrators' view and changes of projects, users, roles and assignments.

use cellshift_store::columns::StringList;
use cellshift_store::{Conn, DbError};
use chrono::{NaiveDateTime, TimeDelta};

use super::authentication::{TOKEN_LIFETIME, UserRef, effective_roles};
use super::embedded::ROLES;
use super::{
    Actor, Assignment, AuthenticationError, EmbeddedIdentity, Project, ProjectChanges, Role, RoleChanges, ServiceError, Target, User, words,
};
use crate::records::identity::{
    UserChanges, application_credentials, assignments, domains, failures, groups, projects, revocations, roles, users,
};

/// The largest accepted difference between the clocks of processes.
const CLOCKS: TimeDelta = TimeDelta::hours(1);

/// A project to make.
#[derive(Clone, Debug)]
pub struct NewProject {
    pub domain_id: String,
    pub name: String,
    pub description: String,
    pub enabled: bool,
    pub tags: Vec<String>,
}

/// A user to make.
#[derive(Clone, Debug)]
pub struct NewUser {
    pub domain_id: String,
    pub name: String,
    /// Without a password nobody can log in as this user.
    pub password: Option<String>,
    pub description: String,
    pub email: Option<String>,
    pub enabled: bool,
    pub default_project_id: Option<String>,
}

/// A change of a user. `None` leaves a field unchanged; `Some(None)` clears it.
#[derive(Clone, Default, Debug)]
pub struct UserUpdate {
    pub name: Option<String>,
    pub description: Option<String>,
    pub email: Option<Option<String>>,
    pub enabled: Option<bool>,
    pub default_project_id: Option<Option<String>>,
    /// A new password voids the user's tokens.
    pub password: Option<String>,
}

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
        self.write(move |conn| projects::insert(conn, &project).map(|()| project)).await
    }

    pub async fn project(&self, id: &str) -> Result<Project, ServiceError> {
        let id = id.to_owned();
        self.read(move |conn| projects::find(conn, &id)).await
    }

    /// Returns all projects, ordered by name.
    pub async fn projects(&self) -> Result<Vec<Project>, ServiceError> {
        self.read(projects::list).await
    }

    /// Changes a project. Disabling it revokes the tokens that are scoped to it.
    pub async fn update_project(&self, id: &str, mut changes: ProjectChanges) -> Result<Project, ServiceError> {
        changes.name = changes.name.map(|name| words::short_name("project", &name)).transpose()?;
        changes.description = changes.description.map(|text| words::text("description", &text)).transpose()?;
        changes.tags = changes.tags.map(|tags| words::tags(tags.0).map(StringList::from)).transpose()?;
        let (id, until) = (id.to_owned(), self.last_expiry());
        self.revise(move |conn| {
            let changed = projects::update(conn, &id, &changes)?;
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
            let before = projects::find(conn, &id)?.tags.0;
            Ok(match change(before).and_then(words::tags) {
                Ok(tags) => {
                    let changes = ProjectChanges { tags: Some(tags.clone().into()), ..ProjectChanges::default() };
                    projects::update(conn, &id, &changes)?;
                    Ok(tags)
                }
                Err(refusal) => Err(refusal),
            })
        });
        changed.await?
    }

    pub async fn delete_project(&self, id: &str) -> Result<(), ServiceError> {
        let id = id.to_owned();
        self.write(move |conn| projects::delete(conn, &id)).await
    }

    /// Makes a user. Conflict if the name is taken in the user's domain; NotFound if there is no such domain.
    pub async fn create_user(&self, user: NewUser) -> Result<User, ServiceError> {
        let name = words::name("user", &user.name)?;
        let description = words::text("description", &user.description)?;
        let email = user.email.map(|email| words::email(&email)).transpose()?;
        let default_project_id = user.default_project_id.map(|id| words::id("default_project_id", &id)).transpose()?;
        let password = match user.password {
            Some(password) => words::password(password)?,
            // A random password that nobody knows has the same effect as none.
            None => self.new_id(),
        };
        let mut record = self.new_user(&name, &password, default_project_id.as_deref()).await?;
        record.domain_id = user.domain_id;
        record.description = description;
        record.email = email;
        record.enabled = user.enabled;
        self.write(move |conn| users::insert(conn, &record).map(|()| record)).await
    }

    pub async fn user(&self, id: &str) -> Result<User, ServiceError> {
        let id = id.to_owned();
        self.read(move |conn| users::find(conn, &id)).await
    }

    /// Returns all users, ordered by name.
    pub async fn users(&self) -> Result<Vec<User>, ServiceError> {
        self.read(users::list).await
    }

    /// Changes a user. Disabling the user or setting a password revokes the user's tokens.
    pub async fn update_user(&self, id: &str, update: UserUpdate) -> Result<User, ServiceError> {
        let password_hash = match update.password {
            Some(password) => Some(self.passwords.hash(&words::password(password)?).await?),
            None => None,
        };
        let email = update.email.map(|email| email.map(|email| words::email(&email)).transpose()).transpose()?;
        let project = update.default_project_id;
        let project = project.map(|id| id.map(|id| words::id("default_project_id", &id)).transpose()).transpose()?;
        let changes = UserChanges {
            name: update.name.map(|name| words::name("user", &name)).transpose()?,
            description: update.description.map(|text| words::text("description", &text)).transpose()?,
            email,
            enabled: update.enabled,
            default_project_id: project,
            password_changed_at: password_hash.as_ref().map(|_| self.env.now().naive_utc()),
            password_hash,
        };
        let (id, until) = (id.to_owned(), self.last_expiry());
        self.revise(move |conn| {
            let changed = users::update(conn, &id, &changes)?;
            if changes.enabled == Some(false) || changes.password_hash.is_some() {
                revocations::of_user(conn, &id, until)?;
            }
            if changes.password_hash.is_some() {
                failures::forget(conn, &id)?;
            }
            Ok(changed)
        })
        .await
    }

    /// Changes the caller's own password and revokes the caller's tokens. Unauthorized if `original` is not the present password.
    pub async fn change_password(&self, id: &str, original: &str, new: String) -> Result<(), AuthenticationError> {
        let new = words::password(new)?;
        self.check_password(UserRef::Id(id.to_owned()), original).await?;
        let update = UserUpdate { password: Some(new), ..UserUpdate::default() };
        self.update_user(id, update).await?;
        Ok(())
    }

    pub async fn delete_user(&self, id: &str) -> Result<(), ServiceError> {
        let id = id.to_owned();
        self.write(move |conn| users::delete(conn, &id)).await
    }

    /// Returns all roles, ordered by name.
    pub async fn roles(&self) -> Result<Vec<Role>, ServiceError> {
        self.read(roles::list).await
    }

    pub async fn role(&self, id: &str) -> Result<Role, ServiceError> {
        let id = id.to_owned();
        self.read(move |conn| roles::find(conn, &id)).await
    }

    /// Makes a role. Conflict if the name is taken.
    pub async fn create_role(&self, name: &str, description: &str) -> Result<Role, ServiceError> {
        let role = Role { id: self.new_id(), name: words::name("role", name)?, description: words::text("description", description)? };
        self.write(move |conn| roles::insert(conn, &role).map(|()| role)).await
    }

    /// Changes a role. Forbidden for the roles of [`ROLES`].
    pub async fn update_role(&self, id: &str, mut changes: RoleChanges) -> Result<Role, ServiceError> {
        changes.name = changes.name.map(|name| words::name("role", &name)).transpose()?;
        changes.description = changes.description.map(|text| words::text("description", &text)).transpose()?;
        self.refuse_built_in(id, "update").await?;
        let id = id.to_owned();
        self.write(move |conn| roles::update(conn, &id, &changes)).await
    }

    /// Deletes a role, and revokes the tokens of its assignments. Forbidden for the roles of [`ROLES`].
    pub async fn delete_role(&self, id: &str) -> Result<(), ServiceError> {
        self.refuse_built_in(id, "delete").await?;
        let (id, until) = (id.to_owned(), self.last_expiry());
        self.revise(move |conn| {
            revocations::of_role(conn, &id, until)?;
            roles::delete(conn, &id)
        })
        .await
    }

    /// Checks before the change: this suffices, because no role becomes a built-in one.
    async fn refuse_built_in(&self, id: &str, what: &str) -> Result<(), ServiceError> {
        let role = self.role(id).await?;
        match ROLES.contains(&role.name.as_str()) {
            true => Err(ServiceError::Forbidden(format!("Unable to {what} immutable role resource: {id}."))),
            false => Ok(()),
        }
    }

    /// Changes accounts as `write` does, and removes revocations that have become useless.
    pub(super) async fn revise<T, F>(&self, work: F) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        let now = self.env.now().naive_utc();
        self.write(move |conn| {
            revocations::forget_expired(conn, now)?;
            work(conn)
        })
        .await
    }

    /// Returns the moment when the last token that is valid now has expired by any process's clock.
    pub(super) fn last_expiry(&self) -> NaiveDateTime {
        (self.env.now() + TOKEN_LIFETIME + CLOCKS).naive_utc()
    }

    /// Gives a user or group a role. NotFound if the user, group, role or project is unknown.
    pub async fn grant(&self, assignment: Assignment) -> Result<(), ServiceError> {
        self.write(move |conn| {
            match &assignment.actor {
                Actor::User(id) => drop(users::find(conn, id)?),
                Actor::Group(id) => drop(groups::find(conn, id)?),
            }
            roles::find(conn, &assignment.role_id)?;
            match &assignment.target {
                Target::Project(id) => drop(projects::find(conn, id)?),
                Target::Domain(id) => drop(domains::find(conn, id)?),
                Target::System => (),
            }
            assignments::grant(conn, &assignment)
        })
        .await
    }

    /// True if a user, also by a group, or a group has the system, or a role with another name than these, anywhere.
    pub async fn exceeds(&self, actor: &Actor, names: &'static [&'static str]) -> Result<bool, ServiceError> {
        let actor = actor.clone();
        self.read(move |conn| {
            let mut actors = vec![actor.clone()];
            if let Actor::User(id) = &actor {
                actors.extend(groups::ids_of_user(conn, id)?.into_iter().map(Actor::Group));
            }
            let known = roles::list(conn)?;
            let fits = |id: &str| known.iter().any(|role| role.id == id && names.contains(&role.name.as_str()));
            let held = assignments::list(conn)?;
            Ok(held.iter().any(|one| actors.contains(&one.actor) && (one.target == Target::System || !fits(&one.role_id))))
        })
        .await
    }

    pub async fn is_granted(&self, assignment: Assignment) -> Result<bool, ServiceError> {
        self.read(move |conn| assignments::is_granted(conn, &assignment)).await
    }

    /// Takes a role away, and revokes the tokens of the user, or of the group's members, for that scope. A user's application credentials
    /// there are deleted. NotFound if the user or group does not have the role.
    pub async fn revoke(&self, assignment: Assignment) -> Result<(), ServiceError> {
        let until = self.last_expiry();
        self.revise(move |conn| {
            assignments::revoke(conn, &assignment)?;
            application_credentials::delete_of_assignment(conn, &assignment)?;
            revocations::of_assignment(conn, &assignment, until)
        })
        .await
    }

    /// Returns all assignments.
    pub async fn assignments(&self) -> Result<Vec<Assignment>, ServiceError> {
        self.read(assignments::list).await
    }

    /// Returns a user's roles in a scope, with implied roles and those by groups.
    pub async fn roles_of(&self, user_id: &str, target: Target) -> Result<Vec<Role>, ServiceError> {
        let user_id = user_id.to_owned();
        self.read(move |conn| effective_roles(conn, &user_id, &target)).await
    }

    /// Returns the roles that the user or group itself was given in a scope.
    pub async fn granted(&self, actor: Actor, target: Target) -> Result<Vec<Role>, ServiceError> {
        self.read(move |conn| assignments::granted(conn, &actor, &target)).await
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
            projects::enabled_among(conn, &ids)
        })
        .await
    }
}
