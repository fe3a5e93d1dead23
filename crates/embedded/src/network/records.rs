//! The network service's resources in its API's terms: serde uses the API's attribute names. A request is a map of attributes that is laid
//! over a resource and parsed, so that an error names the attribute of wrong type.

use cellshift_domain::reason;
use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{FixedIp, Port, ServiceError};
pub use cellshift_neighbours::network::Scope;

const PROJECT_ID_MAX: usize = 255;

/// The attributes of a request body.
pub type Attributes = serde_json::Map<String, Value>;

/// A network.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NetworkRecord {
    pub id: Uuid,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub admin_state_up: bool,
    pub shared: bool,
    #[serde(rename = "router:external")]
    pub external: bool,
    pub mtu: i32,
    #[serde(rename = "provider:network_type")]
    pub network_type: Option<String>,
    #[serde(rename = "provider:physical_network")]
    pub physical_network: Option<String>,
    #[serde(rename = "provider:segmentation_id")]
    pub segmentation_id: Option<i32>,
    pub qos_policy_id: Option<Uuid>,
    pub port_security_enabled: bool,
    pub tags: Vec<String>,
    /// The ids of its subnets, oldest first.
    pub subnets: Vec<Uuid>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// The first and last address of a range that ports get addresses from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocationPool {
    pub start: String,
    pub end: String,
}

/// A subnet.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SubnetRecord {
    pub id: Uuid,
    pub network_id: Uuid,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub ip_version: i32,
    pub cidr: String,
    /// The pool that the block was taken from.
    pub subnetpool_id: Option<Uuid>,
    pub gateway_ip: Option<String>,
    pub allocation_pools: Vec<AllocationPool>,
    pub dns_nameservers: Vec<String>,
    pub host_routes: Vec<Value>,
    pub enable_dhcp: bool,
    pub tags: Vec<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// A subnet pool: blocks that subnets are taken from.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SubnetPool {
    pub id: Uuid,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub ip_version: i32,
    /// In order, with neighbours joined.
    pub prefixes: Vec<String>,
    /// The prefix length of a subnet that names none.
    pub default_prefixlen: i32,
    pub min_prefixlen: i32,
    pub max_prefixlen: i32,
    /// The maximum size of a project's subnets: in addresses for IPv4, and in blocks with 64 bits for IPv6.
    pub default_quota: Option<i32>,
    pub shared: bool,
    /// True if subnets of the IP version that ask for the default pool are taken from this one.
    pub is_default: bool,
    pub tags: Vec<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// The addresses of a network's subnets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IpAvailability {
    pub network_id: Uuid,
    pub network_name: String,
    pub project_id: String,
    pub subnets: Vec<SubnetIps>,
}

/// The addresses of a subnet: those of its allocation pools, and those that ports have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SubnetIps {
    pub subnet_id: Uuid,
    pub subnet_name: String,
    pub ip_version: i32,
    pub cidr: String,
    pub total_ips: u128,
    pub used_ips: u64,
}

/// A port, with the fields that only its own API shows.
#[derive(Clone, PartialEq, Debug)]
pub struct PortRecord {
    pub port: Port,
    pub description: String,
    pub profile: Value,
    pub allowed_address_pairs: Vec<Value>,
    pub extra_dhcp_opts: Vec<Value>,
    pub port_security_enabled: bool,
    pub qos_policy_id: Option<Uuid>,
    pub qos_network_policy_id: Option<Uuid>,
    pub revision_number: i32,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// An address that a request names for a port: an exact one, or any in a subnet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
}

/// A router's connection to an external network.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GatewayInfo {
    pub network_id: Uuid,
    pub enable_snat: bool,
    pub external_fixed_ips: Vec<FixedIp>,
}

/// A router.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RouterRecord {
    pub id: Uuid,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub admin_state_up: bool,
    pub external_gateway_info: Option<GatewayInfo>,
    pub routes: Vec<Route>,
    pub tags: Vec<String>,
    pub revision_number: i32,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// A route of a router beside those to its own subnets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Route {
    pub destination: String,
    pub nexthop: String,
}

/// A floating IP.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FloatingIpRecord {
    pub id: Uuid,
    pub project_id: String,
    pub description: String,
    pub floating_network_id: Uuid,
    pub floating_ip_address: String,
    /// The port that it leads to.
    pub port_id: Option<Uuid>,
    pub fixed_ip_address: Option<String>,
    pub router_id: Option<Uuid>,
    pub tags: Vec<String>,
    pub revision_number: i32,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub port_details: Option<Port>,
}

/// A router's port on an internal network, as the API tells of it when it is added or removed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RouterInterface {
    /// The router's id.
    pub id: Uuid,
    pub project_id: String,
    pub port_id: Uuid,
    pub network_id: Uuid,
    pub subnet_id: Uuid,
    pub subnet_ids: Vec<Uuid>,
}

/// A security group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SecurityGroup {
    pub id: Uuid,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub stateful: bool,
    pub tags: Vec<String>,
    pub security_group_rules: Vec<SecurityGroupRule>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// A rule of a security group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SecurityGroupRule {
    pub id: Uuid,
    pub security_group_id: Uuid,
    pub project_id: String,
    /// `ingress` or `egress`.
    pub direction: String,
    /// `IPv4` or `IPv6`.
    pub ethertype: String,
    pub protocol: Option<String>,
    pub port_range_min: Option<i32>,
    pub port_range_max: Option<i32>,
    pub remote_ip_prefix: Option<String>,
    pub remote_group_id: Option<Uuid>,
    pub description: String,
    pub created_at: DateTime<Utc>,
}

