//! Traits: qualities that a provider has or has not, standard and custom ones.

pub(super) mod records;
pub(super) mod routes;

use std::collections::BTreeSet;

use cellshift_domain::reason;
use cellshift_store::{Conn, DbError};
use uuid::Uuid;

use super::resource_providers::{one, raise};
use super::{EmbeddedPlacement, Provider, names};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};

impl EmbeddedPlacement {
    /// Returns all traits, standard ones first.
    pub async fn traits(&self) -> Result<Vec<String>, ServiceError> {
        self.read(|conn| {
            let custom = records::custom(conn)?;
            Ok(names::standard_traits()
                .map(str::to_owned)
                .chain(custom.into_iter().filter(|name| !names::is_standard_trait(name)))
                .collect())
        })
        .await
    }

    /// Defines a custom trait. False if it exists.
    pub async fn create_trait(&self, name: String) -> Result<bool, ServiceError> {
        if !names::is_custom(&name) {
            return Err(ServiceError::Invalid(reason!(
                "The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix \"CUSTOM_\" and use following characters: \"A\"-\"Z\", \"0\"-\"9\" and \"_\": {name}"
            )));
        }
        self.write(None, move |conn| Ok(records::define(conn, &name)?)).await
    }

    /// Removes a custom trait. Conflict while a provider has it.
    pub async fn delete_trait(&self, name: String) -> Result<(), ServiceError> {
        if names::is_standard_trait(&name) {
            return Err(ServiceError::Invalid(reason!("Cannot delete standard trait {name}")));
        }
        self.write(None, move |conn| {
            if records::is_used(conn, &name)? {
                return Err(ServiceError::Conflict(reason!("The trait {name} is in use by a resource provider.")).into());
            }
            if !records::delete(conn, &name)? {
                return Err(ServiceError::NotFound(reason!("No such trait {name}.")).into());
            }
            Ok(())
        })
        .await
    }

    /// Replaces the traits, if the generation is unchanged. Invalid if a trait does not exist.
    pub async fn set_traits(
        &self,
        uuid: Uuid,
        generation: Option<i64>,
        traits: Vec<String>,
    ) -> Result<(Provider, Option<Uuid>), ServiceError> {
        self.write(None, move |conn| {
            let custom: BTreeSet<String> = records::custom(conn)?.into_iter().collect();
            let is_unknown = |name: &&String| !names::is_standard_trait(name) && !custom.contains(*name);
            let unknown: Vec<&str> = traits.iter().filter(is_unknown).map(String::as_str).collect();
            if !unknown.is_empty() {
                return Err(ServiceError::Invalid(reason!("No such trait {}.", unknown.join(", "))).into());
            }
            raise(conn, uuid, generation)?;
            records::set(conn, &uuid.to_string(), &names::distinct(&traits))?;
            one(conn, uuid)
        })
        .await
    }
}

/// Defines those of these traits that do not exist yet, in the order of their names: two hosts then never wait for each other's.
pub(super) fn define(conn: &mut Conn, traits: &[String]) -> Result<(), DbError> {
    for name in names::distinct(traits).iter().filter(|name| !names::is_standard_trait(name)) {
        records::define(conn, name)?;
    }
    Ok(())
}

/// Replaces a provider's traits, and defines those that do not exist yet.
pub(super) fn set_reported(conn: &mut Conn, provider: &str, traits: &[String]) -> Result<(), TransactionError> {
    define(conn, traits)?;
    Ok(records::set(conn, provider, &names::distinct(traits))?)
}
