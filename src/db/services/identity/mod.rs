//! The embedded identity service's records: projects, users, roles, who has which role where, and which tokens have ended.

pub mod assignments;
pub mod failures;
pub mod projects;
pub mod revocations;
pub mod roles;
mod schema;
pub mod state;
pub mod tokens;
pub mod users;

pub use assignments::{Assignment, Target};
pub use projects::{Project, ProjectChanges};
pub use roles::{Role, RoleChanges};
pub use users::{User, UserChanges};

/// False for text that PostgreSQL does not take, and so nothing is called.
fn storable(text: &str) -> bool {
    !text.contains('\0')
}
