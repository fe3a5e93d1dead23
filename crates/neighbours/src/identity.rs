//! The identity service: it says whose a token is, and issues those of the operators' page.

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use chrono::{DateTime, Utc};

use crate::ServiceError;

/// The reason why an authentication failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AuthenticationError {
    /// Wrong credentials, a disabled user or project, or no role in the scope. Callers are not told which.
    #[error("The request you have made requires authentication.")]
    Unauthorized,
    /// The service could not judge the credentials.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// Validates tokens.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// Returns the caller of `token`, with an empty request id. `NotFound` if the token is unknown, expired or revoked; `Unavailable` if
    /// the service cannot judge it.
    async fn validate(&self, token: &str) -> Result<RequestContext, ServiceError>;
    /// True if a project with this id exists.
    async fn knows_project(&self, id: &str) -> Result<bool, ServiceError>;
}

/// The names and the password with which a person logs in.
pub struct Login {
    pub user: NameInDomain,
    pub password: String,
    pub project: NameInDomain,
}

/// A name, and the name of its domain; none for the default domain.
pub struct NameInDomain {
    pub name: String,
    pub domain: Option<String>,
}

/// An account as people see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    pub id: String,
    pub name: String,
}

/// A person's session: a token of a project.
pub struct Session {
    pub token: String,
    pub user: Account,
    pub project: Account,
    pub expires_at: DateTime<Utc>,
}

/// Begins and ends the sessions of people.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Begins a session with a password.
    async fn log_in(&self, login: Login) -> Result<Session, AuthenticationError>;
    /// Begins a session in the project of `token`, and revokes that token, so that a link which carries it works once. `Forbidden` if the token
    /// has no project.
    async fn exchange(&self, token: &str) -> Result<Session, AuthenticationError>;
    /// Revokes the token of a session. `NotFound` if the token is unknown, expired or revoked.
    async fn log_out(&self, token: &str) -> Result<(), ServiceError>;
}
