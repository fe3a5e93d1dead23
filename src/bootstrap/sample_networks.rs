//! The default cloud's networks: `private`, on which every project has its servers, and `public`, from which floating IPs come. A router joins
//! them. What leads outside belongs to a project without users, because a project's own external network would be one that its servers could
//! be meant for when a request names none.

use cellshift_embedded::network::records::{Attributes, Scope};
use cellshift_embedded::network::{EmbeddedNetwork, PortFilter};
use serde_json::{Value, json};
use uuid::Uuid;

use super::BootstrapError;

/// Makes what is missing: the first start may have been interrupted.
pub(super) async fn make(network: &EmbeddedNetwork, project: &str, outside: &str) -> Result<(), BootstrapError> {
    let (cloud, outside) = (Sample { network, scope: Scope::admin(project) }, Sample { network, scope: Scope::admin(outside) });
    let private = json!({
        "name": "private",
        "shared": true,
        "provider:network_type": "flat",
        "provider:physical_network": "physnet0",
    });
    let public = json!({
        "name": "public",
        "router:external": true,
        "provider:network_type": "flat",
        "provider:physical_network": "public",
    });
    let (private, public) = (cloud.network("private", private).await?, outside.network("public", public).await?);
    let inside = cloud.subnet(private, json!({"name": "private-subnet", "cidr": "10.1.0.0/20"})).await?;
    outside.subnet(public, json!({"name": "public-subnet", "cidr": "172.24.4.0/24", "enable_dhcp": false})).await?;
    let router = outside.router(json!({"name": "router1", "external_gateway_info": {"network_id": public}})).await?;
    outside.interface(router, inside).await
}

struct Sample<'a> {
    network: &'a EmbeddedNetwork,
    scope: Scope,
}

impl Sample<'_> {
    async fn network(&self, name: &str, body: Value) -> Result<Uuid, BootstrapError> {
        match self.network.networks(self.scope.clone()).await?.into_iter().find(|present| present.name == name) {
            Some(present) => Ok(present.id),
            None => Ok(self.network.create_network(self.scope.clone(), attributes(body)).await?.id),
        }
    }

    async fn subnet(&self, network: Uuid, mut body: Value) -> Result<Uuid, BootstrapError> {
        if let Some(present) = self.network.subnets(self.scope.clone()).await?.into_iter().find(|present| present.network_id == network) {
            return Ok(present.id);
        }
        (body["network_id"], body["ip_version"]) = (json!(network), json!(4));
        Ok(self.network.create_subnet(self.scope.clone(), attributes(body)).await?.id)
    }

    async fn router(&self, body: Value) -> Result<Uuid, BootstrapError> {
        match self.network.routers(self.scope.clone()).await?.first() {
            Some(present) => Ok(present.id),
            None => Ok(self.network.create_router(self.scope.clone(), attributes(body)).await?.id),
        }
    }

    async fn interface(&self, router: Uuid, subnet: Uuid) -> Result<(), BootstrapError> {
        let of_router = PortFilter { device_id: Some(router.to_string()), ..PortFilter::default() };
        let ports = self.network.ports(self.scope.clone(), of_router).await?;
        if !ports.iter().any(|record| record.port.fixed_ips.iter().any(|ip| ip.subnet_id == subnet)) {
            self.network.add_interface(self.scope.clone(), router, attributes(json!({"subnet_id": subnet}))).await?;
        }
        Ok(())
    }
}

fn attributes(value: Value) -> Attributes {
    match value {
        Value::Object(attributes) => attributes,
        _ => Attributes::new(),
    }
}
