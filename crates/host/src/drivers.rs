//! Opens the drivers of hosts.

use std::sync::Arc;

use cellshift_env::Env;
use uuid::Uuid;

use crate::belonging;
use crate::site::HostPlace;
use crate::virt::files::Durability;
use crate::virt::simulated::Simulated;
use crate::virt::{Hypervisor, VirtError};

/// Opens drivers for hosts.
pub type HypervisorFactory = Arc<dyn Fn(&HostPlace, &Env) -> Result<Arc<dyn Hypervisor>, VirtError> + Send + Sync>;

/// Makes simulated guests below the host's directory.
pub fn simulated_hypervisors() -> HypervisorFactory {
    Arc::new(|place, env| Ok(Arc::new(Simulated::open(&place.guests_dir(), Durability::of(env))?)))
}

/// Wraps a factory of drivers: the directory of another deployment gets none.
pub fn of_deployment(deployment: Uuid, inner: HypervisorFactory) -> HypervisorFactory {
    Arc::new(move |place, env| {
        belonging::take(place, deployment, Durability::of(env))?;
        inner(place, env)
    })
}
