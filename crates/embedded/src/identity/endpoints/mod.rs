//! The catalog's endpoints: those that are built in, and those that administrators add.

pub mod records;
pub mod routes;

use cellshift_store::Conn;
use schemars::JsonSchema;
use serde::Deserialize;

use super::catalog::{CATALOG, ENDPOINTS_MAX, INTERFACES, Outcome, SERVICES_MAX, missing, refuse_built_in, too_many};
use super::regions::{has_region, records as regions};
use super::services::is_built_in_service;
use super::{Catalog, EmbeddedIdentity, Endpoint, Region, ServiceError, words};
use crate::request_bodies::{not_null, nullable};

/// The fields of a new endpoint, or those that change.
#[derive(Clone, Default, Debug, Deserialize, JsonSchema)]
pub struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    pub service_id: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub region_id: Option<Option<String>>,
    /// The region under the field's older name, if `region_id` is not given: an unknown region is made, as in Keystone.
    #[serde(rename = "region")]
    pub legacy_region: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub interface: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub url: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub enabled: Option<bool>,
}

impl EmbeddedIdentity {
    /// Makes an endpoint of an added or a built-in service. Invalid if the service or the region is unknown.
    pub async fn create_endpoint(&self, fields: Fields) -> Result<Endpoint, ServiceError> {
        let legacy = fields.legacy_region.map(|id| words::name("region", &id)).transpose()?;
        let needed = |field: &str, text: Option<String>| text.ok_or_else(|| words::invalid(field, "an endpoint needs it"));
        let endpoint = Endpoint {
            id: self.new_id(),
            service_id: needed("service_id", fields.service_id)?,
            region_id: fields.region_id.flatten().or(legacy.clone()),
            interface: interface(needed("interface", fields.interface)?)?,
            url: words::url(&needed("url", fields.url)?)?,
            enabled: fields.enabled.unwrap_or(true),
        };
        self.change(move |conn, catalog| {
            if catalog.endpoints.len() >= ENDPOINTS_MAX {
                return Ok(Err(too_many("endpoints", ENDPOINTS_MAX)));
            }
            store(conn, catalog, legacy, endpoint)
        })
        .await
    }

    /// Changes an endpoint. Forbidden for those that are built in.
    pub async fn update_endpoint(&self, id: &str, fields: Fields) -> Result<Endpoint, ServiceError> {
        refuse_built_in_endpoint(id)?;
        let url = fields.url.map(|url| words::url(&url)).transpose()?;
        let interface = fields.interface.map(interface).transpose()?;
        let legacy = fields.legacy_region.map(|id| words::name("region", &id)).transpose()?;
        let region_id = fields.region_id.or(legacy.clone().map(Some));
        let id = id.to_owned();
        self.change(move |conn, catalog| {
            let Some(mut endpoint) = catalog.endpoints.iter().find(|endpoint| endpoint.id == id).cloned() else {
                return Ok(Err(missing("endpoint", &id)));
            };
            endpoint.service_id = fields.service_id.unwrap_or(endpoint.service_id);
            endpoint.region_id = region_id.unwrap_or(endpoint.region_id);
            endpoint.interface = interface.unwrap_or(endpoint.interface);
            endpoint.url = url.unwrap_or(endpoint.url);
            endpoint.enabled = fields.enabled.unwrap_or(endpoint.enabled);
            store(conn, catalog, legacy, endpoint)
        })
        .await
    }

    /// Deletes an endpoint. Forbidden for those that are built in.
    pub async fn delete_endpoint(&self, id: &str) -> Result<(), ServiceError> {
        refuse_built_in_endpoint(id)?;
        let id = id.to_owned();
        self.change(move |conn, catalog| match catalog.endpoints.iter().any(|endpoint| endpoint.id == id) {
            true => records::delete(conn, &id).map(Ok),
            false => Ok(Err(missing("endpoint", &id))),
        })
        .await
    }
}

/// Saves an endpoint, and before it the region that was given under the field's older name, if the endpoint is in it and it is unknown.
fn store(conn: &mut Conn, mut catalog: Catalog, legacy: Option<String>, endpoint: Endpoint) -> Outcome<Endpoint> {
    let mut new_region = None;
    if let Some(id) = legacy.filter(|id| endpoint.region_id.as_ref() == Some(id) && !has_region(&catalog, id)) {
        if catalog.regions.len() >= SERVICES_MAX {
            return Ok(Err(too_many("regions", SERVICES_MAX)));
        }
        let region = Region { id, description: String::new(), parent_region_id: None };
        catalog.regions.push(region.clone());
        new_region = Some(region);
    }
    if let Err(refusal) = check_endpoint(&catalog, &endpoint) {
        return Ok(Err(refusal));
    }
    if let Some(region) = new_region {
        regions::save(conn, &region)?;
    }
    records::save(conn, &endpoint).map(|()| Ok(endpoint))
}

/// Refuses an endpoint of an unknown service or region.
fn check_endpoint(catalog: &Catalog, endpoint: &Endpoint) -> Result<(), ServiceError> {
    let service = &endpoint.service_id;
    if !is_built_in_service(service) && !catalog.services.iter().any(|other| other.id == *service) {
        return Err(words::invalid("service_id", "there is no such service"));
    }
    match &endpoint.region_id {
        Some(region) if !has_region(catalog, region) => Err(words::invalid("region_id", "there is no such region")),
        _ => Ok(()),
    }
}

fn interface(text: String) -> Result<String, ServiceError> {
    match INTERFACES.contains(&text.as_str()) {
        true => Ok(text),
        false => Err(words::invalid("interface", "it is public, internal or admin")),
    }
}

fn refuse_built_in_endpoint(id: &str) -> Result<(), ServiceError> {
    let is_built_in = CATALOG.iter().any(|entry| INTERFACES.iter().any(|interface| entry.endpoint_id(interface) == id));
    refuse_built_in("endpoint", id, is_built_in)
}
