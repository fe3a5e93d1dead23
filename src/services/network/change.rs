//! A change of a thing: attributes as they shall be, or one tag more or less than the thing has when the change is made.

use serde_json::Value;

use super::attributes::{Attribute, checked};
use super::records::Attributes;
use super::values;
use crate::services::ServiceError;

/// See the file.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// These attributes get these values; the others stay.
    Attributes(Attributes),
    /// Adds this tag to the present ones.
    AddTag(String),
    /// Removes this tag. Not found when it has none.
    RemoveTag(String),
}

impl From<Attributes> for Change {
    fn from(attributes: Attributes) -> Change {
        Change::Attributes(attributes)
    }
}

impl Change {
    /// Refuses attributes that such a thing has not, that cannot be changed, or whose values have not their form.
    pub(super) fn checked(self, of: &[Attribute]) -> Result<Change, ServiceError> {
        match self {
            Change::Attributes(attributes) => Ok(Change::Attributes(checked(of, attributes, false)?)),
            tag => Ok(tag),
        }
    }

    /// The attributes to set on a thing that has these tags. Its row must be held until they are set.
    pub(super) fn on(self, tags: &[String]) -> Result<Attributes, ServiceError> {
        let tags = match self {
            Change::Attributes(attributes) => return Ok(attributes),
            Change::AddTag(tag) if tags.contains(&tag) => return Ok(Attributes::new()),
            Change::AddTag(tag) => tags.iter().cloned().chain([tag]).collect(),
            Change::RemoveTag(tag) if !tags.contains(&tag) => {
                return Err(ServiceError::NotFound(format!("Tag {} could not be found.", values::shortened(&tag))));
            }
            Change::RemoveTag(tag) => tags.iter().filter(|held| **held != tag).cloned().collect::<Vec<_>>(),
        };
        let tags = values::tags(&Value::from(tags));
        let tags = tags.map_err(|why| ServiceError::Invalid(format!("Invalid input for tags. Reason: {why}.")))?;
        Ok([("tags".to_owned(), tags)].into_iter().collect())
    }
}
