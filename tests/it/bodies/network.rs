//! The schemas of the network API's answers, which has no microversions.

use serde_json::{Value, json};

use super::Route;
use super::parts::{
    address, always_null, boolean, count, integer, list, mac_address, nothing, object, one_of, only, or_null, perhaps, plus, seconds, text,
    together, url, uuid,
};

/// The tables, each with the root of its routes.
pub static TABLES: [(&str, &[Route]); 2] = [("/network", ROOTS), ("/network/v2.0", ROUTES)];

static ROOTS: &[Route] = &[("GET", "", &[0], |_| only("versions", list(version())))];

static ROUTES: &[Route] = &[
    ("GET", "", &[0], |_| only("resources", list(collection()))),
    ("GET", "/extensions", &[0], |_| only("extensions", list(extension()))),
    ("GET", "/extensions/{}", &[0], |_| only("extension", extension())),
    ("GET", "/availability_zones", &[0], |_| page("availability_zones", text())),
    ("GET", "/service-providers", &[0], |_| page("service_providers", text())),
    ("GET", "/agents", &[0], |_| page("agents", agent())),
    ("GET", "/agents/{}", &[0], |_| only("agent", agent())),
    ("GET", "/networks", &[0], |_| page("networks", network())),
    ("POST", "/networks", &[0], |_| made("network", "networks", network())),
    ("GET", "/networks/{}", &[0], |_| only("network", network())),
    ("PUT", "/networks/{}", &[0], |_| only("network", network())),
    ("DELETE", "/networks/{}", &[0], nothing),
    ("GET", "/subnets", &[0], |_| page("subnets", subnet())),
    ("POST", "/subnets", &[0], |_| made("subnet", "subnets", subnet())),
    ("GET", "/subnets/{}", &[0], |_| only("subnet", subnet())),
    ("PUT", "/subnets/{}", &[0], |_| only("subnet", subnet())),
    ("DELETE", "/subnets/{}", &[0], nothing),
    ("GET", "/subnetpools", &[0], |_| page("subnetpools", subnet_pool())),
    ("POST", "/subnetpools", &[0], |_| made("subnetpool", "subnetpools", subnet_pool())),
    ("GET", "/subnetpools/{}", &[0], |_| only("subnetpool", subnet_pool())),
    ("PUT", "/subnetpools/{}", &[0], |_| only("subnetpool", subnet_pool())),
    ("DELETE", "/subnetpools/{}", &[0], nothing),
    ("GET", "/network-ip-availabilities", &[0], |_| only("network_ip_availabilities", list(ip_availability()))),
    ("GET", "/network-ip-availabilities/{}", &[0], |_| only("network_ip_availability", ip_availability())),
    ("GET", "/ports", &[0], |_| page("ports", port())),
    ("POST", "/ports", &[0], |_| made("port", "ports", port())),
    ("GET", "/ports/{}", &[0], |_| only("port", port())),
    ("PUT", "/ports/{}", &[0], |_| only("port", port())),
    ("DELETE", "/ports/{}", &[0], nothing),
    ("GET", "/ports/{}/bindings", &[0], |_| page("bindings", binding())),
    ("POST", "/ports/{}/bindings", &[0], |_| only("binding", binding())),
    ("GET", "/ports/{}/bindings/{}", &[0], |_| only("binding", binding())),
    ("PUT", "/ports/{}/bindings/{}", &[0], |_| only("binding", binding())),
    ("PUT", "/ports/{}/bindings/{}/activate", &[0], |_| only("binding", binding())),
    ("DELETE", "/ports/{}/bindings/{}", &[0], nothing),
    ("GET", "/routers", &[0], |_| page("routers", router())),
    ("POST", "/routers", &[0], |_| made("router", "routers", router())),
    ("GET", "/routers/{}", &[0], |_| only("router", router())),
    ("PUT", "/routers/{}", &[0], |_| only("router", router())),
    ("DELETE", "/routers/{}", &[0], nothing),
    ("PUT", "/routers/{}/add_router_interface", &[0], |_| router_interface()),
    ("PUT", "/routers/{}/remove_router_interface", &[0], |_| router_interface()),
    ("PUT", "/routers/{}/add_extraroutes", &[0], |_| only("router", router())),
    ("PUT", "/routers/{}/remove_extraroutes", &[0], |_| only("router", router())),
    ("GET", "/floatingips", &[0], |_| page("floatingips", floating_ip())),
    ("POST", "/floatingips", &[0], |_| made("floatingip", "floatingips", floating_ip())),
    ("GET", "/floatingips/{}", &[0], |_| only("floatingip", floating_ip())),
    ("PUT", "/floatingips/{}", &[0], |_| only("floatingip", floating_ip())),
    ("DELETE", "/floatingips/{}", &[0], nothing),
    ("GET", "/security-groups", &[0], |_| page("security_groups", security_group())),
    ("POST", "/security-groups", &[0], |_| made("security_group", "security_groups", security_group())),
    ("GET", "/security-groups/{}", &[0], |_| only("security_group", security_group())),
    ("PUT", "/security-groups/{}", &[0], |_| only("security_group", security_group())),
    ("DELETE", "/security-groups/{}", &[0], nothing),
    ("GET", "/security-group-rules", &[0], |_| page("security_group_rules", security_group_rule())),
    ("POST", "/security-group-rules", &[0], |_| made("security_group_rule", "security_group_rules", security_group_rule())),
    ("GET", "/security-group-rules/{}", &[0], |_| only("security_group_rule", security_group_rule())),
    ("DELETE", "/security-group-rules/{}", &[0], nothing),
    ("GET", "/qos/rule-types", &[0], |_| page("rule_types", only("type", one_of(&KINDS)))),
    ("GET", "/qos/policies", &[0], |_| page("policies", policy())),
    ("POST", "/qos/policies", &[0], |_| made("policy", "policies", policy())),
    ("GET", "/qos/policies/{}", &[0], |_| only("policy", policy())),
    ("PUT", "/qos/policies/{}", &[0], |_| only("policy", policy())),
    ("DELETE", "/qos/policies/{}", &[0], nothing),
    ("GET", "/qos/policies/{}/{}_rules", &[0], |_| rules()),
    ("POST", "/qos/policies/{}/{}_rules", &[0], |_| rule()),
    ("GET", "/qos/policies/{}/{}_rules/{}", &[0], |_| rule()),
    ("PUT", "/qos/policies/{}/{}_rules/{}", &[0], |_| rule()),
    ("DELETE", "/qos/policies/{}/{}_rules/{}", &[0], nothing),
    ("GET", "/{}/{}/tags", &[0], |_| only("tags", list(text()))),
    ("PUT", "/{}/{}/tags", &[0], |_| only("tags", list(text()))),
    ("DELETE", "/{}/{}/tags", &[0], nothing),
    ("GET", "/{}/{}/tags/{}", &[0], nothing),
    ("PUT", "/{}/{}/tags/{}", &[0], nothing),
    ("DELETE", "/{}/{}/tags/{}", &[0], nothing),
    ("GET", "/qos/{}/{}/tags", &[0], |_| only("tags", list(text()))),
    ("PUT", "/qos/{}/{}/tags", &[0], |_| only("tags", list(text()))),
    ("DELETE", "/qos/{}/{}/tags", &[0], nothing),
    ("GET", "/qos/{}/{}/tags/{}", &[0], nothing),
    ("PUT", "/qos/{}/{}/tags/{}", &[0], nothing),
    ("DELETE", "/qos/{}/{}/tags/{}", &[0], nothing),
    ("GET", "/quotas", &[0], |_| page("quotas", plus(quota(integer()), owner()))),
    ("GET", "/quotas/{}", &[0], |_| only("quota", quota(integer()))),
    ("PUT", "/quotas/{}", &[0], |_| only("quota", quota(integer()))),
    ("DELETE", "/quotas/{}", &[0], nothing),
    ("GET", "/quotas/{}/default", &[0], |_| only("quota", quota(integer()))),
    ("GET", "/quotas/{}/details", &[0], |_| only("quota", quota(used()))),
    ("GET", "/quotas/{}/details.json", &[0], |_| only("quota", quota(used()))),
];

