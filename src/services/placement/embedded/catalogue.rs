//! The existing traits and resource classes: standard and custom ones.

use super::super::names;
use super::EmbeddedPlacement;
use crate::db::services::placement::names as defined;
use crate::services::ServiceError;
use crate::services::transaction::Transactions;

impl EmbeddedPlacement {
    /// Returns all traits, standard ones first.
    pub async fn traits(&self) -> Result<Vec<String>, ServiceError> {
        self.read(|conn| {
            let custom = defined::traits(conn)?;
            Ok(names::TRAITS.iter().map(|name| (*name).to_owned()).chain(custom).collect())
        })
        .await
    }

    /// Defines a custom trait. False if it exists.
    pub async fn create_trait(&self, name: String) -> Result<bool, ServiceError> {
        if !names::is_custom(&name) {
            return Err(ServiceError::Invalid(format!(
                "The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix \"CUSTOM_\" and use following characters: \"A\"-\"Z\", \"0\"-\"9\" and \"_\": {name}"
            )));
        }
        self.write(None, move |conn| Ok(defined::add_trait(conn, &name)?)).await
    }

    /// Removes a custom trait. Conflict while a provider has it.
    pub async fn delete_trait(&self, name: String) -> Result<(), ServiceError> {
        if names::TRAITS.contains(&name.as_str()) {
            return Err(ServiceError::Invalid(format!("Cannot delete standard trait {name}")));
        }
        self.write(None, move |conn| {
            if defined::trait_in_use(conn, &name)? {
                return Err(ServiceError::Conflict(format!("The trait {name} is in use by a resource provider.")).into());
            }
            if !defined::delete_trait(conn, &name)? {
                return Err(ServiceError::NotFound(format!("No such trait {name}.")).into());
            }
            Ok(())
        })
        .await
    }

    /// Returns all resource classes, standard ones first.
    pub async fn resource_classes(&self) -> Result<Vec<String>, ServiceError> {
        self.read(|conn| {
            let custom = defined::classes(conn)?;
            Ok(names::RESOURCE_CLASSES.iter().map(|name| (*name).to_owned()).chain(custom).collect())
        })
        .await
    }

    /// Defines a custom resource class. False if it exists.
    pub async fn create_resource_class(&self, name: String) -> Result<bool, ServiceError> {
        if !names::is_custom(&name) {
            return Err(ServiceError::Invalid(format!(
                "A resource class of one's own starts with CUSTOM_ and uses A-Z, 0-9 and _: {name}"
            )));
        }
        self.write(None, move |conn| Ok(defined::add_class(conn, &name)?)).await
    }

    /// Removes a custom resource class. Conflict while a provider has an inventory of it.
    pub async fn delete_resource_class(&self, name: String) -> Result<(), ServiceError> {
        if names::RESOURCE_CLASSES.contains(&name.as_str()) {
            return Err(ServiceError::Invalid(format!("Cannot delete a standard resource class: {name}")));
        }
        self.write(None, move |conn| {
            if defined::class_in_use(conn, &name)? {
                return Err(ServiceError::Conflict(format!("Cannot delete resource class {name}: it is in use in inventory.")).into());
            }
            if !defined::delete_class(conn, &name)? {
                return Err(ServiceError::NotFound(format!("No such resource class {name}.")).into());
            }
            Ok(())
        })
        .await
    }
}
