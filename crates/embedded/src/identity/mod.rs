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

use crate::ServiceError;
pub use crate::records::identity::{
    Actor, Assignment, Catalog, CatalogService, CredentialRecord, DEFAULT_DOMAIN, Domain, DomainChanges, DomainRef, Endpoint, Group,
    GroupChanges, Project, ProjectChanges, Region, Role, RoleChanges, Target, User,
};
pub use application_credentials::{ApplicationCredential, NewApplicationCredential, RoleRef};
pub use authentication::{ApplicationCredentialRef, Credential, ProjectRef, ScopeRequest, UserRef};
pub use catalog_records::{EndpointFields, RegionFields, ServiceFields};
pub use cellshift_neighbours::identity::Authenticator;
pub use credentials::{CredentialChanges, Ec2Credential, NewCredential, UserCredential};
pub use domains::NewDomain;
pub use embedded::{EmbeddedIdentity, Lockout, Settings};
pub use groups::{EffectiveAssignment, NewGroup};
pub use password::Cost;
pub use records::{NewProject, NewUser, UserUpdate};
pub use tokens::{DomainName, IssuedToken, Scope, Token, TokenCredential};

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