/// The kinds of rules of a QoS policy.
const KINDS: [&str; 5] = ["bandwidth_limit", "minimum_bandwidth", "packet_rate_limit", "minimum_packet_rate", "dscp_marking"];

/// Describes a page of a list, with links to its neighbours.
fn page(name: &str, item: Value) -> Value {
    let link = object(json!({"rel": one_of(&["next", "previous"]), "href": url()}));
    perhaps(only(name, list(item)), json!({format!("{name}_links"): list(link)}))
}

/// Describes a new resource, or the new resources of a request for several.
fn made(one: &str, all: &str, item: Value) -> Value {
    json!({"type": "object", "oneOf": [only(one, item.clone()), only(all, list(item))]})
}

fn owner() -> Value {
    json!({"project_id": {"type": "string"}, "tenant_id": {"type": "string"}})
}

/// Describes the fields of all resources.
fn resource() -> Value {
    let fields = json!({"id": uuid(), "description": text(), "created_at": seconds(), "updated_at": seconds()});
    plus(object(fields), owner())
}

/// Describes a resource with a name and tags.
fn tagged() -> Value {
    plus(resource(), json!({"name": text(), "tags": list(text())}))
}

fn version() -> Value {
    let link = object(json!({"rel": one_of(&["self"]), "href": url()}));
    object(json!({"id": one_of(&["v2.0"]), "status": one_of(&["CURRENT"]), "links": list(link)}))
}

