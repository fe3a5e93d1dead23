//! The identity service: it says whose a token is.
//!
//! `embedded` stores projects, users and roles, `domains` their owners, `authentication` issues and validates tokens, `records` has the administrators' changes,
//! and `catalog` the services' URLs.

mod application_credentials;
mod authentication;
pub mod catalog;
mod catalog_records;
mod credentials;
mod domains;
pub mod embedded;
mod groups;
pub mod keys;
mod password;
mod records;
mod tokens;
mod vault;
mod words;

use async_trait::async_trait;

use super::ServiceError;
pub use crate::db::services::identity::{
    Actor, Assignment, Catalog, CatalogService, CredentialRecord, DEFAULT_DOMAIN, Domain, DomainChanges, DomainRef, Endpoint, Group,
    GroupChanges, Project, ProjectChanges, Region, Role, RoleChanges, Target, User,
};
use crate::domain::context::RequestContext;
pub use application_credentials::{ApplicationCredential, NewApplicationCredential, RoleRef};
pub use authentication::{ApplicationCredentialRef, Credential, ProjectRef, ScopeRequest, UserRef};
pub use catalog_records::{EndpointFields, RegionFields, ServiceFields};
pub use credentials::{CredentialChanges, Ec2Credential, NewCredential, UserCredential};
pub use domains::NewDomain;
pub use embedded::{EmbeddedIdentity, Lockout, Settings};
pub use groups::{EffectiveAssignment, NewGroup};
pub use password::Cost;
pub use records::{NewProject, NewUser, UserUpdate};
pub use tokens::{DomainName, IssuedToken, Scope, Token, TokenCredential};

/// Validates tokens.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// Returns the caller of `token`, with an empty request id. `NotFound` if the token is unknown, expired or revoked; `Unavailable` if
    /// the service cannot judge it.
    async fn validate(&self, token: &str) -> Result<RequestContext, ServiceError>;
    /// True if a project with this id exists.
    async fn knows_project(&self, id: &str) -> Result<bool, ServiceError>;
}

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

#[cfg(test)]
mod tests;
