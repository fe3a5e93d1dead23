//! The catalog: the URL of each service of this process.

use uuid::Uuid;

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
