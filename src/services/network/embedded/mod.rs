//! The network service over the services database, one file per subject. Sagas and hosts use `effects`, under fences; the API uses the
//! other files.

mod addresses;
mod assemble;
mod bindings;
mod effects;
mod networks;
mod port_policy;
mod ports;
mod qos;
mod quotas;
mod security_groups;
mod subnets;
#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::db::Db;
pub use crate::db::services::network::ports::Wanted as PortFilter;
use crate::services::ServiceError;
use crate::services::transaction::{TransactionError, Transactions};
pub use quotas::EXCEEDED as QUOTA_EXCEEDED;

use super::limits::Limits;

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

    fn now(&self) -> DateTime<Utc> {
        self.db.env().now()
    }

    fn new_id(&self) -> Uuid {
        self.db.env().uuid()
    }
}

fn absent(what: &str, id: impl std::fmt::Display) -> TransactionError {
    ServiceError::NotFound(format!("{what} {id} could not be found.")).into()
}

fn in_use(why: String) -> TransactionError {
    ServiceError::Conflict(why).into()
}
