//! The floating IPs of servers' ports. They are read from the network service when a server is shown, so that they follow a server to any
//! host and cell, and a changed one is seen at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::ComputeApi;
use crate::cell_registry::ServerRecord;

impl ComputeApi {
    /// Returns the floating IPs of the servers' ports, by port. Servers are shown without them if the network service does not answer.
    pub(super) async fn floating_ips(&self, servers: &[Arc<ServerRecord>]) -> BTreeMap<Uuid, Vec<String>> {
        let ports: Vec<Uuid> = servers.iter().flat_map(|server| &server.network.0).map(|vif| vif.port_id).collect();
        if ports.is_empty() {
            return BTreeMap::new();
        }
        self.network.floating_ips_of(ports).await.unwrap_or_else(|error| {
            log::warn!("servers are shown without their floating IPs: {error}");
            BTreeMap::new()
        })
    }
}
