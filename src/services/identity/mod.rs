//! The identity service: who a token speaks for.
//!
//! `embedded` keeps projects, users and roles and issues tokens; `authentication` is how one is asked for and judged,
//! `records` what administrators change, `catalog` where the services are.

mod authentication;
pub mod catalog;
pub mod embedded;
pub mod keys;
mod password;
mod records;
mod tokens;
mod words;

use async_trait::async_trait;

use super::ServiceError;
pub use crate::db::services::identity::{Assignment, Project, ProjectChanges, Role, RoleChanges, Target, User};
use crate::domain::context::RequestContext;
pub use authentication::{Credential, ProjectRef, ScopeRequest, UserRef};
pub use embedded::{EmbeddedIdentity, Lockout, Settings};
pub use password::Cost;
pub use records::{NewUser, UserUpdate};
pub use tokens::{IssuedToken, Scope, Token};

/// Says who a token speaks for.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// The caller behind `token`, with an empty request id. `NotFound` for a token that is unknown, expired or revoked;
    /// `Unavailable` when nobody can say.
    async fn validate(&self, token: &str) -> Result<RequestContext, ServiceError>;
    /// True when there is a project of this id.
    async fn knows_project(&self, id: &str) -> Result<bool, ServiceError>;
}

/// Why nobody was authenticated.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AuthenticationError {
    /// Wrong credentials, a disabled user or project, no role in the scope: which one is not said to the caller.
    #[error("The request you have made requires authentication.")]
    Unauthorized,
    /// The service could not judge.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

#[cfg(test)]
mod tests;
