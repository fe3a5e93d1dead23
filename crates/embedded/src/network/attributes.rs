//! The attributes that requests may set: a table per resource, with each attribute's form and whether it may be given at creation or at
//! change. Bodies are checked against the table first, so later code meets values of the right form and of bounded size.

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use serde_json::Value;

use super::records::Attributes;
use super::values::{self, Checked, Keys};
use crate::ServiceError;

/// The maximum length of a name, a description or another text of one line.
const TEXT_MAX: usize = 255;
const MTU_MIN: i64 = 68;
const MTU_MAX: i64 = 9000;

/// The form of a value.
enum Form {
    /// Text with at most this many characters.
    Text(usize),
    /// Text that is not blank.
    Name,
    Flag,
    /// A number in this range, or its digits as text.
    Number(i64, i64),
    Id,
    OneOf(&'static [&'static str]),
    /// Null only: the attribute of an extension that this service lacks.
    Nothing,
    Other(fn(&Value) -> Checked),
}

/// An attribute that requests may set.
pub(super) struct Attribute {
    name: &'static str,
    form: Form,
    or_null: bool,
    changeable: bool,
    /// The keys of the value's objects.
    keys: &'static [&'static Keys],
}

const fn attribute(name: &'static str, form: Form) -> Attribute {
    Attribute { name, form, or_null: false, changeable: true, keys: &[] }
}

impl Attribute {
    const fn or_null(self) -> Attribute {
        Attribute { or_null: true, ..self }
    }

    const fn at_creation(self) -> Attribute {
        Attribute { changeable: false, ..self }
    }

    /// Names the keys that the form's check admits, for the list of all fields.
    const fn with(self, keys: &'static [&'static Keys]) -> Attribute {
        Attribute { keys, ..self }
    }

    /// Returns the attribute's name and, after a dot, the keys of its objects.
    fn paths(&self) -> impl Iterator<Item = String> {
        let keys = self.keys.iter().flat_map(|keys| keys.all()).map(|key| format!("{}.{key}", self.name));
        std::iter::once(self.name.to_owned()).chain(keys)
    }

    fn check(&self, value: &Value) -> Checked {
        match &self.form {
            _ if value.is_null() && self.or_null => Ok(Value::Null),
            Form::Text(most) => values::text(value, *most),
            Form::Name => values::name(value, TEXT_MAX),
            Form::Flag => values::flag(value),
            Form::Number(least, most) => values::number(value, *least, *most),
            Form::Id => values::id(value),
            Form::OneOf(options) => values::one_of(value, options),
            Form::Nothing => Err(format!("'{value}' is not supported here")),
            Form::Other(check) => check(value),
        }
    }
}

const NAME: Attribute = attribute("name", Form::Name);
const DESCRIPTION: Attribute = attribute("description", Form::Text(TEXT_MAX));
const ADMIN_STATE_UP: Attribute = attribute("admin_state_up", Form::Flag);
const TAGS: Attribute = attribute("tags", Form::Other(values::tags));
const PORT_SECURITY: Attribute = attribute("port_security_enabled", Form::Flag);
const QOS_POLICY: Attribute = attribute("qos_policy_id", Form::Id).or_null();
const NETWORK_TYPES: &[&str] = &["local", "flat", "vlan", "vxlan", "gre", "geneve"];
const VNIC_TYPES: &[&str] =
    &["normal", "direct", "macvtap", "direct-physical", "baremetal", "virtio-forwarder", "smart-nic", "vdpa", "remote-managed"];

pub(super) const NETWORK: &[Attribute] = &[
    NAME,
    DESCRIPTION,
    ADMIN_STATE_UP,
    attribute("shared", Form::Flag),
    attribute("router:external", Form::Flag),
    attribute("mtu", Form::Other(mtu)),
    QOS_POLICY,
    PORT_SECURITY,
    TAGS,
    attribute("provider:network_type", Form::OneOf(NETWORK_TYPES)).or_null().at_creation(),
    attribute("provider:physical_network", Form::Text(64)).or_null().at_creation(),
    attribute("provider:segmentation_id", Form::Number(0, 0xff_ffff)).or_null().at_creation(),
];

