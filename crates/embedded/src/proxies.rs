//! The calls of the compute API's proxies on the embedded services: each is one call on the service, with a value of `cellshift-neighbours`
//! before or after it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use cellshift_neighbours::network::{Network, Scope};
use cellshift_neighbours::proxies::{
    FloatingIp, ImageProxy, ImageSelection, NetworkProxy, NewSecurityGroupRule, PropertyChange, SecurityGroup, SecurityGroupRule,
    VolumeProxy,
};
use serde_json::json;
use uuid::Uuid;

use crate::ServiceError;
use crate::image::{EmbeddedImage, Image, ImageFilter};
use crate::network::EmbeddedNetwork;
use crate::network::records::{self, Attributes, FloatingIpRecord, NetworkRecord};
use crate::volume::{EmbeddedVolume, NewSnapshot, NewVolume, Snapshot, Volume, ZONE};

#[async_trait]
impl ImageProxy for EmbeddedImage {
    async fn select_images(&self, caller: &RequestContext, selection: ImageSelection) -> Result<Vec<Image>, ServiceError> {
        let mut filter = ImageFilter { properties: selection.properties, ..ImageFilter::default() };
        filter.query.names = selection.name.map(|name| vec![name]);
        filter.query.statuses = selection.status.map(|status| vec![status]);
        self.list(caller, filter).await
    }

    async fn change_properties(&self, caller: &RequestContext, id: Uuid, change: PropertyChange) -> Result<Image, ServiceError> {
        let changing = self.update(caller, id, move |image| {
            match change {
                PropertyChange::Replace(properties) => image.properties = properties,
                PropertyChange::Merge(properties) => image.properties.extend(properties),
                PropertyChange::Remove(name) => drop(image.properties.remove(&name)),
            }
            Ok(())
        });
        changing.await
    }

    async fn delete_image_for(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        self.delete_own(caller, id).await
    }
}

#[async_trait]
impl VolumeProxy for EmbeddedVolume {
    async fn has_zone(&self, zone: &str) -> Result<bool, ServiceError> {
        Ok(zone == ZONE)
    }

    async fn volumes_of(&self, project: &str) -> Result<Vec<Volume>, ServiceError> {
        self.list(Some(project)).await
    }

    async fn visible_volume(&self, caller: &RequestContext, id: Uuid) -> Result<Volume, ServiceError> {
        self.own_volume(caller, id).await
    }

    async fn begin_volume(
        &self,
        volume: NewVolume,
        description: Option<String>,
        metadata: BTreeMap<String, String>,
    ) -> Result<Volume, ServiceError> {
        self.create(volume, description, metadata).await
    }

    async fn finish_volume(&self, volume: &NewVolume) -> Result<(), ServiceError> {
        self.make(volume).await
    }

    async fn delete_volume_for(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        self.delete_own(caller, id, false, false).await
    }

    async fn snapshots_of(&self, project: &str) -> Result<Vec<Snapshot>, ServiceError> {
        self.list_snapshots(Some(project)).await
    }

    async fn visible_snapshot(&self, caller: &RequestContext, id: Uuid) -> Result<Snapshot, ServiceError> {
        self.own_snapshot(caller, id).await
    }

    async fn begin_snapshot(&self, snapshot: NewSnapshot) -> Result<Snapshot, ServiceError> {
        self.new_snapshot(snapshot).await
    }

    async fn finish_snapshot(&self, id: Uuid) -> Result<(), ServiceError> {
        self.fill_snapshot(None, id).await
    }

    async fn delete_snapshot_for(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        self.delete_own_snapshot(caller, id, false).await
    }
}

#[async_trait]
impl NetworkProxy for EmbeddedNetwork {
    async fn usable_networks(&self, scope: Scope) -> Result<Vec<Network>, ServiceError> {
        Ok(self.networks(scope).await?.into_iter().map(network).collect())
    }

    async fn usable_network(&self, scope: Scope, id: Uuid) -> Result<Network, ServiceError> {
        Ok(network(self.network_record(scope, id).await?))
    }

    async fn visible_floating_ips(&self, scope: Scope) -> Result<Vec<FloatingIp>, ServiceError> {
        Ok(self.floating_ips(scope).await?.into_iter().map(floating_ip).collect())
    }

