//! What administrators see and change: projects, users, roles and who has which.

use super::{Assignment, EmbeddedIdentity, Project, ProjectChanges, Role, ServiceError, Target, User};
use super::{authentication::effective_roles, password};
use crate::db::services::identity::{UserChanges, assignments, projects, roles, users};

/// A user to make.
#[derive(Clone, Default, Debug)]
pub struct NewUser {
    pub name: String,
    /// Without one nobody can log in as this user.
    pub password: Option<String>,
    pub description: String,
    pub email: Option<String>,
    pub enabled: bool,
    pub default_project_id: Option<String>,
}

/// What to change of a user; `None` leaves it, `Some(None)` clears it.
#[derive(Clone, Default, Debug)]
pub struct UserUpdate {
    pub name: Option<String>,
    pub description: Option<String>,
    pub email: Option<Option<String>>,
    pub enabled: Option<bool>,
    pub default_project_id: Option<Option<String>>,
    /// A new one voids the user's tokens.
    pub password: Option<String>,
}

impl EmbeddedIdentity {
    /// Makes a project; a conflict when the name is taken.
    pub async fn create_project(&self, name: &str, description: &str, enabled: bool) -> Result<Project, ServiceError> {
        let project = Project {
            id: self.new_id(),
            name: named("project", name)?,
            description: description.to_owned(),
            enabled,
            created_at: self.env.now().naive_utc(),
        };
        self.write(move |conn| projects::insert(conn, &project).map(|()| project)).await
    }

    pub async fn project(&self, id: &str) -> Result<Project, ServiceError> {
        let id = id.to_owned();
        self.read(move |conn| projects::find(conn, &id)).await
    }

    /// All projects by name.
    pub async fn projects(&self) -> Result<Vec<Project>, ServiceError> {
        self.read(projects::list).await
    }

    pub async fn update_project(&self, id: &str, changes: ProjectChanges) -> Result<Project, ServiceError> {
        let id = id.to_owned();
        self.write(move |conn| projects::update(conn, &id, &changes)).await
    }

    pub async fn delete_project(&self, id: &str) -> Result<(), ServiceError> {
        let id = id.to_owned();
        self.write(move |conn| projects::delete(conn, &id)).await
    }

    /// Makes a user; a conflict when the name is taken.
    pub async fn create_user(&self, user: NewUser) -> Result<User, ServiceError> {
        // A password that nobody knows is as good as none.
        let password = user.password.unwrap_or_else(|| self.new_id());
        let mut record = self.new_user(&named("user", &user.name)?, &password, user.default_project_id.as_deref()).await?;
        record.description = user.description;
        record.email = user.email;
        record.enabled = user.enabled;
        self.write(move |conn| users::insert(conn, &record).map(|()| record)).await
    }

    pub async fn user(&self, id: &str) -> Result<User, ServiceError> {
        let id = id.to_owned();
        self.read(move |conn| users::find(conn, &id)).await
    }

    /// All users by name.
    pub async fn users(&self) -> Result<Vec<User>, ServiceError> {
        self.read(users::list).await
    }

    pub async fn update_user(&self, id: &str, update: UserUpdate) -> Result<User, ServiceError> {
        let id = id.to_owned();
        let password_hash = match &update.password {
            Some(password) => Some(self.hash(password).await?),
            None => None,
        };
        let changes = UserChanges {
            name: update.name,
            description: update.description,
            email: update.email,
            enabled: update.enabled,
            default_project_id: update.default_project_id,
            password_changed_at: password_hash.as_ref().map(|_| self.env.now().naive_utc()),
            password_hash,
        };
        self.write(move |conn| users::update(conn, &id, &changes)).await
    }

    /// Changes one's own password; forbidden when `original` is not the present one.
    pub async fn change_password(&self, id: &str, original: &str, new: &str) -> Result<(), ServiceError> {
        let hash = self.user(id).await?.password_hash;
        let original = original.to_owned();
        if !self.env.run_blocking(move || password::fits(&original, &hash)).await {
            return Err(ServiceError::Forbidden("The original password does not fit.".into()));
        }
        let update = UserUpdate { password: Some(new.to_owned()), ..UserUpdate::default() };
        self.update_user(id, update).await.map(|_| ())
    }

    pub async fn delete_user(&self, id: &str) -> Result<(), ServiceError> {
        let id = id.to_owned();
        self.write(move |conn| users::delete(conn, &id)).await
    }

    /// All roles by name.
    pub async fn roles(&self) -> Result<Vec<Role>, ServiceError> {
        self.read(roles::list).await
    }

    pub async fn role(&self, id: &str) -> Result<Role, ServiceError> {
        let id = id.to_owned();
        self.read(move |conn| roles::find(conn, &id)).await
    }

    /// Makes a role; a conflict when the name is taken.
    pub async fn create_role(&self, name: &str, description: &str) -> Result<Role, ServiceError> {
        let role = Role { id: self.new_id(), name: named("role", name)?, description: description.to_owned() };
        self.write(move |conn| roles::insert(conn, &role).map(|()| role)).await
    }

    pub async fn delete_role(&self, id: &str) -> Result<(), ServiceError> {
        let id = id.to_owned();
        self.write(move |conn| roles::delete(conn, &id)).await
    }

    /// Gives a user a role; not found when any of the three is unknown.
    pub async fn grant(&self, assignment: Assignment) -> Result<(), ServiceError> {
        self.write(move |conn| {
            users::find(conn, &assignment.user_id)?;
            roles::find(conn, &assignment.role_id)?;
            if let Target::Project(id) = &assignment.target {
                projects::find(conn, id)?;
            }
            assignments::grant(conn, &assignment)
        })
        .await
    }

    pub async fn is_granted(&self, assignment: Assignment) -> Result<bool, ServiceError> {
        self.read(move |conn| assignments::is_granted(conn, &assignment)).await
    }

    /// Takes a role away; not found when the user does not have it.
    pub async fn revoke(&self, assignment: Assignment) -> Result<(), ServiceError> {
        self.write(move |conn| assignments::revoke(conn, &assignment)).await
    }

    /// Every assignment.
    pub async fn assignments(&self) -> Result<Vec<Assignment>, ServiceError> {
        self.read(assignments::list).await
    }

    /// A user's roles at a place; with `effective`, the implied ones too.
    pub async fn roles_of(&self, user_id: &str, target: Target, effective: bool) -> Result<Vec<Role>, ServiceError> {
        let user_id = user_id.to_owned();
        self.read(
            move |conn| {
                if effective { effective_roles(conn, &user_id, &target) } else { assignments::roles_of(conn, &user_id, &target) }
            },
        )
        .await
    }

    /// The enabled projects in which the user has a role, by name.
    pub async fn projects_of(&self, user_id: &str) -> Result<Vec<Project>, ServiceError> {
        let user_id = user_id.to_owned();
        self.read(move |conn| {
            let held = assignments::list(conn)?;
            let mut known = projects::list(conn)?;
            known.retain(|p| p.enabled && held.iter().any(|a| a.user_id == user_id && a.target == Target::Project(p.id.clone())));
            Ok(known)
        })
        .await
    }
}

fn named(what: &str, name: &str) -> Result<String, ServiceError> {
    match name.trim() {
        "" => Err(ServiceError::Invalid(format!("Invalid input for field 'name': a {what} needs a name."))),
        name if name.chars().count() > 255 => Err(ServiceError::Invalid(format!("A {what}'s name has at most 255 characters."))),
        name => Ok(name.to_owned()),
    }
}