pub(super) const SUBNET: &[Attribute] = &[
    NAME,
    DESCRIPTION,
    attribute("gateway_ip", Form::Other(values::address)).or_null(),
    attribute("allocation_pools", Form::Other(values::pools)).with(&[&values::POOL]),
    attribute("dns_nameservers", Form::Other(values::nameservers)),
    attribute("host_routes", Form::Other(values::host_routes)).with(&[&values::ROUTE]),
    attribute("enable_dhcp", Form::Flag),
    TAGS,
    attribute("cidr", Form::Other(values::block)).or_null().at_creation(),
    attribute("ip_version", Form::Other(values::ip_version)).at_creation(),
    attribute("prefixlen", Form::Number(0, 128)).or_null().at_creation(),
    attribute("subnetpool_id", Form::Id).or_null().at_creation(),
    attribute("use_default_subnetpool", Form::Flag).at_creation(),
    // openstack clients send this attribute unasked.
    attribute("segment_id", Form::Nothing).or_null().at_creation(),
];

pub(super) const SUBNET_POOL: &[Attribute] = &[
    attribute("name", Form::Other(values::some_name)),
    DESCRIPTION,
    attribute("prefixes", Form::Other(values::prefixes)),
    attribute("default_prefixlen", Form::Number(0, 128)),
    attribute("min_prefixlen", Form::Number(0, 128)),
    attribute("max_prefixlen", Form::Number(0, 128)),
    attribute("default_quota", Form::Number(0, i32::MAX as i64)).or_null(),
    attribute("shared", Form::Flag).at_creation(),
    attribute("is_default", Form::Flag),
    // There are no address scopes.
    attribute("address_scope_id", Form::Nothing).or_null(),
    TAGS,
];

pub(super) const ROUTER: &[Attribute] = &[
    NAME,
    DESCRIPTION,
    ADMIN_STATE_UP,
    attribute("external_gateway_info", Form::Other(values::gateway)).or_null().with(&[&values::GATEWAY]),
    attribute("routes", Form::Other(values::router_routes)).with(&[&values::ROUTE]),
    attribute("availability_zone_hints", Form::Other(values::zone_hints)).at_creation(),
    TAGS,
];

pub(super) const FLOATING_IP: &[Attribute] = &[
    DESCRIPTION,
    attribute("floating_ip_address", Form::Other(values::address)).or_null().at_creation(),
    attribute("subnet_id", Form::Id).or_null().at_creation(),
    attribute("port_id", Form::Id).or_null(),
    attribute("fixed_ip_address", Form::Other(values::address)).or_null(),
    attribute("qos_policy_id", Form::Nothing).or_null(),
    TAGS,
];

/// The subnet or the port of a router's interface.
pub(super) const ROUTER_INTERFACE: &[Attribute] = &[attribute("port_id", Form::Id), attribute("subnet_id", Form::Id)];

/// Routes to add to a router's own, or to take from them.
pub(super) const EXTRA_ROUTES: &[Attribute] = &[attribute("routes", Form::Other(values::router_routes)).with(&[&values::ROUTE])];

pub(super) const PORT: &[Attribute] = &[
    NAME,
    DESCRIPTION,
    ADMIN_STATE_UP,
    attribute("device_id", Form::Text(TEXT_MAX)),
    attribute("device_owner", Form::Text(TEXT_MAX)),
    attribute("mac_address", Form::Other(values::mac)),
    attribute("fixed_ips", Form::Other(values::fixed_ips)).with(&[&values::FIXED_IP]),
    attribute("security_groups", Form::Other(values::security_groups)),
    attribute("allowed_address_pairs", Form::Other(values::address_pairs)).with(&[&values::ADDRESS_PAIR]),
    attribute("extra_dhcp_opts", Form::Other(values::dhcp_options)).or_null().with(&[&values::DHCP_OPTION]),
    PORT_SECURITY,
    QOS_POLICY,
    TAGS,
    attribute("binding:host_id", Form::Text(TEXT_MAX)).or_null(),
    attribute("binding:vnic_type", Form::OneOf(VNIC_TYPES)),
    attribute("binding:profile", Form::Other(values::profile)).or_null(),
];

