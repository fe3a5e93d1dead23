//! The API's view of a server, depending on microversion and rights.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha224};

use super::links;
use crate::cell_registry::{HostStatus, ServerRecord};
use crate::domain::block_device::BlockDevice;
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::instance_fault::InstanceFault;
use crate::domain::moment::{micros, seconds};
use crate::domain::network_info::NetworkInfo;
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::{VmState, api_status};
use crate::http::microversion::ApiVersion;

/// The answer that a view is for: some fields appear only in some answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// `GET /servers/{id}`.
    Show,
    /// An entry of `GET /servers/detail`.
    Detail,
    /// `PUT /servers/{id}`.
    Update,
    /// The action `rebuild`.
    Rebuild,
}

/// The fields that policy lets the caller see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Visible {
    /// `OS-EXT-SRV-ATTR:*`.
    pub extended_attributes: bool,
    /// Any `host_status`.
    pub host_status: bool,
    /// `host_status`, if it is UNKNOWN.
    pub host_status_unknown: bool,
    /// The extra specs of the embedded flavor.
    pub extra_specs: bool,
    /// A fault's details, for any code.
    pub fault_details: bool,
}

/// The parameters of a view beside the server.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// See [`crate::http::base_url::of`].
    pub base: &'a str,
    pub version: ApiVersion,
    pub visible: Visible,
    pub purpose: Purpose,
}

/// Additional records that only some microversions show.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// From 2.96.
    pub request_spec: Option<RequestSpec>,
    /// From 2.71, only for `GET /servers/{id}`.
    pub server_groups: Vec<uuid::Uuid>,
    /// From 2.16, for callers who may see it.
    pub host_status: Option<HostStatus>,
    /// The floating IPs of the ports.
    pub floating_ips: BTreeMap<uuid::Uuid, Vec<String>>,
}

/// Returns the short form of `GET /servers`.
pub fn brief(base: &str, instance: &Instance) -> Value {
    let id = instance.uuid.to_string();
    json!({"id": id, "name": instance.display_name, "links": links::of(base, "servers", &id)})
}

