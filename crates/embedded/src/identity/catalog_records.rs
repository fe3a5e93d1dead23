//! The catalog's records: what is built in, and what administrators add, change and delete.

use cellshift_store::{Conn, DbError};

use super::catalog::{CATALOG, CatalogEntry, INTERFACES, REGION};
use super::{Catalog, CatalogService, EmbeddedIdentity, Endpoint, Region, ServiceError, words};
use crate::records::identity::catalog as records;

/// The maximum number of added services, and of added regions. Each token shows the whole catalog.
const SERVICES_MAX: usize = 200;
/// The maximum number of added endpoints.
const ENDPOINTS_MAX: usize = 1000;

/// The fields of a new service, or those that change.
#[derive(Clone, Default, Debug)]
pub struct ServiceFields {
    pub service_type: Option<String>,
    pub name: Option<String>,
    pub description: Option<String>,
    pub enabled: Option<bool>,
}

/// The fields of a new endpoint, or those that change.
#[derive(Clone, Default, Debug)]
pub struct EndpointFields {
    pub service_id: Option<String>,
    pub region_id: Option<Option<String>>,
    /// The region under the field's older name, if `region_id` is not given: an unknown region is made, as in Keystone.
    pub legacy_region: Option<String>,
    pub interface: Option<String>,
    pub url: Option<String>,
    pub enabled: Option<bool>,
}

/// The fields of a new region, or those that change.
#[derive(Clone, Default, Debug)]
pub struct RegionFields {
    pub description: Option<String>,
    pub parent_region_id: Option<Option<String>>,
}

/// The outcome of a change within its transaction: a refusal is no database error.
type Outcome<T> = Result<Result<T, ServiceError>, DbError>;

impl EmbeddedIdentity {
    /// Returns the whole catalog, disabled records too: first what is built in, with the URLs at this scheme and host.
    pub async fn catalog(&self, base: &str) -> Result<Catalog, ServiceError> {
        let added = self.read(records::read).await?;
        let mut whole = built_in(base);
        whole.services.extend(added.services);
        whole.endpoints.extend(added.endpoints);
        whole.regions.extend(added.regions);
        Ok(whole)
    }

    pub async fn create_service(&self, fields: ServiceFields) -> Result<CatalogService, ServiceError> {
        let id = self.new_id();
        let service_type = fields.service_type.ok_or_else(|| words::invalid("type", "a service needs a type"))?;
        let service = CatalogService {
            id,
            service_type: words::name("service type", &service_type)?,
            name: words::short("name", fields.name.as_deref().unwrap_or_default())?,
            description: words::text("description", fields.description.as_deref().unwrap_or_default())?,
            enabled: fields.enabled.unwrap_or(true),
        };
        self.change(move |conn, known| {
            if known.services.len() >= SERVICES_MAX {
                return Ok(Err(too_many("services", SERVICES_MAX)));
            }
            records::save_service(conn, &service).map(|()| Ok(service))
        })
        .await
    }

    /// Changes a service. Forbidden for those that are built in.
    pub async fn update_service(&self, id: &str, fields: ServiceFields) -> Result<CatalogService, ServiceError> {
        refuse_built_in_service(id)?;
        let service_type = fields.service_type.map(|text| words::name("service type", &text)).transpose()?;
        let name = fields.name.map(|text| words::short("name", &text)).transpose()?;
        let description = fields.description.map(|text| words::text("description", &text)).transpose()?;
        let id = id.to_owned();
        self.change(move |conn, known| {
            let Some(mut service) = known.services.into_iter().find(|service| service.id == id) else {
                return Ok(Err(missing("service", &id)));
            };
            service.service_type = service_type.unwrap_or(service.service_type);
            service.name = name.unwrap_or(service.name);
            service.description = description.unwrap_or(service.description);
            service.enabled = fields.enabled.unwrap_or(service.enabled);
            records::save_service(conn, &service).map(|()| Ok(service))
        })
        .await
    }

    /// Deletes a service and its endpoints. Forbidden for those that are built in.
    pub async fn delete_service(&self, id: &str) -> Result<(), ServiceError> {
        refuse_built_in_service(id)?;
        let id = id.to_owned();
        self.change(move |conn, known| match known.services.iter().any(|service| service.id == id) {
            true => records::delete_service(conn, &id).map(Ok),
            false => Ok(Err(missing("service", &id))),
        })
        .await
    }

    /// Makes an endpoint of an added or a built-in service. Invalid if the service or the region is unknown.
    pub async fn create_endpoint(&self, fields: EndpointFields) -> Result<Endpoint, ServiceError> {
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
        self.change(move |conn, known| {
            if known.endpoints.len() >= ENDPOINTS_MAX {
                return Ok(Err(too_many("endpoints", ENDPOINTS_MAX)));
            }
            save_endpoint(conn, known, legacy, endpoint)
        })
        .await
    }

