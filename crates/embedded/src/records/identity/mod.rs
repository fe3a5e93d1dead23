//! The embedded identity service's records: domains, projects, users, groups, roles, role assignments, application credentials, additions to the
//! catalog, and revoked tokens.

pub mod application_credentials;
pub mod assignments;
pub mod catalog;
pub mod credentials;
pub mod domains;
pub mod failures;
pub mod groups;
pub mod projects;
pub mod revocations;
pub mod roles;
mod schema;
pub mod state;
pub mod tokens;
pub mod users;

pub use application_credentials::CredentialRecord;
pub use assignments::{Actor, Assignment, Target};
pub use catalog::{Catalog, CatalogService, Endpoint, Region};
pub use credentials::CredentialRow;
pub use domains::{DEFAULT_DOMAIN, Domain, DomainChanges, DomainRef};
pub use groups::{Group, GroupChanges};
pub use projects::{Project, ProjectChanges};
pub use roles::{Role, RoleChanges};
pub use users::{User, UserChanges};

/// False for text with a null character: PostgreSQL cannot store it, so no record has it as name or id.
fn storable(text: &str) -> bool {
    !text.contains('\0')
}
