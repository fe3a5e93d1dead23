//! The embedded identity service's records: projects, users, roles, who has which role where, and revoked tokens.

pub mod assignments;
pub mod projects;
pub mod roles;
mod schema;
pub mod tokens;
pub mod users;

pub use assignments::{Assignment, Target};
pub use projects::{Project, ProjectChanges};
pub use roles::Role;
pub use users::{User, UserChanges};
