//! The embedded identity service: one domain, `default`; projects, users and roles in the services database.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use fernet::MultiFernet;

use super::tokens::{TokenCache, load_keys, unavailable};
use super::{Authenticator, Project, Role, Scope, ServiceError, Target, User, password};
use crate::db::services::identity::{Assignment, assignments, projects, roles, users};
use crate::db::{Conn, Db, DbError};
use crate::domain::context::RequestContext;
use crate::env::Env;

/// Id of the one domain, and its name.
pub const DOMAIN_ID: &str = "default";
/// The domain's name.
pub const DOMAIN_NAME: &str = "Default";

/// Every role that means something here, strongest first: each of the first four implies those after it. `service` is what
/// other services authenticate with and implies none.
pub const ROLES: [&str; 5] = ["admin", "manager", "member", "reader", "service"];

/// The identity service that lives in this process. Share it as `Arc` or `web::Data`.
pub struct EmbeddedIdentity {
    pub(super) db: Db,
    pub(super) env: Env,
    pub(super) keys: Arc<MultiFernet>,
    /// What a password is compared with when there is no such user, so that the time of an answer does not tell.
    pub(super) nobodys_hash: String,
    cache: Mutex<TokenCache>,
}

impl EmbeddedIdentity {
    /// Opens the service over the services database; reads the token keys of `key_file` and makes that file with one key
    /// when there is none. The roles of [`ROLES`] exist afterwards.
    pub async fn open(db: Db, env: Env, key_file: &Path) -> Result<EmbeddedIdentity, ServiceError> {
        let key_file = key_file.to_owned();
        let salt = *env.uuid().as_bytes();
        let (keys, nobodys_hash) = env.run_blocking(move || (load_keys(&key_file), password::hash("", &salt))).await;
        let identity = EmbeddedIdentity {
            db,
            env,
            keys: Arc::new(keys?),
            nobodys_hash: nobodys_hash.map_err(unavailable)?,
            cache: Mutex::new(TokenCache::default()),
        };
        for role in ROLES {
            identity.ensure_role(role).await?;
        }
        Ok(identity)
    }

    /// The project of this name; made when there is none.
    pub async fn ensure_project(&self, name: &str) -> Result<Project, ServiceError> {
        let fresh = Project {
            id: self.new_id(),
            name: name.to_owned(),
            description: String::new(),
            enabled: true,
            created_at: self.env.now().naive_utc(),
        };
        self.write(move |conn| match projects::by_name(conn, &fresh.name)? {
            Some(project) => Ok(project),
            None => projects::insert(conn, &fresh).map(|()| fresh),
        })
        .await
    }

    /// The user of this name; made with this password when there is none. The password of one that exists stays.
    pub async fn ensure_user(&self, name: &str, password: &str, default_project_id: Option<&str>) -> Result<User, ServiceError> {
        let wanted = name.to_owned();
        if let Some(user) = self.read(move |conn| users::by_name(conn, &wanted)).await? {
            return Ok(user);
        }
        let fresh = self.new_user(name, password, default_project_id).await?;
        self.write(move |conn| match users::by_name(conn, &fresh.name)? {
            Some(user) => Ok(user),
            None => users::insert(conn, &fresh).map(|()| fresh),
        })
        .await
    }

    /// The role of this name; made when there is none.
    pub async fn ensure_role(&self, name: &str) -> Result<Role, ServiceError> {
        let fresh = Role { id: self.new_id(), name: name.to_owned(), description: String::new() };
        self.write(move |conn| match roles::by_name(conn, &fresh.name)? {
            Some(role) => Ok(role),
            None => roles::insert(conn, &fresh).map(|()| fresh),
        })
        .await
    }

    /// Gives the user the role of this name at `target`; fine when it has it.
    pub async fn ensure_assignment(&self, user: &User, target: Target, role: &str) -> Result<(), ServiceError> {
        let role_id = self.ensure_role(role).await?.id;
        let assignment = Assignment { user_id: user.id.clone(), target, role_id };
        self.write(move |conn| assignments::grant(conn, &assignment)).await
    }

    /// A user's record with the password hashed, not stored yet.
    pub(super) async fn new_user(&self, name: &str, password: &str, default_project_id: Option<&str>) -> Result<User, ServiceError> {
        let now = self.env.now().naive_utc();
        Ok(User {
            id: self.new_id(),
            name: name.to_owned(),
            description: String::new(),
            email: None,
            enabled: true,
            default_project_id: default_project_id.map(str::to_owned),
            password_hash: self.hash(password).await?,
            password_changed_at: now,
            created_at: now,
        })
    }

    pub(super) async fn hash(&self, password: &str) -> Result<String, ServiceError> {
        let salt = *self.env.uuid().as_bytes();
        let password = password.to_owned();
        self.env.run_blocking(move || password::hash(&password, &salt)).await.map_err(unavailable)
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

    /// Writes; what tokens are worth may have changed afterwards, so none is believed without asking.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        let result = self.db.write(work).await.map_err(|e| ServiceError::from_db("identity", e));
        self.cache().clear();
        result
    }

    pub(super) fn cache(&self) -> MutexGuard<'_, TokenCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Authenticator for EmbeddedIdentity {
    async fn validate(&self, token: &str) -> Result<RequestContext, ServiceError> {
        let token = self.validate_token(token).await?;
        let (project_id, project_name) = match &token.scope {
            Scope::Project(project) => (project.id.clone(), project.name.clone()),
            _ => Default::default(),
        };
        Ok(RequestContext {
            request_id: String::new(),
            user_id: token.user_id,
            user_name: token.user_name,
            project_id,
            project_name,
            roles: token.roles.into_iter().map(|role| role.name).collect(),
            system_scope: token.scope == Scope::System,
        })
    }
}