    /// Changes an endpoint. Forbidden for those that are built in.
    pub async fn update_endpoint(&self, id: &str, fields: EndpointFields) -> Result<Endpoint, ServiceError> {
        refuse_built_in_endpoint(id)?;
        let url = fields.url.map(|url| words::url(&url)).transpose()?;
        let interface = fields.interface.map(interface).transpose()?;
        let legacy = fields.legacy_region.map(|id| words::name("region", &id)).transpose()?;
        let region_id = fields.region_id.or(legacy.clone().map(Some));
        let id = id.to_owned();
        self.change(move |conn, known| {
            let Some(mut endpoint) = known.endpoints.iter().find(|endpoint| endpoint.id == id).cloned() else {
                return Ok(Err(missing("endpoint", &id)));
            };
            endpoint.service_id = fields.service_id.unwrap_or(endpoint.service_id);
            endpoint.region_id = region_id.unwrap_or(endpoint.region_id);
            endpoint.interface = interface.unwrap_or(endpoint.interface);
            endpoint.url = url.unwrap_or(endpoint.url);
            endpoint.enabled = fields.enabled.unwrap_or(endpoint.enabled);
            save_endpoint(conn, known, legacy, endpoint)
        })
        .await
    }

    /// Deletes an endpoint. Forbidden for those that are built in.
    pub async fn delete_endpoint(&self, id: &str) -> Result<(), ServiceError> {
        refuse_built_in_endpoint(id)?;
        let id = id.to_owned();
        self.change(move |conn, known| match known.endpoints.iter().any(|endpoint| endpoint.id == id) {
            true => records::delete_endpoint(conn, &id).map(Ok),
            false => Ok(Err(missing("endpoint", &id))),
        })
        .await
    }

    /// Makes a region, with a random id if none is given. Conflict if the id is taken.
    pub async fn create_region(&self, id: Option<String>, fields: RegionFields) -> Result<Region, ServiceError> {
        let region = Region {
            id: words::name("region", &id.unwrap_or_else(|| self.new_id()))?,
            description: words::text("description", fields.description.as_deref().unwrap_or_default())?,
            parent_region_id: fields.parent_region_id.flatten(),
        };
        self.change(move |conn, known| {
            if region.id == REGION || known.regions.iter().any(|known| known.id == region.id) {
                let id = &region.id;
                return Ok(Err(ServiceError::Conflict(format!("Conflict occurred attempting to store region: Duplicate ID, {id}."))));
            }
            if known.regions.len() >= SERVICES_MAX {
                return Ok(Err(too_many("regions", SERVICES_MAX)));
            }
            save_region(conn, &known, region)
        })
        .await
    }

    /// Changes a region. Forbidden for the one that is built in.
    pub async fn update_region(&self, id: &str, fields: RegionFields) -> Result<Region, ServiceError> {
        refuse_built_in_region(id)?;
        let description = fields.description.map(|text| words::text("description", &text)).transpose()?;
        let id = id.to_owned();
        self.change(move |conn, known| {
            let Some(mut region) = known.regions.iter().find(|region| region.id == id).cloned() else {
                return Ok(Err(missing("region", &id)));
            };
            region.description = description.unwrap_or(region.description);
            region.parent_region_id = fields.parent_region_id.unwrap_or(region.parent_region_id);
            save_region(conn, &known, region)
        })
        .await
    }

    /// Deletes a region and those below it. Forbidden for the one that is built in, and while endpoints are in one of them.
    pub async fn delete_region(&self, id: &str) -> Result<(), ServiceError> {
        refuse_built_in_region(id)?;
        let id = id.to_owned();
        self.change(move |conn, known| {
            if !known.regions.iter().any(|region| region.id == id) {
                return Ok(Err(missing("region", &id)));
            }
            let gone = with_those_below(&known.regions, &id);
            if known.endpoints.iter().any(|endpoint| endpoint.region_id.as_ref().is_some_and(|region| gone.contains(region))) {
                return Ok(Err(ServiceError::Forbidden(format!(
                    "Unable to delete region {id} because it or its child regions have associated endpoints."
                ))));
            }
            records::delete_regions(conn, &gone).map(Ok)
        })
        .await
    }

    /// Changes the added records by what they are. Changes take turns.
    async fn change<T, F>(&self, work: F) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn, Catalog) -> Outcome<T> + Send + 'static,
    {
        self.write(move |conn| {
            let known = records::read(conn)?;
            work(conn, known)
        })
        .await?
    }
}

