//! The network service: networks, subnets and their pools, ports and their bindings to hosts, routers, floating IPs, security groups, QoS
//! policies and quotas, in this process and over the services database.
//!
//! Each resource has a folder. Its `mod.rs` has the rules, as methods of [`EmbeddedNetwork`]; `records.rs` the rows and statements; `routes.rs`
//! the handlers of the Network API v2.0. The other folders and files serve all resources:
//!
//! - `effects` is the service for sagas and hosts ([`NetworkService`]): its changes are fenced and may repeat.
//! - [`attributes`](self) says which attributes a request may set, `values` checks each value, [`change`] lays a change over a resource, and
//!   `makings` makes one resource or several together.
//! - [`routes`] registers all paths and has what handlers share; `resource` answers the requests that resources have alike, and `query` is the
//!   query of a list. [`agents`], `availability_zones`, `extensions`,
//!   `tags` and `versions` are parts of the API without a table of their own.
//! - `schema` declares the tables, and `statements` makes statements that several have alike. Lists and objects that no query filters by are
//!   stored as JSON in TEXT columns.

pub mod agents;
mod attributes;
mod availability_zones;
mod bindings;
pub mod blocks;
pub mod change;
pub mod cidr;
mod effects;
mod extensions;
mod floating_ips;
mod ip_availability;
pub mod limits;
mod makings;
mod networks;
mod ports;
mod qos;
mod query;
mod quotas;
pub mod records;
pub mod request_bodies;
mod resource;
mod routers;
pub mod routes;
mod schema;
mod security_groups;
mod statements;
mod subnet_pools;
mod subnets;
mod tags;
pub mod values;
mod versions;

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_store::Db;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
pub use cellshift_neighbours::network::{
    ALLOCATION, FixedIp, FunctionKeys, GROUPS_NEED_SECURITY, HostKey, HostKeys, Network, NetworkService, NewPort, Port, PortBinding,
    PortRefusal,
};
use limits::{Limits, RequestFormat};
pub use ports::records::Filter as PortFilter;
use ports::resource_request;
pub use quotas::OPTIONS as QUOTA_OPTIONS;
use records::PortRecord;

/// The MTU of a network if the request names none.
const DEFAULT_MTU: i32 = 1450;

const SERVICE: &str = "network";

/// The network service in this process. Cheap to clone.
#[derive(Clone)]
pub struct EmbeddedNetwork {
    db: Db,
    extended_bindings: bool,
    limits: Limits,
}

impl Transactions for EmbeddedNetwork {
    const SERVICE: &'static str = SERVICE;

    fn database(&self) -> &Db {
        &self.db
    }
}

impl EmbeddedNetwork {
    /// Makes the network service over the services database.
    pub fn new(db: Db) -> EmbeddedNetwork {
        EmbeddedNetwork { db, extended_bindings: true, limits: Limits::default() }
    }

    /// Removes the extension "Port Bindings Extended", as in an old deployment: a cross-cell move is refused.
    #[must_use]
    pub fn without_extended_bindings(mut self) -> EmbeddedNetwork {
        self.extended_bindings = false;
        self
    }

    /// Sets other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> EmbeddedNetwork {
        self.limits = limits;
        self
    }

    /// True if a port may have a binding per host.
    pub fn has_extended_bindings(&self) -> bool {
        self.extended_bindings
    }

    /// Returns the form in which ports show the resources that they ask for.
    pub fn request_format(&self) -> RequestFormat {
        self.limits.resource_request_format
    }

    /// Returns a port as this service shows it: with its resource request in the configured form.
    fn shown(&self, port: Port) -> Port {
        shown_in(self.request_format(), port)
    }

    fn shown_record(&self, record: PortRecord) -> PortRecord {
        PortRecord { port: self.shown(record.port), ..record }
    }

    fn now(&self) -> DateTime<Utc> {
        self.db.env().now()
    }

    /// Returns a new id.
    pub fn new_id(&self) -> Uuid {
        self.db.env().uuid()
    }
}

/// Returns a port with its resource request in this form.
fn shown_in(format: RequestFormat, port: Port) -> Port {
    let resource_request = in_format(format, port.resource_request);
    Port { resource_request, ..port }
}

/// Returns a resource request in this form; none if it asks for nothing that the form knows.
fn in_format(format: RequestFormat, request: Option<Value>) -> Option<Value> {
    match format {
        RequestFormat::Groups => request,
        RequestFormat::Port => request.as_ref().and_then(resource_request::in_old_form),
    }
}

fn absent(what: &str, id: impl std::fmt::Display) -> TransactionError {
    ServiceError::NotFound(reason!("{what} {id} could not be found.")).into()
}

fn in_use(why: String) -> TransactionError {
    ServiceError::Conflict(Reason::public(why)).into()
}
