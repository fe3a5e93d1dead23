//! The network service over the services database, one file per subject. Sagas and hosts use `effects`, under fences; the API uses the
//! other files.

mod addresses;
mod assemble;
mod bindings;
mod effects;
mod fixed_ips;
mod floating_ips;
mod follow;
mod gateways;
mod interfaces;
mod ip_availability;
mod makings;
mod networks;
mod new_ports;
mod port_policy;
mod port_request;
mod ports;
mod qos;
mod qos_rules;
mod quotas;
mod routers;
mod security_groups;
mod subnet_blocks;
mod subnet_pools;
mod subnets;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_qos;

use cellshift_store::Db;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::ServiceError;
pub use crate::records::network::ports::Wanted as PortFilter;
use crate::transaction::{TransactionError, Transactions};
pub use quotas::OPTIONS as QUOTA_OPTIONS;

use super::Port;
use super::limits::{Limits, RequestFormat};
use super::records::PortRecord;

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

    fn new_id(&self) -> Uuid {
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
        RequestFormat::Port => request.as_ref().and_then(port_request::in_old_form),
    }
}

fn absent(what: &str, id: impl std::fmt::Display) -> TransactionError {
    ServiceError::NotFound(format!("{what} {id} could not be found.")).into()
}

fn in_use(why: String) -> TransactionError {
    ServiceError::Conflict(why).into()
}
