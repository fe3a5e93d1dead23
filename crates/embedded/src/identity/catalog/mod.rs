//! The catalog: the URL of each service of this process, and the services, endpoints and regions that administrators add.

pub(super) mod routes;
pub mod view;

use cellshift_domain::reason;
use cellshift_store::{Conn, DbError};
use uuid::Uuid;

use super::{CatalogService, EmbeddedIdentity, Endpoint, Region, ServiceError, endpoints, regions, services};

/// The only region.
pub const REGION: &str = "RegionOne";

/// A service of the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CatalogEntry {
    pub service_type: &'static str,
    pub name: &'static str,
    /// The URL without scheme and host.
    pub path: &'static str,
}

/// All services, in the catalog's order.
pub const CATALOG: [CatalogEntry; 7] = [
    CatalogEntry { service_type: "identity", name: "keystone", path: "/identity" },
    CatalogEntry { service_type: "compute", name: "nova", path: "/compute/v2.1" },
    CatalogEntry { service_type: "image", name: "glance", path: "/image" },
    CatalogEntry { service_type: "network", name: "neutron", path: "/network" },
    CatalogEntry { service_type: "block-storage", name: "cinder", path: "/volume/v3" },
    CatalogEntry { service_type: "volumev3", name: "cinderv3", path: "/volume/v3" },
    CatalogEntry { service_type: "placement", name: "placement", path: "/placement" },
];

/// The interfaces of each service; all have the same URL.
pub const INTERFACES: [&str; 3] = ["public", "internal", "admin"];

impl CatalogEntry {
    /// Returns the service's id, which is the same in all installations.
    pub fn service_id(&self) -> String {
        Uuid::new_v5(&Uuid::NAMESPACE_URL, self.service_type.as_bytes()).simple().to_string()
    }

    /// Returns the id of one of the service's endpoints.
    pub fn endpoint_id(&self, interface: &str) -> String {
        Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{}/{interface}", self.service_type).as_bytes()).simple().to_string()
    }

    /// Returns the service's URL for a scheme and host (`http://127.0.0.1:8774`).
    pub fn url(&self, base: &str) -> String {
        format!("{base}{}", self.path)
    }
}

/// The maximum number of added services, and of added regions. Each token shows the whole catalog.
pub(super) const SERVICES_MAX: usize = 200;

/// The maximum number of added endpoints.
pub(super) const ENDPOINTS_MAX: usize = 1000;

/// The records of the catalog.
#[derive(Clone, Default, Debug)]
pub struct Catalog {
    pub services: Vec<CatalogService>,
    pub endpoints: Vec<Endpoint>,
    pub regions: Vec<Region>,
}

/// The outcome of a change within its transaction: a refusal is no database error.
pub(super) type Outcome<T> = Result<Result<T, ServiceError>, DbError>;

impl EmbeddedIdentity {
    /// Returns the whole catalog, disabled records too: first what is built in, with the URLs at this scheme and host.
    pub async fn catalog(&self, base: &str) -> Result<Catalog, ServiceError> {
        let added = self.read(read).await?;
        let mut whole = built_in(base);
        whole.services.extend(added.services);
        whole.endpoints.extend(added.endpoints);
        whole.regions.extend(added.regions);
        Ok(whole)
    }

    /// Changes the added records by what they are. Changes take turns.
    pub(super) async fn change<T, F>(&self, work: F) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn, Catalog) -> Outcome<T> + Send + 'static,
    {
        self.write(move |conn| {
            let catalog = read(conn)?;
            work(conn, catalog)
        })
        .await?
    }
}

/// Returns all records, ordered by id.
fn read(conn: &mut Conn) -> Result<Catalog, DbError> {
    Ok(Catalog {
        services: services::records::list(conn)?,
        endpoints: endpoints::records::list(conn)?,
        regions: regions::records::list(conn)?,
    })
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

pub(super) fn refuse_built_in(what: &str, id: &str, is_built_in: bool) -> Result<(), ServiceError> {
    match is_built_in {
        true => Err(ServiceError::Forbidden(reason!("The {what} {id} is built in: it can be neither changed nor deleted."))),
        false => Ok(()),
    }
}

pub(super) fn too_many(what: &str, max: usize) -> ServiceError {
    ServiceError::Forbidden(reason!("The catalog takes at most {max} {what} beside those that are built in."))
}

pub(super) fn missing(what: &str, id: &str) -> ServiceError {
    ServiceError::NotFound(reason!("Could not find {what}: {id}."))
}
