//! The seams of a cloud's parts, where an experiment's faults happen: between sagas and their steps, between sagas and hosts, and between
//! hosts and their drivers. A cloud without experiments is put together without them. The faults of databases and files are in
//! [`super::borders`], because these are opened before the parts.

use std::sync::Arc;

use super::drivers::FaultyDrivers;
use super::experiment::host_network::{HostNetwork, NetworkedHosts};
use super::point::FaultPoints;
use crate::actors::root::{Parts, Wrap};
use crate::virt::Hosts;

/// The faults at the seams of one cloud. They may be armed before the cloud starts, so that resumed operations meet them, too. Cheap to
/// clone.
#[derive(Clone)]
pub struct Seams {
    pub steps: FaultPoints,
    pub network: Arc<HostNetwork>,
    pub drivers: FaultyDrivers,
}

impl Seams {
    /// Makes seams whose messages pass this network.
    pub fn new(network: HostNetwork) -> Seams {
        Seams { steps: FaultPoints::default(), network: Arc::new(network), drivers: FaultyDrivers::default() }
    }

    /// Puts the faults between the parts, and lets the hosts make trials. The network comes before any present wrapper of the hosts.
    pub fn fit(&self, parts: &mut Parts) {
        parts.performers = Arc::new(self.steps.clone());
        parts.host_options.hosts.trials = true;
        parts.hypervisors = self.drivers.over(parts.hypervisors.clone());
        let (before, behind) = (self.network.clone(), parts.between.hosts.take());
        let wrap: Wrap<dyn Hosts> = Arc::new(move |hosts| {
            let inner = behind.as_ref().map_or_else(|| hosts.clone(), |behind| behind(hosts.clone()));
            Arc::new(NetworkedHosts { inner, network: before.clone() })
        });
        parts.between.hosts = Some(wrap);
    }
}