    async fn visible_floating_ip(&self, scope: Scope, id: Uuid) -> Result<FloatingIp, ServiceError> {
        Ok(floating_ip(self.floating_ip(scope, id).await?))
    }

    async fn take_floating_ip(&self, scope: Scope, network: Uuid) -> Result<FloatingIp, ServiceError> {
        let attributes = Attributes::from_iter([("floating_network_id".to_owned(), json!(network))]);
        Ok(floating_ip(self.create_floating_ip(scope, attributes).await?))
    }

    async fn release_floating_ip(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        self.delete_floating_ip(scope, id).await
    }

    async fn visible_security_groups(&self, scope: Scope) -> Result<Vec<SecurityGroup>, ServiceError> {
        Ok(self.security_groups(scope).await?.into_iter().map(security_group).collect())
    }

    async fn make_security_group(&self, scope: Scope, name: &str, description: &str) -> Result<SecurityGroup, ServiceError> {
        Ok(security_group(self.create_security_group(scope, described(name, description)).await?))
    }

    async fn rename_security_group(&self, scope: Scope, id: Uuid, name: &str, description: &str) -> Result<SecurityGroup, ServiceError> {
        Ok(security_group(self.update_security_group(scope, id, described(name, description)).await?))
    }

    async fn remove_security_group(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        self.delete_security_group(scope, id).await
    }

    async fn add_security_group_rule(&self, scope: Scope, rule: NewSecurityGroupRule) -> Result<SecurityGroupRule, ServiceError> {
        let mut attributes = Attributes::from_iter([
            ("security_group_id".to_owned(), json!(rule.security_group_id)),
            ("project_id".to_owned(), json!(rule.project_id)),
            ("direction".to_owned(), json!(INGRESS)),
            ("ethertype".to_owned(), json!(if rule.is_ipv6 { "IPv6" } else { "IPv4" })),
            ("remote_group_id".to_owned(), json!(rule.remote_group_id)),
            ("remote_ip_prefix".to_owned(), json!(rule.remote_ip_prefix)),
        ]);
        if let Some((protocol, lowest, highest)) = rule.protocol {
            attributes.insert("protocol".to_owned(), json!(protocol));
            attributes.insert("port_range_min".to_owned(), json!(lowest));
            attributes.insert("port_range_max".to_owned(), json!(highest));
        }
        Ok(security_group_rule(self.create_security_group_rule(scope, attributes).await?))
    }

    async fn remove_security_group_rule(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        self.delete_security_group_rule(scope, id).await
    }
}

/// The direction of a rule for incoming traffic.
const INGRESS: &str = "ingress";

fn network(record: NetworkRecord) -> Network {
    Network {
        id: record.id,
        name: record.name,
        project_id: record.project_id,
        shared: record.shared,
        external: record.external,
        port_security_enabled: record.port_security_enabled,
    }
}

fn floating_ip(record: FloatingIpRecord) -> FloatingIp {
    FloatingIp {
        id: record.id,
        project_id: record.project_id,
        network_id: record.floating_network_id,
        address: record.floating_ip_address,
        fixed_address: record.fixed_ip_address,
        device_id: record.port_details.map(|port| port.device_id).filter(|device| !device.is_empty()),
    }
}

fn security_group(record: records::SecurityGroup) -> SecurityGroup {
    SecurityGroup {
        id: record.id,
        name: record.name,
        description: record.description,
        project_id: record.project_id,
        rules: record.security_group_rules.into_iter().map(security_group_rule).collect(),
    }
}

fn security_group_rule(record: records::SecurityGroupRule) -> SecurityGroupRule {
    SecurityGroupRule {
        id: record.id,
        security_group_id: record.security_group_id,
        is_ingress: record.direction == INGRESS,
        protocol: record.protocol,
        port_range_min: record.port_range_min,
        port_range_max: record.port_range_max,
        remote_ip_prefix: record.remote_ip_prefix,
        remote_group_id: record.remote_group_id,
    }
}

fn described(name: &str, description: &str) -> Attributes {
    Attributes::from_iter([("name".to_owned(), json!(name)), ("description".to_owned(), json!(description))])
}