/// The fields of a view, written in this order. A list makes thousands of views: their keys are not copied, and no tree is built of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    /// Adds a field, which the view does not have yet.
    fn put(&mut self, key: &'static str, value: Value) {
        self.0.push((key, value));
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl From<Fields> for Value {
    fn from(Fields(fields): Fields) -> Value {
        Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }
}

/// Returns the long form.
pub fn detailed(frame: Frame<'_>, server: &ServerRecord, extras: &Extras) -> Fields {
    let mut view = core(frame, server, extras);
    let version = frame.version;
    // Answers to update and rebuild are complete only from 2.75 on.
    let whole = matches!(frame.purpose, Purpose::Show | Purpose::Detail) || version.at_least(75);
    let instance = &server.instance;
    if whole {
        add_states(&mut view, instance);
        view.put("config_drive", json!(if instance.config_drive { "True" } else { "" }));
        view.put("os-extended-volumes:volumes_attached", volumes_attached(version, &server.block_devices));
        if let Some(groups) = security_groups(server) {
            view.put("security_groups", groups);
        }
        if frame.visible.extended_attributes {
            add_extended_attributes(&mut view, frame, instance);
        }
        add_host_status(&mut view, frame, extras);
    }
    let keypair = whole || (frame.purpose == Purpose::Rebuild && version.at_least(54));
    if keypair {
        view.put("key_name", json!(instance.key_name));
    }
    add_dated(&mut view, frame, server, extras, whole);
    view
}

/// Returns the fields that all answers have in all versions.
fn core(frame: Frame<'_>, server: &ServerRecord, extras: &Extras) -> Fields {
    let instance = &server.instance;
    let id = instance.uuid.to_string();
    let status = status_of(instance);
    let with_mac = matches!(frame.purpose, Purpose::Show | Purpose::Detail) || frame.version.at_least(75);
    let mut view = Fields::default();
    let mut put = |key, value| view.put(key, value);
    put("id", json!(id));
    put("name", json!(instance.display_name));
    put("status", json!(status));
    put("tenant_id", json!(instance.project_id));
    put("user_id", json!(instance.user_id));
    put("metadata", json!(server.metadata));
    put("hostId", json!(host_id(&instance.project_id, instance.host.as_deref())));
    put("image", image(frame, instance));
    put("flavor", flavor(frame, &instance.flavor));
    put("created", json!(seconds(instance.created_at)));
    put("updated", json!(seconds(instance.updated_at.unwrap_or(instance.created_at))));
    let addresses = match instance.vm_state {
        VmState::Building => json!({}),
        _ => addresses(&server.network, &extras.floating_ips, with_mac),
    };
    put("addresses", addresses);
    put("accessIPv4", json!(instance.access_ip_v4.as_deref().unwrap_or_default()));
    put("accessIPv6", json!(instance.access_ip_v6.as_deref().unwrap_or_default()));
    put("links", links::of(frame.base, "servers", &id));
    put("OS-DCF:diskConfig", json!(disk_config(instance)));
    if ["ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"].contains(&status) {
        put("progress", json!(instance.progress));
    }
    if ["ERROR", "DELETED"].contains(&status)
        && let Some(fault) = &server.fault
    {
        put("fault", fault_view(fault, frame.visible.fault_details));
    }
    view
}

fn add_states(view: &mut Fields, instance: &Instance) {
    view.put("OS-EXT-AZ:availability_zone", json!(instance.availability_zone.as_deref().unwrap_or_default()));
    view.put("OS-EXT-STS:task_state", json!(instance.task_state.map(|state| state.as_str())));
    view.put("OS-EXT-STS:vm_state", json!(instance.vm_state.as_str()));
    view.put("OS-EXT-STS:power_state", json!(instance.power_state.code()));
    view.put("OS-SRV-USG:launched_at", json!(instance.launched_at.map(micros)));
    view.put("OS-SRV-USG:terminated_at", json!(instance.terminated_at.map(micros)));
}

fn add_extended_attributes(view: &mut Fields, frame: Frame<'_>, instance: &Instance) {
    let mut put = |key, value| view.put(key, value);
    put("OS-EXT-SRV-ATTR:host", json!(instance.host));
    put("OS-EXT-SRV-ATTR:hypervisor_hostname", json!(instance.node));
    put("OS-EXT-SRV-ATTR:instance_name", json!(instance.instance_name()));
    if frame.version.at_least(3) {
        // From 2.90 on all callers see it.
        if !frame.version.at_least(90) {
            put("OS-EXT-SRV-ATTR:hostname", json!(instance.hostname.as_deref().unwrap_or_default()));
        }
        put("OS-EXT-SRV-ATTR:launch_index", json!(instance.launch_index));
        put("OS-EXT-SRV-ATTR:reservation_id", json!(instance.reservation_id));
        put("OS-EXT-SRV-ATTR:root_device_name", json!(instance.root_device_name));
        put("OS-EXT-SRV-ATTR:kernel_id", json!(""));
        put("OS-EXT-SRV-ATTR:ramdisk_id", json!(""));
        // A rebuild's answer adds the user data separately.
        if frame.purpose != Purpose::Rebuild {
            put("OS-EXT-SRV-ATTR:user_data", json!(instance.user_data));
        }
    }
}

fn add_host_status(view: &mut Fields, frame: Frame<'_>, extras: &Extras) {
    let Some(status) = extras.host_status.filter(|_| frame.version.at_least(16)) else { return };
    let visible = frame.visible.host_status || (frame.visible.host_status_unknown && status == HostStatus::Unknown);
    if visible {
        view.put("host_status", json!(status.as_str()));
    }
}

/// Adds the fields that a microversion brought to all answers.
fn add_dated(view: &mut Fields, frame: Frame<'_>, server: &ServerRecord, extras: &Extras, whole: bool) {
    let (version, instance) = (frame.version, &server.instance);
    let spec = extras.request_spec.as_ref();
    let mut put = |since: u16, key: &'static str, value: &dyn Fn() -> Value| {
        if version.at_least(since) {
            view.put(key, value());
        }
    };
    put(9, "locked", &|| json!(instance.locked));
    put(19, "description", &|| json!(instance.display_description));
    put(26, "tags", &|| json!(server.tags));
    put(63, "trusted_image_certificates", &|| json!(instance.trusted_certs));
    if frame.purpose != Purpose::Detail {
        put(71, "server_groups", &|| json!(extras.server_groups));
    }
    put(73, "locked_reason", &|| json!(instance.locked_reason));
    put(90, "OS-EXT-SRV-ATTR:hostname", &|| json!(instance.hostname.as_deref().unwrap_or_default()));
    if whole {
        put(96, "pinned_availability_zone", &|| json!(spec.and_then(|spec| spec.availability_zone.as_deref())));
    }
    put(100, "scheduler_hints", &|| json!(spec.map(|spec| spec.scheduler_hints.clone()).unwrap_or_default()));
    if frame.purpose == Purpose::Rebuild {
        put(57, "user_data", &|| json!(instance.user_data));
    }
}

/// Returns the status that users see.
pub fn status_of(instance: &Instance) -> &'static str {
    if instance.deleted { "DELETED" } else { api_status(instance.vm_state, instance.task_state) }
}

/// Returns `AUTO` or `MANUAL`.
pub fn disk_config(instance: &Instance) -> &'static str {
    if instance.auto_disk_config { "AUTO" } else { "MANUAL" }
}

/// Returns a text that distinguishes a project's hosts without naming them; empty without a host.
pub fn host_id(project_id: &str, host: Option<&str>) -> String {
    let Some(host) = host else { return String::new() };
    hex::encode(Sha224::new().chain_update(project_id).chain_update(host).finalize())
}

fn image(frame: Frame<'_>, instance: &Instance) -> Value {
    if instance.image_ref.is_empty() {
        return json!("");
    }
    let mut image = json!({"id": instance.image_ref, "links": [links::bookmark(frame.base, "images", &instance.image_ref)]});
    if frame.version.at_least(98) {
        image["properties"] = image_properties(instance);
    }
    image
}

