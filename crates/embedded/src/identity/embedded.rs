//! The embedded identity service: domains, projects, users and roles in the services database.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use cellshift_env::Env;
use cellshift_env::turns::Turns;
use cellshift_store::columns::StringList;
use cellshift_store::{Conn, Db, DbError};
use parking_lot::Mutex;

use super::keys::KeyRing;
use super::password::{Cost, Passwords};
use super::tokens::{TokenCache, unavailable};
use super::vault::Vault;
use super::{Authenticator, Project, Role, Scope, ServiceError, Target, User};
use crate::records::identity::{Actor, Assignment, DEFAULT_DOMAIN, assignments, projects, roles, state, users};

/// The name of the domain [`DEFAULT_DOMAIN`].
pub const DOMAIN_NAME: &str = "Default";

pub use cellshift_domain::context::ROLES;

/// The number of wrong passwords in a row that locks a user out, and the time of the lockout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lockout {
    pub attempts: u32,
    /// Begins with the last wrong password. Zero locks the user out until an administrator sets a password.
    pub duration: Duration,
}

/// The identity service's options.
#[derive(Clone, Default, Debug)]
pub struct Settings {
    pub cost: Cost,
    /// The number of passwords checked concurrently; 0 for half of the cores.
    pub password_checks: usize,
    pub lockout: Option<Lockout>,
}

impl Settings {
    /// Returns settings for tests: hashes cost no time.
    pub fn cheap() -> Settings {
        Settings { cost: Cost::CHEAP, ..Settings::default() }
    }

    fn checks_at_once(&self) -> usize {
        if self.password_checks == 0 { Turns::half_of_the_cores() } else { self.password_checks }
    }
}

/// The identity service in this process. Share it as `Arc` or `web::Data`.
pub struct EmbeddedIdentity {
    pub(super) db: Db,
    pub(super) env: Env,
    pub(super) keys: Arc<KeyRing>,
    pub(super) passwords: Passwords,
    pub(super) lockout: Option<Lockout>,
    pub(super) cache: Mutex<TokenCache>,
    pub(super) vault: Vault,
    /// Held by the request that reads the revision.
    pub(super) asking: tokio::sync::Mutex<()>,
}

impl EmbeddedIdentity {
    /// Opens the service over the services database. Reads the token keys of `key_file`, or makes that file with one key. From now on these
    /// keys seal secrets. Makes the missing roles of [`ROLES`].
    pub async fn open(db: Db, env: Env, key_file: &Path, settings: Settings) -> Result<EmbeddedIdentity, ServiceError> {
        let keys = KeyRing::open(&env, key_file).await.map_err(|error| unavailable(error.to_string()))?;
        env.set_sealer(keys.sealer());
        let identity = EmbeddedIdentity {
            passwords: Passwords::new(&env, settings.cost, settings.checks_at_once())?,
            lockout: settings.lockout,
            db,
            env,
            keys: Arc::new(keys),
            cache: Mutex::new(TokenCache::default()),
            vault: Vault::default(),
            asking: tokio::sync::Mutex::new(()),
        };
        identity.ensure_roles().await?;
        identity.open_vault().await?;
        Ok(identity)
    }

    /// Returns the keys that seal tokens, for other secrets that must not be stored in clear text.
    pub fn keys(&self) -> Arc<KeyRing> {
        self.keys.clone()
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
        self.write(move |conn| match projects::by_name(conn, &fresh.domain_id, &fresh.name)? {
            Some(project) => Ok(project),
            None => projects::insert(conn, &fresh).map(|()| fresh),
        })
        .await
    }

    /// Returns the default domain's user with this name, or makes one with this password. An existing user keeps its password.
    pub async fn ensure_user(&self, name: &str, password: &str, default_project_id: Option<&str>) -> Result<User, ServiceError> {
        let wanted = name.to_owned();
        if let Some(user) = self.read(move |conn| users::by_name(conn, DEFAULT_DOMAIN, &wanted)).await? {
            return Ok(user);
        }
        let fresh = self.new_user(name, password, default_project_id).await?;
        self.write(move |conn| match users::by_name(conn, DEFAULT_DOMAIN, &fresh.name)? {
            Some(user) => Ok(user),
            None => users::insert(conn, &fresh).map(|()| fresh),
        })
        .await
    }

