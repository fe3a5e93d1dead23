//! A network service whose ports show their requests in the old form: one group, which has the port's id.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cellshift::domain::fence::Fence;
use cellshift::services::ServiceError;
use cellshift::services::network::{FixedIp, HostKey, Network, NetworkService, NewPort, Port, PortRefusal};
use cellshift_embedded::network::records::Scope;
use serde_json::{Value, json};
use uuid::Uuid;

/// The network service behind the old form.
pub struct OldForm(pub Arc<dyn NetworkService>);

/// Shows the only group of a request as older releases of Neutron do.
fn old(port: Port) -> Port {
    let only = |request: Value| match request["request_groups"].as_array().map(Vec::as_slice) {
        Some([only]) => json!({"resources": only["resources"], "required": only["required"]}),
        _ => panic!("the old form has one group: {request}"),
    };
    Port { resource_request: port.resource_request.map(only), ..port }
}

#[async_trait]
impl NetworkService for OldForm {
    async fn networks_for(&self, project_id: &str) -> Result<Vec<Network>, ServiceError> {
        self.0.networks_for(project_id).await
    }

    async fn network(&self, id: Uuid) -> Result<Network, ServiceError> {
        self.0.network(id).await
    }

    async fn port(&self, id: Uuid) -> Result<Port, ServiceError> {
        self.0.port(id).await.map(old)
    }

    async fn ports_of(&self, server: Uuid) -> Result<Vec<Port>, ServiceError> {
        Ok(self.0.ports_of(server).await?.into_iter().map(old).collect())
    }

    async fn holders(&self, ports: Vec<Uuid>) -> Result<BTreeMap<Uuid, Uuid>, ServiceError> {
        self.0.holders(ports).await
    }

    async fn floating_ips_of(&self, ports: Vec<Uuid>) -> Result<BTreeMap<Uuid, Vec<String>>, ServiceError> {
        self.0.floating_ips_of(ports).await
    }

    async fn floating_ip_with(&self, scope: Scope, address: String) -> Result<Option<(Uuid, Option<Uuid>)>, ServiceError> {
        self.0.floating_ip_with(scope, address).await
    }

    async fn lead_floating_ip(&self, scope: Scope, id: Uuid, to: Option<(Uuid, String)>) -> Result<(), ServiceError> {
        self.0.lead_floating_ip(scope, id, to).await
    }

    async fn choose_fixed_ip(&self, port: Uuid, subnet: Uuid) -> Result<FixedIp, ServiceError> {
        self.0.choose_fixed_ip(port, subnet).await
    }

    async fn add_fixed_ip(&self, fence: Fence, port: Uuid, fixed: FixedIp) -> Result<(), ServiceError> {
        self.0.add_fixed_ip(fence, port, fixed).await
    }

    async fn remove_fixed_ip(&self, fence: Fence, port: Uuid, fixed: FixedIp) -> Result<(), ServiceError> {
        self.0.remove_fixed_ip(fence, port, fixed).await
    }

    async fn security_group_names(&self, servers: Vec<Uuid>) -> Result<BTreeMap<Uuid, Vec<String>>, ServiceError> {
        self.0.security_group_names(servers).await
    }

    async fn security_groups_for(&self, project_id: &str) -> Result<Vec<(Uuid, String)>, ServiceError> {
        self.0.security_groups_for(project_id).await
    }

    async fn set_security_groups(&self, port: Uuid, groups: Vec<Uuid>) -> Result<(), ServiceError> {
        self.0.set_security_groups(port, groups).await
    }

    async fn room_for_ports(&self, project_id: &str) -> Result<Option<i64>, ServiceError> {
        self.0.room_for_ports(project_id).await
    }

    async fn refusal_of_ports(&self, network: Uuid, addresses: Vec<Option<String>>) -> Result<Option<PortRefusal>, ServiceError> {
        self.0.refusal_of_ports(network, addresses).await
    }

    async fn supports_extended_bindings(&self) -> Result<bool, ServiceError> {
        self.0.supports_extended_bindings().await
    }

    async fn create_port(&self, fence: Fence, port: NewPort) -> Result<Port, ServiceError> {
        self.0.create_port(fence, port).await.map(old)
    }

    async fn claim_port(&self, fence: Fence, port: Uuid) -> Result<Port, ServiceError> {
        self.0.claim_port(fence, port).await.map(old)
    }

    async fn release_port(&self, fence: Fence, port: Uuid) -> Result<(), ServiceError> {
        self.0.release_port(fence, port).await
    }

    async fn delete_port(&self, fence: Fence, port: Uuid) -> Result<(), ServiceError> {
        self.0.delete_port(fence, port).await
    }

    async fn create_binding(&self, fence: Fence, port: Uuid, host: &str, keys: HostKey) -> Result<(), ServiceError> {
        self.0.create_binding(fence, port, host, keys).await
    }

    async fn activate_binding(&self, fence: Fence, port: Uuid, host: &str) -> Result<(), ServiceError> {
        self.0.activate_binding(fence, port, host).await
    }

    async fn delete_binding(&self, fence: Fence, port: Uuid, host: &str) -> Result<(), ServiceError> {
        self.0.delete_binding(fence, port, host).await
    }

    async fn set_plugged(&self, port: Uuid, host: &str, plugged: bool) -> Result<(), ServiceError> {
        self.0.set_plugged(port, host, plugged).await
    }

    async fn ports_in_use(&self) -> Result<Vec<Port>, ServiceError> {
        Ok(self.0.ports_in_use().await?.into_iter().map(old).collect())
    }
}
