//! The existing resource classes: standard and custom ones.

pub(super) mod records;
pub(super) mod routes;

use super::EmbeddedPlacement;
use super::names;
use crate::ServiceError;
use crate::transaction::Transactions;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;

impl EmbeddedPlacement {
    /// Returns all resource classes, standard ones first.
    pub async fn resource_classes(&self) -> Result<Vec<String>, ServiceError> {
        self.read(|conn| {
            let custom = records::custom(conn)?;
            Ok(names::RESOURCE_CLASSES.iter().map(|name| (*name).to_owned()).chain(custom).collect())
        })
        .await
    }

    /// Defines a custom resource class. False if it exists.
    pub async fn create_resource_class(&self, name: String) -> Result<bool, ServiceError> {
        if !names::is_custom(&name) {
            return Err(ServiceError::Invalid(not_custom(&name)));
        }
        self.write(None, move |conn| Ok(records::define(conn, &name)?)).await
    }

    /// Renames a custom resource class, in the inventories and allocations too, as Placement does before 1.7.
    pub async fn rename_resource_class(&self, old: String, new: String) -> Result<(), ServiceError> {
        if names::is_standard_class(&old) {
            return Err(ServiceError::Invalid(reason!("Cannot update standard resource class {old}")));
        }
        if !names::is_custom(&new) {
            return Err(ServiceError::Invalid(not_custom(&new)));
        }
        self.write(None, move |conn| {
            if old == new {
                return match records::custom(conn)?.contains(&old) {
                    true => Ok(()),
                    false => Err(no_class(&old).into()),
                };
            }
            if !records::define(conn, &new)? {
                return Err(ServiceError::Conflict(reason!("Resource class already exists: {new}")).into());
            }
            if !records::delete(conn, &old)? {
                return Err(no_class(&old).into());
            }
            records::rename(conn, &old, &new)?;
            Ok(())
        })
        .await
    }

    /// Removes a custom resource class. Conflict while a provider has an inventory of it.
    pub async fn delete_resource_class(&self, name: String) -> Result<(), ServiceError> {
        if names::is_standard_class(&name) {
            return Err(ServiceError::Invalid(reason!("Cannot delete standard resource class {name}")));
        }
        self.write(None, move |conn| {
            if records::is_used(conn, &name)? {
                return Err(ServiceError::Conflict(reason!("Error in delete resource class: {name}: Class is in use in inventory.")).into());
            }
            if !records::delete(conn, &name)? {
                return Err(no_class(&name).into());
            }
            Ok(())
        })
        .await
    }
}

fn no_class(name: &str) -> ServiceError {
    ServiceError::NotFound(reason!("No such resource class {name}."))
}

fn not_custom(name: &str) -> Reason {
    reason!("A resource class of one's own starts with CUSTOM_ and uses A-Z, 0-9 and _: {name}")
}