    /// True once the deployment's first accounts were made, even if they were deleted later.
    pub async fn accounts_made(&self) -> Result<bool, ServiceError> {
        self.read(state::accounts_made).await
    }

    /// Records that the first accounts were made.
    pub async fn note_accounts_made(&self) -> Result<(), ServiceError> {
        self.write_aside(state::note_accounts_made).await
    }

    /// Returns the default domain's user with this name, if any.
    pub async fn user_named(&self, name: &str) -> Result<Option<User>, ServiceError> {
        let name = name.to_owned();
        self.read(move |conn| users::by_name(conn, DEFAULT_DOMAIN, &name)).await
    }

    /// Makes the missing roles of [`ROLES`]. Writes nothing if none is missing.
    async fn ensure_roles(&self) -> Result<(), ServiceError> {
        let known = self.roles().await?;
        for role in ROLES {
            if !known.iter().any(|known| known.name == role) {
                self.ensure_role(role).await?;
            }
        }
        Ok(())
    }

    /// Returns the role with this name, or makes it.
    pub async fn ensure_role(&self, name: &str) -> Result<Role, ServiceError> {
        let fresh = Role { id: self.new_id(), name: name.to_owned(), description: String::new() };
        self.write(move |conn| match roles::by_name(conn, &fresh.name)? {
            Some(role) => Ok(role),
            None if ROLES.contains(&fresh.name.as_str()) => roles::insert_built_in(conn, &fresh).map(|()| fresh),
            None => roles::insert(conn, &fresh).map(|()| fresh),
        })
        .await
    }

    /// Gives the user the role at `target`. Succeeds if the user has it already.
    pub async fn ensure_assignment(&self, user: &User, target: Target, role: &str) -> Result<(), ServiceError> {
        let role_id = self.ensure_role(role).await?.id;
        let assignment = Assignment { actor: Actor::User(user.id.clone()), target, role_id };
        self.write(move |conn| assignments::grant(conn, &assignment)).await
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

    pub(super) fn new_id(&self) -> String {
        self.env.uuid().simple().to_string()
    }

    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.db.read(work).await.map_err(|e| ServiceError::from_db("identity", e))
    }

    /// Changes accounts under a new revision. Changes take turns, so that `work` can rely on its checks. Afterwards cached tokens are
    /// judged again: in this process at once, in others when they next read the revision.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        let changed = self.db.write(move |conn| {
            state::advance(conn)?;
            work(conn)
        });
        let result = changed.await.map_err(|e| ServiceError::from_db("identity", e));
        // Also after an error, because the change may have been made and only the reply lost.
        self.cache.lock().doubt();
        result
    }

    /// Writes records that no token depends on.
    pub(super) async fn write_aside<T, F>(&self, work: F) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.db.write(work).await.map_err(|e| ServiceError::from_db("identity", e))
    }
}

#[async_trait]
impl Authenticator for EmbeddedIdentity {
    async fn validate(&self, token: &str) -> Result<RequestContext, ServiceError> {
        let token = self.validate_token(token).await?;
        let system_scope = token.scope == Scope::System;
        let mut scope = RequestContext::default();
        match token.scope {
            Scope::Project { project, domain } => {
                (scope.project_id, scope.project_name, scope.project_domain_id) = (project.id, project.name, domain.id);
            }
            Scope::Domain(domain) => scope.domain_id = domain.id,
            Scope::System | Scope::Unscoped => (),
        }
        Ok(RequestContext {
            request_id: String::new(),
            user_id: token.user_id,
            user_name: token.user_name,
            roles: token.roles.into_iter().map(|role| role.name).collect(),
            system_scope,
            ..scope
        })
    }

    async fn knows_project(&self, id: &str) -> Result<bool, ServiceError> {
        match self.project(id).await {
            Ok(_) => Ok(true),
            Err(ServiceError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