/// A QoS policy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct QosPolicy {
    pub id: Uuid,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub shared: bool,
    pub is_default: bool,
    pub tags: Vec<String>,
    pub rules: Vec<QosRule>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// The kind of a QoS rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QosRuleKind {
    BandwidthLimit,
    MinimumBandwidth,
    PacketRateLimit,
    MinimumPacketRate,
    DscpMarking,
}

impl QosRuleKind {
    /// All kinds.
    pub const ALL: [QosRuleKind; 5] = [
        QosRuleKind::BandwidthLimit,
        QosRuleKind::MinimumBandwidth,
        QosRuleKind::PacketRateLimit,
        QosRuleKind::MinimumPacketRate,
        QosRuleKind::DscpMarking,
    ];

    /// Returns the API's name. The API's collection is this name and `_rules`.
    pub fn name(self) -> &'static str {
        match self {
            QosRuleKind::BandwidthLimit => "bandwidth_limit",
            QosRuleKind::MinimumBandwidth => "minimum_bandwidth",
            QosRuleKind::PacketRateLimit => "packet_rate_limit",
            QosRuleKind::MinimumPacketRate => "minimum_packet_rate",
            QosRuleKind::DscpMarking => "dscp_marking",
        }
    }

    /// Parses an API name.
    pub fn parse(name: &str) -> Option<QosRuleKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the attributes' names for the amount and, if the kind has one, the burst.
    pub fn attributes(self) -> (&'static str, Option<&'static str>) {
        match self {
            QosRuleKind::BandwidthLimit => ("max_kbps", Some("max_burst_kbps")),
            QosRuleKind::MinimumBandwidth => ("min_kbps", None),
            QosRuleKind::PacketRateLimit => ("max_kpps", Some("max_burst_kpps")),
            QosRuleKind::MinimumPacketRate => ("min_kpps", None),
            QosRuleKind::DscpMarking => ("dscp_mark", None),
        }
    }

    /// True if the API shows a direction. The mark is on what leaves a guest.
    pub fn has_direction(self) -> bool {
        self != QosRuleKind::DscpMarking
    }
}

/// A rule of a QoS policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct QosRule {
    pub id: Uuid,
    pub policy_id: Uuid,
    pub kind: QosRuleKind,
    /// `egress`, `ingress` or, for packet rates, `any`.
    pub direction: String,
    /// In kilobits or kilopackets per second, or a DSCP mark.
    pub amount: i64,
    pub burst: Option<i64>,
}

/// Lays `changes`, whose values have been checked, over `current`.
pub(super) fn patched<T: Serialize + DeserializeOwned>(current: &T, changes: &Attributes) -> Result<T, ServiceError> {
    let mut value = serde_json::to_value(current).map_err(|error| ServiceError::Invalid(reason!("{error}")))?;
    for (name, new) in changes {
        value[name.as_str()] = new.clone();
        // Each change is checked alone, so that the message can name the attribute.
        if let Err(error) = T::deserialize(&value) {
            return Err(ServiceError::Invalid(reason!("Invalid input for {name}. Reason: {error}.")));
        }
    }
    serde_json::from_value(value).map_err(|error| ServiceError::Invalid(reason!("{error}")))
}

/// Refuses a change of one of `names` by a caller who is no administrator.
pub(super) fn guard<T: Serialize>(scope: &Scope, before: &T, after: &T, names: &[&str]) -> Result<(), ServiceError> {
    if scope.admin {
        return Ok(());
    }
    let read = |thing: &T| serde_json::to_value(thing).map_err(|error| ServiceError::Invalid(reason!("{error}")));
    let (before, after) = (read(before)?, read(after)?);
    match names.iter().find(|name| before[**name] != after[**name]) {
        Some(name) => Err(ServiceError::Forbidden(reason!("Setting {name} is disallowed by policy"))),
        None => Ok(()),
    }
}

/// The names of the owner in a creation's attributes, the newer one first.
pub(super) const OWNER: [&str; 2] = ["project_id", "tenant_id"];

/// Takes the owner out of a creation's attributes: the caller's project, or another project if an administrator names it.
pub(super) fn take_owner(scope: &Scope, attributes: &mut Attributes) -> Result<String, ServiceError> {
    let owner = OWNER.map(|name| attributes.remove(name)).into_iter().flatten().next();
    match owner {
        None => Ok(scope.project_id.clone()),
        Some(Value::String(project)) if project.is_empty() || project.chars().count() > PROJECT_ID_MAX => {
            Err(ServiceError::Invalid(reason!("Invalid input for project_id. Reason: it has not 1 to {PROJECT_ID_MAX} characters.")))
        }
        Some(Value::String(project)) if project == scope.project_id || scope.admin => Ok(project),
        Some(Value::String(_)) => Err(ServiceError::Forbidden("Creating something for another project is disallowed by policy".into())),
        Some(other) => Err(ServiceError::Invalid(reason!("Invalid input for project_id: {other} is not a string."))),
    }
}

/// Takes an id that a creation must contain.
pub(super) fn take_id(attributes: &mut Attributes, name: &str) -> Result<Uuid, ServiceError> {
    match attributes.remove(name) {
        Some(Value::String(text)) => Uuid::parse_str(&text)
            .map_err(|_| ServiceError::Invalid(reason!("Invalid input for {name}. Reason: '{text}' is not a valid UUID."))),
        Some(other) => Err(ServiceError::Invalid(reason!("Invalid input for {name}: {other} is not a UUID."))),
        None => Err(ServiceError::Invalid(reason!("Failed to parse request. Required attribute '{name}' not specified"))),
    }
}
