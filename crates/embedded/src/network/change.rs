//! A change of a resource: new values of attributes, or one tag more or less than the resource has at that moment.

use cellshift_domain::reason;
use serde_json::Value;

use super::attributes::{Attribute, checked};
use super::records::Attributes;
use super::values;
use crate::ServiceError;

/// A change of a resource.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Sets these attributes and leaves the others.
    Attributes(Attributes),
    /// Adds this tag.
    AddTag(String),
    /// Removes this tag. NotFound if the resource does not have it.
    RemoveTag(String),
}

impl From<Attributes> for Change {
    fn from(attributes: Attributes) -> Change {
        Change::Attributes(attributes)
    }
}

impl Change {
    /// Refuses attributes that the resource does not have, that cannot be changed, or whose values have the wrong form.
    pub(super) fn checked(self, of: &[Attribute]) -> Result<Change, ServiceError> {
        match self {
            Change::Attributes(attributes) => Ok(Change::Attributes(checked(of, attributes, false)?)),
            tag => Ok(tag),
        }
    }

    /// Returns the attributes to set on a resource with these tags. The caller locks the resource's row until they are set.
    pub(super) fn on(self, tags: &[String]) -> Result<Attributes, ServiceError> {
        let tags = match self {
            Change::Attributes(attributes) => return Ok(attributes),
            Change::AddTag(tag) if tags.contains(&tag) => return Ok(Attributes::new()),
            Change::AddTag(tag) => tags.iter().cloned().chain([tag]).collect(),
            Change::RemoveTag(tag) if !tags.contains(&tag) => {
                return Err(ServiceError::NotFound(reason!("Tag {} could not be found.", values::shortened(&tag))));
            }
            Change::RemoveTag(tag) => tags.iter().filter(|held| **held != tag).cloned().collect::<Vec<_>>(),
        };
        let tags = values::tags(&Value::from(tags));
        let tags = tags.map_err(|why| ServiceError::Invalid(reason!("Invalid input for tags. Reason: {why}.")))?;
        Ok([("tags".to_owned(), tags)].into_iter().collect())
    }
}
