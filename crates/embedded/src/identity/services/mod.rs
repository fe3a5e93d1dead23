//! The catalog's services: those that are built in, and those that administrators add.

pub mod records;
pub mod routes;

use schemars::JsonSchema;
use serde::Deserialize;

use super::catalog::{CATALOG, SERVICES_MAX, missing, refuse_built_in, too_many};
use super::{CatalogService, EmbeddedIdentity, ServiceError, words};
use crate::request_bodies::not_null;

/// The fields of a new service, or those that change.
#[derive(Clone, Default, Debug, Deserialize, JsonSchema)]
pub struct Fields {
    #[serde(rename = "type", default, deserialize_with = "not_null")]
    pub service_type: Option<String>,
    pub name: Option<String>,
    pub description: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub enabled: Option<bool>,
}

impl EmbeddedIdentity {
    pub async fn create_service(&self, fields: Fields) -> Result<CatalogService, ServiceError> {
        let id = self.new_id();
        let service_type = fields.service_type.ok_or_else(|| words::invalid("type", "a service needs a type"))?;
        let service = CatalogService {
            id,
            service_type: words::name("service type", &service_type)?,
            name: words::short("name", fields.name.as_deref().unwrap_or_default())?,
            description: words::text("description", fields.description.as_deref().unwrap_or_default())?,
            enabled: fields.enabled.unwrap_or(true),
        };
        self.change(move |conn, catalog| {
            if catalog.services.len() >= SERVICES_MAX {
                return Ok(Err(too_many("services", SERVICES_MAX)));
            }
            records::save(conn, &service).map(|()| Ok(service))
        })
        .await
    }

    /// Changes a service. Forbidden for those that are built in.
    pub async fn update_service(&self, id: &str, fields: Fields) -> Result<CatalogService, ServiceError> {
        refuse_built_in_service(id)?;
        let service_type = fields.service_type.map(|text| words::name("service type", &text)).transpose()?;
        let name = fields.name.map(|text| words::short("name", &text)).transpose()?;
        let description = fields.description.map(|text| words::text("description", &text)).transpose()?;
        let id = id.to_owned();
        self.change(move |conn, catalog| {
            let Some(mut service) = catalog.services.into_iter().find(|service| service.id == id) else {
                return Ok(Err(missing("service", &id)));
            };
            service.service_type = service_type.unwrap_or(service.service_type);
            service.name = name.unwrap_or(service.name);
            service.description = description.unwrap_or(service.description);
            service.enabled = fields.enabled.unwrap_or(service.enabled);
            records::save(conn, &service).map(|()| Ok(service))
        })
        .await
    }

    /// Deletes a service and its endpoints. Forbidden for those that are built in.
    pub async fn delete_service(&self, id: &str) -> Result<(), ServiceError> {
        refuse_built_in_service(id)?;
        let id = id.to_owned();
        self.change(move |conn, catalog| match catalog.services.iter().any(|service| service.id == id) {
            true => records::delete(conn, &id).map(Ok),
            false => Ok(Err(missing("service", &id))),
        })
        .await
    }
}

pub(super) fn is_built_in_service(id: &str) -> bool {
    CATALOG.iter().any(|entry| entry.service_id() == id)
}

fn refuse_built_in_service(id: &str) -> Result<(), ServiceError> {
    refuse_built_in("service", id, is_built_in_service(id))
}