/// Returns the image properties that tell how to run a guest, as of creation.
fn image_properties(instance: &Instance) -> Value {
    let is_shown = |key: &str| ["hw_", "os_", "img_", "traits_required"].iter().any(|prefix| key.starts_with(prefix));
    let properties: BTreeMap<&str, &str> = instance
        .system_metadata
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("image_")?, value.as_str())))
        .filter(|(key, _)| is_shown(key))
        .collect();
    json!(properties)
}

fn flavor(frame: Frame<'_>, flavor: &Flavor) -> Value {
    if !frame.version.at_least(47) {
        return json!({"id": flavor.id, "links": [links::bookmark(frame.base, "flavors", &flavor.id)]});
    }
    embedded_flavor(flavor, frame.visible)
}

/// Returns the flavor for a server's view from 2.47 on.
pub fn embedded_flavor(flavor: &Flavor, visible: Visible) -> Value {
    let mut view = json!({
        "vcpus": flavor.vcpus,
        "ram": flavor.memory_mb,
        "disk": flavor.root_gb,
        "ephemeral": flavor.ephemeral_gb,
        "swap": flavor.swap_mb,
        "original_name": flavor.name,
    });
    if visible.extra_specs {
        view["extra_specs"] = json!(flavor.extra_specs);
    }
    view
}

/// Returns the addresses by network name: each port's fixed addresses, then its floating IPs.
pub fn addresses(network: &NetworkInfo, floating_ips: &BTreeMap<uuid::Uuid, Vec<String>>, with_mac: bool) -> Value {
    let mut by_network: Map<String, Value> = Map::new();
    for vif in &network.0 {
        let fixed = vif.fixed_ips.iter().map(|ip| (ip.version(), &ip.address, "fixed"));
        // Only IPv4 addresses float.
        let floating = floating_ips.get(&vif.port_id).into_iter().flatten().map(|address| (4, address, "floating"));
        let entries = fixed.chain(floating).map(|(version, address, kind)| {
            let mut entry = json!({"version": version, "addr": address});
            if with_mac {
                entry["OS-EXT-IPS:type"] = json!(kind);
                entry["OS-EXT-IPS-MAC:mac_addr"] = json!(vif.mac_address);
            }
            entry
        });
        if let Value::Array(list) = by_network.entry(vif.network_name.clone()).or_insert_with(|| json!([])) {
            list.extend(entries);
        }
    }
    Value::Object(by_network)
}

fn volumes_attached(version: ApiVersion, devices: &[BlockDevice]) -> Value {
    let volumes = devices.iter().filter_map(|device| {
        let mut volume = json!({"id": device.volume_id?});
        if version.at_least(3) {
            volume["delete_on_termination"] = json!(device.delete_on_termination);
        }
        Some(volume)
    });
    Value::Array(volumes.collect())
}

/// Returns the security groups; none for a server without interfaces or groups.
fn security_groups(server: &ServerRecord) -> Option<Value> {
    if server.network.0.is_empty() || server.instance.vm_state == VmState::Deleted {
        return None;
    }
    let groups: Vec<Value> = server.instance.security_groups.iter().map(|name| json!({"name": name})).collect();
    (!groups.is_empty()).then_some(Value::Array(groups))
}

fn fault_view(fault: &InstanceFault, all: bool) -> Value {
    let mut view = json!({"code": fault.code, "created": seconds(fault.created_at), "message": fault.message});
    if let Some(details) = fault.details.as_deref().filter(|details| !details.is_empty())
        && (all || fault.code != 500)
    {
        view["details"] = json!(details);
    }
    view
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use chrono::{DateTime, Utc};
    use uuid::Uuid;

    use super::*;
    use crate::domain::microversion::Microversion;

    #[test]
    fn each_field_is_written_once() {
        let instance = Instance::new(Uuid::nil(), "project", "user", "web", Flavor::default(), DateTime::<Utc>::UNIX_EPOCH);
        let server = ServerRecord {
            cell: Some("cell1".into()),
            instance,
            metadata: BTreeMap::new(),
            tags: Vec::new(),
            network: NetworkInfo::default(),
            block_devices: Vec::new(),
            fault: None,
        };
        let extras = Extras { host_status: Some(HostStatus::Up), ..Extras::default() };
        let visible =
            Visible { extended_attributes: true, host_status: true, host_status_unknown: true, extra_specs: true, fault_details: true };
        for minor in [1, 3, 16, 54, 75, 90, 100] {
            for purpose in [Purpose::Show, Purpose::Detail, Purpose::Update, Purpose::Rebuild] {
                let version = ApiVersion(Microversion::new(2, minor));
                let Fields(fields) = detailed(Frame { base: "http://x", version, visible, purpose }, &server, &extras);
                let keys: BTreeSet<&str> = fields.iter().map(|(key, _)| *key).collect();
                assert_eq!(keys.len(), fields.len(), "2.{minor} {purpose:?}: {fields:?}");
            }
        }
    }
}
