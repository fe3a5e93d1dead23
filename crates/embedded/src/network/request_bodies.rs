//! The fields of the network API's request bodies, as the tables of attributes describe them.

use std::collections::BTreeSet;

use super::attributes::{self, Attribute};
use super::limits::Limits;
use super::records::{OWNER, QosRuleKind};

/// A kind of request that names attributes of a resource.
struct RequestBody {
    request: &'static str,
    /// The resource's name in the body; empty if the attributes stand alone.
    resource: &'static str,
    attributes: &'static [Attribute],
    /// The attributes that a creation takes before it looks into the table.
    beforehand: &'static [&'static str],
    creating: bool,
    /// The resources' name, if a request may make several.
    several: Option<&'static str>,
}

const fn creation(request: &'static str, resource: &'static str, attributes: &'static [Attribute]) -> RequestBody {
    RequestBody { request, resource, attributes, beforehand: &OWNER, creating: true, several: None }
}

const fn change(request: &'static str, resource: &'static str, attributes: &'static [Attribute]) -> RequestBody {
    RequestBody { request, resource, attributes, beforehand: &[], creating: false, several: None }
}

impl RequestBody {
    const fn several(self, name: &'static str) -> RequestBody {
        RequestBody { several: Some(name), ..self }
    }

    const fn taking(self, names: &'static [&'static str]) -> RequestBody {
        RequestBody { beforehand: names, ..self }
    }

    fn fields(&self) -> BTreeSet<String> {
        let paths = attributes::paths(self.attributes, self.creating).chain(self.beforehand.iter().map(|name| (*name).to_owned()));
        if self.resource.is_empty() {
            return paths.collect();
        }
        let below = paths.map(|name| format!("{}.{name}", self.resource));
        below.chain([self.resource.to_owned()]).chain(self.several.map(str::to_owned)).collect()
    }
}

static BODIES: [RequestBody; 23] = [
    creation("POST /networks", "network", attributes::NETWORK).several("networks"),
    change("PUT /networks/{}", "network", attributes::NETWORK),
    creation("POST /subnets", "subnet", attributes::SUBNET).several("subnets").taking(&["project_id", "tenant_id", "network_id"]),
    change("PUT /subnets/{}", "subnet", attributes::SUBNET),
    creation("POST /subnetpools", "subnetpool", attributes::SUBNET_POOL).several("subnetpools"),
    change("PUT /subnetpools/{}", "subnetpool", attributes::SUBNET_POOL),
    creation("POST /ports", "port", attributes::PORT).several("ports").taking(&["project_id", "tenant_id", "network_id"]),
    change("PUT /ports/{}", "port", attributes::PORT),
    creation("POST /ports/{}/bindings", "binding", attributes::BINDING).taking(&[]),
    change("PUT /ports/{}/bindings/{}", "binding", attributes::BINDING),
    creation("POST /routers", "router", attributes::ROUTER),
    change("PUT /routers/{}", "router", attributes::ROUTER),
    change("PUT /routers/{}/add_router_interface", "", attributes::ROUTER_INTERFACE),
    change("PUT /routers/{}/remove_router_interface", "", attributes::ROUTER_INTERFACE),
    change("PUT /routers/{}/add_extraroutes", "router", attributes::EXTRA_ROUTES),
    change("PUT /routers/{}/remove_extraroutes", "router", attributes::EXTRA_ROUTES),
    creation("POST /floatingips", "floatingip", attributes::FLOATING_IP).taking(&["project_id", "tenant_id", "floating_network_id"]),
    change("PUT /floatingips/{}", "floatingip", attributes::FLOATING_IP),
    creation("POST /security-groups", "security_group", attributes::SECURITY_GROUP),
    change("PUT /security-groups/{}", "security_group", attributes::SECURITY_GROUP),
    creation("POST /security-group-rules", "security_group_rule", attributes::SECURITY_GROUP_RULE).taking(&[
        "project_id",
        "tenant_id",
        "security_group_id",
    ]),
    creation("POST /qos/policies", "policy", attributes::QOS_POLICY_ITSELF),
    change("PUT /qos/policies/{}", "policy", attributes::QOS_POLICY_ITSELF),
];

/// Returns the fields of each request with a body.
pub fn all() -> Vec<(&'static str, BTreeSet<String>)> {
    let of_rules = ["POST /qos/policies/{}/{}_rules", "PUT /qos/policies/{}/{}_rules/{}"].map(|request| (request, fields_of_rules()));
    let described = BODIES.iter().map(|body| (body.request, body.fields()));
    described.chain(of_rules).chain([("PUT /quotas/{}", fields_of_quota())]).collect()
}

/// Returns the fields of QoS rules of all kinds.
fn fields_of_rules() -> BTreeSet<String> {
    let of_kind = |kind: QosRuleKind| {
        let ((amount, burst), resource) = (kind.attributes(), format!("{}_rule", kind.name()));
        let names = [Some(amount), burst, kind.has_direction().then_some("direction")].into_iter().flatten();
        let below: Vec<String> = names.map(|name| format!("{resource}.{name}")).collect();
        below.into_iter().chain([resource])
    };
    QosRuleKind::ALL.into_iter().flat_map(of_kind).collect()
}

fn fields_of_quota() -> BTreeSet<String> {
    let names = Limits::default().by_resource().into_keys().chain(super::QUOTA_OPTIONS.map(str::to_owned));
    names.map(|name| format!("quota.{name}")).chain(["quota".to_owned()]).collect()
}
