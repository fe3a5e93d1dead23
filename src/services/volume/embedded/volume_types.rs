//! Volume types: one for one server, one for several.

use uuid::Uuid;

use crate::services::ServiceError;

/// The type of a volume that was asked for without one: a file on this machine.
pub const DEFAULT_TYPE: &str = "local";
/// The type whose volumes several servers may share.
pub const MULTIATTACH_TYPE: &str = "local-multiattach";
/// Every volume type.
pub const TYPES: [&str; 2] = [DEFAULT_TYPE, MULTIATTACH_TYPE];

/// The name of the type that this id or name means.
pub fn named(wanted: &str) -> Result<&'static str, ServiceError> {
    let wanted = if wanted == "default" { DEFAULT_TYPE } else { wanted };
    let found = TYPES.into_iter().find(|name| *name == wanted || id_of(name) == wanted);
    found.ok_or_else(|| ServiceError::NotFound(format!("Volume type {wanted} could not be found.")))
}

/// A type's id, the same in every deployment.
pub fn id_of(name: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("volume-type/{name}").as_bytes()).to_string()
}