fn built_in(base: &str) -> Catalog {
    let service = |entry: &CatalogEntry| CatalogService {
        id: entry.service_id(),
        service_type: entry.service_type.to_owned(),
        name: entry.name.to_owned(),
        description: String::new(),
        enabled: true,
    };
    let endpoint = |entry: &CatalogEntry, interface: &str| Endpoint {
        id: entry.endpoint_id(interface),
        service_id: entry.service_id(),
        region_id: Some(REGION.to_owned()),
        interface: interface.to_owned(),
        url: entry.url(base),
        enabled: true,
    };
    let endpoints = CATALOG.iter().flat_map(|entry| INTERFACES.map(|interface| endpoint(entry, interface)));
    Catalog {
        services: CATALOG.iter().map(service).collect(),
        endpoints: endpoints.collect(),
        regions: vec![Region { id: REGION.to_owned(), description: String::new(), parent_region_id: None }],
    }
}

/// Saves an endpoint, and before it the region that was given under the field's older name, if the endpoint is in it and it is unknown.
fn save_endpoint(conn: &mut Conn, mut known: Catalog, legacy: Option<String>, endpoint: Endpoint) -> Outcome<Endpoint> {
    let mut made = None;
    if let Some(id) = legacy.filter(|id| endpoint.region_id.as_ref() == Some(id) && !has_region(&known, id)) {
        if known.regions.len() >= SERVICES_MAX {
            return Ok(Err(too_many("regions", SERVICES_MAX)));
        }
        let region = Region { id, description: String::new(), parent_region_id: None };
        known.regions.push(region.clone());
        made = Some(region);
    }
    if let Err(refusal) = check_endpoint(&known, &endpoint) {
        return Ok(Err(refusal));
    }
    if let Some(region) = made {
        records::save_region(conn, &region)?;
    }
    records::save_endpoint(conn, &endpoint).map(|()| Ok(endpoint))
}

/// Refuses an endpoint of an unknown service or region.
fn check_endpoint(known: &Catalog, endpoint: &Endpoint) -> Result<(), ServiceError> {
    let service = &endpoint.service_id;
    if !is_built_in_service(service) && !known.services.iter().any(|known| known.id == *service) {
        return Err(words::invalid("service_id", "there is no such service"));
    }
    match &endpoint.region_id {
        Some(region) if !has_region(known, region) => Err(words::invalid("region_id", "there is no such region")),
        _ => Ok(()),
    }
}

fn save_region(conn: &mut Conn, known: &Catalog, region: Region) -> Outcome<Region> {
    if let Some(parent) = &region.parent_region_id {
        if !has_region(known, parent) {
            return Ok(Err(missing("region", parent)));
        }
        if *parent == region.id || with_those_below(&known.regions, &region.id).contains(parent) {
            return Ok(Err(words::invalid("parent_region_id", "a region cannot be below itself")));
        }
    }
    records::save_region(conn, &region).map(|()| Ok(region))
}

fn has_region(known: &Catalog, id: &str) -> bool {
    id == REGION || known.regions.iter().any(|region| region.id == id)
}

/// Returns the ids of a region and of all regions below it.
fn with_those_below(regions: &[Region], id: &str) -> Vec<String> {
    let mut found = vec![id.to_owned()];
    let mut next = 0;
    while next < found.len() {
        let below = regions.iter().filter(|region| region.parent_region_id.as_ref() == Some(&found[next])).map(|region| region.id.clone());
        let new: Vec<String> = below.filter(|id| !found.contains(id)).collect();
        found.extend(new);
        next += 1;
    }
    found
}

fn interface(text: String) -> Result<String, ServiceError> {
    match INTERFACES.contains(&text.as_str()) {
        true => Ok(text),
        false => Err(words::invalid("interface", "it is public, internal or admin")),
    }
}

fn is_built_in_service(id: &str) -> bool {
    CATALOG.iter().any(|entry| entry.service_id() == id)
}

fn refuse_built_in_service(id: &str) -> Result<(), ServiceError> {
    refuse("service", id, is_built_in_service(id))
}

fn refuse_built_in_endpoint(id: &str) -> Result<(), ServiceError> {
    let is_built_in = CATALOG.iter().any(|entry| INTERFACES.iter().any(|interface| entry.endpoint_id(interface) == id));
    refuse("endpoint", id, is_built_in)
}

fn refuse_built_in_region(id: &str) -> Result<(), ServiceError> {
    refuse("region", id, id == REGION)
}

fn refuse(what: &str, id: &str, is_built_in: bool) -> Result<(), ServiceError> {
    match is_built_in {
        true => Err(ServiceError::Forbidden(format!("The {what} {id} is built in: it can be neither changed nor deleted."))),
        false => Ok(()),
    }
}

fn too_many(what: &str, max: usize) -> ServiceError {
    ServiceError::Forbidden(format!("The catalog takes at most {max} {what} beside those that are built in."))
}

fn missing(what: &str, id: &str) -> ServiceError {
    ServiceError::NotFound(format!("Could not find {what}: {id}."))
}
