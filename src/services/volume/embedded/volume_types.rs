//! Volume types: one for single servers, one for shared volumes.

use uuid::Uuid;

use crate::services::ServiceError;

/// The default type: a file on this machine.
pub const DEFAULT_TYPE: &str = "local";
/// The type of volumes that several servers may share.
pub const MULTIATTACH_TYPE: &str = "local-multiattach";
/// All volume types.
pub const TYPES: [&str; 2] = [DEFAULT_TYPE, MULTIATTACH_TYPE];

/// Returns the name of the type with this id or name.
pub fn named(wanted: &str) -> Result<&'static str, ServiceError> {
    let wanted = if wanted == "default" { DEFAULT_TYPE } else { wanted };
    let found = TYPES.into_iter().find(|name| *name == wanted || id_of(name) == wanted);
    found.ok_or_else(|| ServiceError::NotFound(format!("Volume type {wanted} could not be found.")))
}

/// Returns a type's id, which is the same in all deployments.
pub fn id_of(name: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("volume-type/{name}").as_bytes()).to_string()
}
