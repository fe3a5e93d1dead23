//! The identity service: it says whose a token is. A folder per resource has its rules, table and routes.
//!
//! [`tokens`] issues and validates tokens; `domains`, `projects`, `users`, `groups`, `roles` and `assignments` are the accounts behind them,
//! `application_credentials` and `credentials` the users' secrets. [`catalog`] has the services' URLs, with `services`, `endpoints` and
//! `regions`. `rights` says who may do what, `words` how texts are checked, [`routes`] where the API begins.

mod application_credentials;
mod assignments;
pub mod catalog;
mod credentials;
mod domains;
mod endpoints;
mod groups;
pub mod keys;
pub mod password;
mod projects;
mod regions;
mod rights;
pub mod roles;
pub mod routes;
mod schema;
mod services;
mod sessions;
mod state;
mod statements;
pub mod tokens;
mod users;
mod vault;
mod versions;
mod words;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use cellshift_domain::failure::{Failure, FailureKind};
use cellshift_domain::reason;
use cellshift_env::Env;
use cellshift_env::turns::Turns;
use cellshift_store::{Conn, Db, DbError};
use chrono::{NaiveDateTime, TimeDelta};
use parking_lot::Mutex;

use crate::ServiceError;
pub use application_credentials::records::CredentialRecord;
pub use application_credentials::{ApplicationCredential, NewApplicationCredential, RoleRef};
pub use assignments::EffectiveAssignment;
pub use assignments::records::{Actor, Assignment, Target};
pub use catalog::Catalog;
pub use cellshift_neighbours::identity::{AuthenticationError, Authenticator};
pub use credentials::{CredentialChanges, Ec2Credential, NewCredential, UserCredential};
pub use domains::NewDomain;
pub use domains::records::{DEFAULT_DOMAIN, Domain, DomainChanges, DomainRef};
pub use endpoints::Fields as EndpointFields;
pub use endpoints::records::Endpoint;
pub use groups::NewGroup;
pub use groups::records::{Group, GroupChanges};
use keys::KeyRing;
pub use password::Cost;
use password::Passwords;
pub use projects::NewProject;
pub use projects::records::{Project, ProjectChanges};
pub use regions::Fields as RegionFields;
pub use regions::records::Region;
pub use roles::records::{Role, RoleChanges};
pub use services::Fields as ServiceFields;
pub use services::records::CatalogService;
use tokens::authentication::TOKEN_LIFETIME;
pub use tokens::authentication::{ApplicationCredentialRef, Credential, ProjectRef, ScopeRequest, UserRef};
pub use tokens::{DomainName, IssuedToken, Scope, Token, TokenCredential};
use tokens::{TokenCache, revocations, unavailable};
pub use users::records::{User, UserChanges};
pub use users::{NewUser, UserUpdate};
use vault::Vault;

/// The largest accepted difference between the clocks of processes.
const CLOCKS: TimeDelta = TimeDelta::hours(1);

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

/// False for text with a null character: PostgreSQL cannot store it, so no record has it as name or id.
fn storable(text: &str) -> bool {
    !text.contains('\0')
}

/// The identity service in this process. Share it as `Arc` or `web::Data`.
pub struct EmbeddedIdentity {
    db: Db,
    env: Env,
    keys: Arc<KeyRing>,
    passwords: Passwords,
    lockout: Option<Lockout>,
    cache: Mutex<TokenCache>,
    vault: Vault,
    /// Held by the request that reads the revision.
    asking: tokio::sync::Mutex<()>,
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

    /// True once the deployment's first accounts were made, even if they were deleted later.
    pub async fn accounts_made(&self) -> Result<bool, ServiceError> {
        self.read(state::accounts_made).await
    }

    /// Records that the first accounts were made.
    pub async fn note_accounts_made(&self) -> Result<(), ServiceError> {
        self.write_aside(state::note_accounts_made).await
    }

    fn new_id(&self) -> String {
        self.env.uuid().simple().to_string()
    }

    async fn read<T, F>(&self, work: F) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.db.read(work).await.map_err(from_db)
    }

    /// Changes accounts under a new revision. Changes take turns, so that `work` can rely on its checks. Afterwards cached tokens are
    /// judged again: in this process at once, in others when they next read the revision.
    async fn write<T, F>(&self, work: F) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        let changed = self.db.write(move |conn| {
            state::advance(conn)?;
            work(conn)
        });
        let result = changed.await.map_err(from_db);
        // Also after an error, because the change may have been made and only the reply lost.
        self.cache.lock().doubt();
        result
    }

    /// Changes accounts as `write` does, and removes revocations that have become useless.
    async fn revise<T, F>(&self, work: F) -> Result<T, ServiceError>
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
    fn last_expiry(&self) -> NaiveDateTime {
        (self.env.now() + TOKEN_LIFETIME + CLOCKS).naive_utc()
    }

    /// Writes records that no token depends on.
    async fn write_aside<T, F>(&self, work: F) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.db.write(work).await.map_err(from_db)
    }
}

/// Converts the error of the database. Rows name what is missing as Keystone names it: `project: 1f0c`.
fn from_db(error: DbError) -> ServiceError {
    match error.failure_kind() {
        FailureKind::Missing(name) => ServiceError::NotFound(reason!("Could not find {name}.")),
        _ => ServiceError::from_db("identity", error),
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
