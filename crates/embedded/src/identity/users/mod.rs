//! Users, and their own changes of passwords.

pub mod failures;
pub mod records;
pub mod routes;

use super::tokens::authentication::UserRef;
use super::tokens::revocations;
use super::{AuthenticationError, DEFAULT_DOMAIN, EmbeddedIdentity, ServiceError, User, UserChanges, statements, words};

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

statements::readers!(User, user, users);

impl EmbeddedIdentity {
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
        self.write(move |conn| records::insert(conn, &record).map(|()| record)).await
    }

    /// Returns the default domain's user with this name, if any.
    pub async fn user_named(&self, name: &str) -> Result<Option<User>, ServiceError> {
        let name = name.to_owned();
        self.read(move |conn| records::by_name(conn, DEFAULT_DOMAIN, &name)).await
    }

    /// Returns the default domain's user with this name, or makes one with this password. An existing user keeps its password.
    pub async fn ensure_user(&self, name: &str, password: &str, default_project_id: Option<&str>) -> Result<User, ServiceError> {
        let key = name.to_owned();
        if let Some(user) = self.read(move |conn| records::by_name(conn, DEFAULT_DOMAIN, &key)).await? {
            return Ok(user);
        }
        let fresh = self.new_user(name, password, default_project_id).await?;
        self.write(move |conn| match records::by_name(conn, DEFAULT_DOMAIN, &fresh.name)? {
            Some(user) => Ok(user),
            None => records::insert(conn, &fresh).map(|()| fresh),
        })
        .await
    }

    /// Makes the record of a user of the default domain, with a hashed password. Stores nothing.
    pub(super) async fn new_user(&self, name: &str, password: &str, default_project_id: Option<&str>) -> Result<User, ServiceError> {
        let now = self.env.now().naive_utc();
        Ok(User {
            id: self.new_id(),
            domain_id: DEFAULT_DOMAIN.to_owned(),
            name: name.to_owned(),
            description: String::new(),
            email: None,
            enabled: true,
            default_project_id: default_project_id.map(str::to_owned),
            password_hash: self.passwords.hash(password).await?,
            password_changed_at: now,
            created_at: now,
        })
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
            let changed = records::update(conn, &id, &changes)?;
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
        self.write(move |conn| records::delete(conn, &id)).await
    }
}