fn collection() -> Value {
    let link = object(json!({"rel": one_of(&["self"]), "href": url()}));
    object(json!({"name": text(), "collection": text(), "links": list(link)}))
}

fn extension() -> Value {
    object(json!({"alias": text(), "name": text(), "description": text(), "updated": text(), "links": list(text())}))
}

fn agent() -> Value {
    let moment = json!({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$"});
    object(json!({
        "id": uuid(), "agent_type": text(), "binary": text(), "host": text(), "topic": text(), "alive": boolean(), "admin_state_up": boolean(),
        "availability_zone": always_null(), "description": always_null(), "configurations": {"type": "object"},
        "resources_synced": or_null(boolean()), "created_at": moment, "started_at": moment, "heartbeat_timestamp": moment,
    }))
}

fn network() -> Value {
    let network = plus(
        tagged(),
        json!({
            "admin_state_up": boolean(), "status": one_of(&["ACTIVE"]), "shared": boolean(), "router:external": boolean(), "mtu": count(),
            "subnets": list(uuid()), "port_security_enabled": boolean(), "qos_policy_id": or_null(uuid()),
            "availability_zones": list(text()), "availability_zone_hints": list(text()), "ipv4_address_scope": always_null(),
            "ipv6_address_scope": always_null(),
        }),
    );
    // For administrators.
    together(
        network,
        json!({
            "provider:network_type": or_null(text()), "provider:physical_network": or_null(text()),
            "provider:segmentation_id": or_null(count()),
        }),
    )
}

fn subnet() -> Value {
    let pool = object(json!({"start": address(), "end": address()}));
    let route = object(json!({"destination": text(), "nexthop": address()}));
    let mode = or_null(one_of(&["slaac", "dhcpv6-stateful", "dhcpv6-stateless"]));
    plus(
        tagged(),
        json!({
            "network_id": uuid(), "ip_version": {"enum": [4, 6]}, "cidr": text(), "gateway_ip": or_null(text()), "enable_dhcp": boolean(),
            "allocation_pools": list(pool), "dns_nameservers": list(address()), "host_routes": list(route), "ipv6_address_mode": mode,
            "ipv6_ra_mode": mode, "segment_id": always_null(), "subnetpool_id": or_null(uuid()), "service_types": list(text()),
        }),
    )
}

fn subnet_pool() -> Value {
    let length = json!({"type": "string", "pattern": "^[0-9]{1,3}$"});
    plus(
        tagged(),
        json!({
            "ip_version": {"enum": [4, 6]}, "prefixes": list(text()), "default_prefixlen": length, "min_prefixlen": length,
            "max_prefixlen": length, "default_quota": or_null(count()), "shared": boolean(), "is_default": boolean(),
            "address_scope_id": always_null(),
        }),
    )
}

fn ip_availability() -> Value {
    let counts = json!({"total_ips": {"type": "integer", "minimum": 0}, "used_ips": count()});
    let subnet =
        plus(object(json!({"subnet_id": uuid(), "subnet_name": text(), "ip_version": {"enum": [4, 6]}, "cidr": text()})), counts.clone());
    let network = object(json!({"network_id": uuid(), "network_name": text(), "subnet_ip_availability": list(subnet)}));
    plus(plus(network, counts), owner())
}

fn fixed_ip() -> Value {
    object(json!({"subnet_id": uuid(), "ip_address": address()}))
}

fn vnic_type() -> Value {
    one_of(&[
        "normal",
        "direct",
        "macvtap",
        "direct-physical",
        "baremetal",
        "virtio-forwarder",
        "vdpa",
        "remote-managed",
        "smart-nic",
        "accelerator-direct",
        "accelerator-direct-physical",
    ])
}

fn port() -> Value {
    let pair = object(json!({"ip_address": text(), "mac_address": mac_address()}));
    let port = plus(
        tagged(),
        json!({
            "network_id": uuid(), "admin_state_up": boolean(), "status": one_of(&["ACTIVE", "DOWN", "BUILD", "ERROR"]),
            "mac_address": mac_address(), "fixed_ips": list(fixed_ip()), "device_id": text(), "device_owner": text(),
            "security_groups": list(uuid()), "allowed_address_pairs": list(pair), "extra_dhcp_opts": list(json!({"type": "object"})),
            "port_security_enabled": boolean(), "qos_policy_id": or_null(uuid()), "qos_network_policy_id": or_null(uuid()),
            "binding:vnic_type": vnic_type(), "revision_number": count(),
        }),
    );
    // For administrators and services.
    together(
        port,
        json!({
            "binding:host_id": text(), "binding:profile": {"type": "object"}, "binding:vif_type": text(),
            "binding:vif_details": {"type": "object"}, "resource_request": or_null(json!({"type": "object"})),
        }),
    )
}

fn binding() -> Value {
    object(json!({
        "host": text(), "status": one_of(&["ACTIVE", "INACTIVE"]), "profile": {"type": "object"}, "vif_type": text(),
        "vif_details": {"type": "object"}, "vnic_type": vnic_type(),
    }))
}

fn router() -> Value {
    let gateway = object(json!({"network_id": uuid(), "enable_snat": boolean(), "external_fixed_ips": list(fixed_ip())}));
    let route = object(json!({"destination": text(), "nexthop": address()}));
    let router = plus(
        tagged(),
        json!({
            "admin_state_up": boolean(), "status": one_of(&["ACTIVE"]), "external_gateway_info": or_null(gateway), "routes": list(route),
            "flavor_id": always_null(), "availability_zones": list(text()),
            "availability_zone_hints": list(text()), "revision_number": count(),
        }),
    );
    // For administrators.
    together(router, json!({"distributed": boolean(), "ha": boolean()}))
}

fn router_interface() -> Value {
    let fields = json!({"id": uuid(), "network_id": uuid(), "port_id": uuid(), "subnet_id": uuid(), "subnet_ids": list(uuid())});
    plus(object(fields), owner())
}

fn floating_ip() -> Value {
    let details = json!({"type": "object"});
    plus(
        resource(),
        json!({
            "tags": list(text()), "floating_network_id": uuid(), "floating_ip_address": address(), "fixed_ip_address": or_null(text()),
            "port_id": or_null(uuid()), "router_id": or_null(uuid()), "port_details": or_null(details),
            "status": one_of(&["ACTIVE", "DOWN", "ERROR"]), "revision_number": count(),
        }),
    )
}

fn security_group() -> Value {
    plus(tagged(), json!({"stateful": boolean(), "shared": boolean(), "security_group_rules": list(security_group_rule())}))
}

fn security_group_rule() -> Value {
    plus(
        resource(),
        json!({
            "security_group_id": uuid(), "direction": one_of(&["ingress", "egress"]), "ethertype": one_of(&["IPv4", "IPv6"]),
            "protocol": or_null(text()), "port_range_min": or_null(integer()), "port_range_max": or_null(integer()),
            "remote_ip_prefix": or_null(text()), "remote_group_id": or_null(uuid()), "remote_address_group_id": always_null(),
        }),
    )
}

fn policy() -> Value {
    let rule = perhaps(object(json!({"id": uuid(), "qos_policy_id": uuid(), "type": one_of(&KINDS)})), amounts());
    plus(tagged(), json!({"shared": boolean(), "is_default": boolean(), "rules": list(rule)}))
}

/// Describes what a rule may say.
fn amounts() -> Value {
    json!({
        "direction": one_of(&["ingress", "egress", "any"]), "max_kbps": count(), "max_burst_kbps": count(), "min_kbps": count(),
        "max_kpps": count(), "max_burst_kpps": count(), "min_kpps": count(), "dscp_mark": count(),
    })
}

fn plain_rule() -> Value {
    perhaps(only("id", uuid()), amounts())
}

fn rule() -> Value {
    json!({"type": "object", "oneOf": KINDS.map(|kind| only(&format!("{kind}_rule"), plain_rule()))})
}

fn rules() -> Value {
    json!({"type": "object", "oneOf": KINDS.map(|kind| page(&format!("{kind}_rules"), plain_rule()))})
}

/// Describes an amount for each resource with a quota.
fn quota(amount: Value) -> Value {
    let resources =
        ["floatingip", "network", "port", "rbac_policy", "router", "security_group", "security_group_rule", "subnet", "subnetpool"];
    object(resources.iter().map(|resource| (resource.to_string(), amount.clone())).collect())
}

fn used() -> Value {
    object(json!({"limit": integer(), "used": count(), "reserved": count()}))
}