/// A binding to a host. When a binding is changed, its path names the host.
pub(super) const BINDING: &[Attribute] = &[
    attribute("host", Form::Name).at_creation(),
    attribute("vnic_type", Form::OneOf(VNIC_TYPES)),
    attribute("profile", Form::Other(values::profile)).or_null(),
    attribute("project_id", Form::Text(TEXT_MAX)).at_creation(),
];

pub(super) const SECURITY_GROUP: &[Attribute] = &[NAME, DESCRIPTION, attribute("stateful", Form::Flag), TAGS];

pub(super) const SECURITY_GROUP_RULE: &[Attribute] = &[
    attribute("direction", Form::OneOf(&["ingress", "egress"])),
    attribute("ethertype", Form::Other(values::ethertype)).or_null(),
    attribute("protocol", Form::Other(values::protocol)).or_null(),
    attribute("port_range_min", Form::Other(values::port_number)).or_null(),
    attribute("port_range_max", Form::Other(values::port_number)).or_null(),
    attribute("remote_ip_prefix", Form::Other(values::prefix)).or_null(),
    attribute("remote_group_id", Form::Other(values::id_or_empty)).or_null(),
    attribute("remote_address_group_id", Form::Nothing).or_null(),
    DESCRIPTION.or_null(),
];

pub(super) const QOS_POLICY_ITSELF: &[Attribute] =
    &[NAME, DESCRIPTION, attribute("shared", Form::Flag), attribute("is_default", Form::Flag), TAGS];

pub(super) const QOS_RULE: &[Attribute] = &[
    attribute("direction", Form::OneOf(&["egress", "ingress", "any"])),
    attribute("amount", Form::Number(0, i32::MAX as i64)),
    attribute("burst", Form::Number(0, i32::MAX as i64)).or_null(),
];

/// Returns the paths of the attributes that a request may name, at creation or at a change.
pub(super) fn paths(of: &'static [Attribute], creating: bool) -> impl Iterator<Item = String> {
    of.iter().filter(move |attribute| creating || attribute.changeable).flat_map(Attribute::paths)
}

/// Returns the request's attributes in their stored form. Invalid, with the attribute's name, if the resource does not have the attribute,
/// if it cannot be set now, or if its value has the wrong form.
pub(super) fn checked(of: &[Attribute], attributes: Attributes, creating: bool) -> Result<Attributes, ServiceError> {
    let invalid = |why: Reason| Err(ServiceError::Invalid(why));
    let mut checked = Attributes::new();
    for (name, value) in attributes {
        let Some(attribute) = of.iter().find(|attribute| attribute.name == name) else {
            return invalid(reason!("Unrecognized attribute(s) '{}'", values::shortened(&name)));
        };
        if !creating && !attribute.changeable {
            return invalid(reason!("Cannot update read-only attribute {name}"));
        }
        match attribute.check(&value) {
            Ok(value) => checked.insert(name, value),
            Err(why) => return invalid(reason!("Invalid input for {name}. Reason: {why}.")),
        };
    }
    Ok(checked)
}

/// 0 means the service's default.
fn mtu(value: &Value) -> Checked {
    match values::number(value, 0, i64::from(i32::MAX))?.as_i64() {
        Some(0) => Ok(Value::from(super::DEFAULT_MTU)),
        Some(mtu) if mtu > MTU_MAX => Err(format!("Requested MTU is too big, maximum is {MTU_MAX}")),
        Some(mtu) if mtu < MTU_MIN => Err(format!("'{mtu}' is too small, the least that IPv4 needs is {MTU_MIN}")),
        _ => values::number(value, MTU_MIN, MTU_MAX),
    }
}
