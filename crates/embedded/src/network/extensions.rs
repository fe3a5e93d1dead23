//! Extensions. Clients read them before they use a feature.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use serde_json::{Value, json};

use super::EmbeddedNetwork;
use super::limits::RequestFormat;
use super::routes::{Call, error};

const EXTENDED_BINDINGS: &str = "binding-extended";
/// Ports show resource requests.
const REQUESTS: &str = "port-resource-request";
/// Ports show them as groups.
const REQUEST_GROUPS: &str = "port-resource-request-groups";

/// Alias, name and date of each extension.
const EXTENSIONS: &[(&str, &str, &str)] = &[
    ("agent", "agent", "2013-02-03T10:00:00-00:00"),
    ("allowed-address-pairs", "Allowed Address Pairs", "2013-07-23T10:00:00-00:00"),
    ("binding", "Port Binding", "2014-02-03T10:00:00-00:00"),
    (EXTENDED_BINDINGS, "Port Bindings Extended", "2017-07-17T10:00:00-00:00"),
    ("default-subnetpools", "Default Subnetpools", "2016-02-18T18:00:00-00:00"),
    ("external-net", "Neutron external network", "2013-01-14T10:00:00-00:00"),
    ("ext-gw-mode", "Neutron L3 Configurable external gateway mode", "2013-03-28T10:00:00-00:00"),
    ("extra_dhcp_opt", "Neutron Extra DHCP options", "2013-03-17T12:00:00-00:00"),
    ("extraroute", "Neutron Extra Route", "2013-02-01T10:00:00-00:00"),
    ("extraroute-atomic", "Atomically add/remove extra routes", "2019-07-10T00:00:00+00:00"),
    ("filter-validation", "Filter parameters validation", "2018-03-21T10:00:00-00:00"),
    ("fip-port-details", "Add Port Details to Floating IP", "2018-04-09T10:00:00-00:00"),
    ("net-mtu", "Network MTU", "2015-03-25T10:00:00-00:00"),
    ("network-ip-availability", "Network IP Availability", "2015-09-24T00:00:00-00:00"),
    ("pagination", "Pagination support", "2016-06-12T00:00:00-00:00"),
    (REQUESTS, "Port Resource Request", "2018-05-08T10:00:00-00:00"),
    (REQUEST_GROUPS, "Port Resource Request Groups", "2021-08-02T10:00:00-00:00"),
    ("port-security", "Port Security", "2012-07-23T10:00:00-00:00"),
    ("project-id", "project_id field enabled", "2016-09-09T09:09:09-09:09"),
    ("provider", "Provider Network", "2012-09-07T10:00:00-00:00"),
    ("qos", "Quality of Service", "2015-06-08T10:00:00-00:00"),
    ("qos-bw-limit-direction", "Direction for QoS bandwidth limit rule", "2017-04-10T10:00:00-00:00"),
    ("qos-bw-minimum-ingress", "Ingress direction for QoS minimum bandwidth rule", "2018-07-09T10:00:00-00:00"),
    ("qos-default", "QoS default policy", "2017-04-06T10:00:00-00:00"),
    ("qos-port-network-policy", "QoS port network policy ID", "2019-11-01T10:00:00-00:00"),
    ("qos-pps", "QoS Rule Type Packet per Second Extension", "2021-05-12T10:00:00-00:00"),
    ("qos-pps-minimum", "QoS minimum packet rate rule", "2021-07-14T10:00:00-00:00"),
    ("quotas", "Quota management support", "2012-07-29T10:00:00-00:00"),
    ("router", "Neutron L3 Router", "2012-07-20T10:00:00-00:00"),
    ("security-group", "security-group", "2012-10-05T10:00:00-00:00"),
    ("service-type", "Neutron Service Type Management", "2013-01-20T00:00:00-00:00"),
    ("sorting", "Sorting support", "2016-06-12T00:00:00-00:00"),
    ("standard-attr-description", "standard-attr-description", "2016-02-10T10:00:00-00:00"),
    ("standard-attr-tag", "Tag support for resources with standard attribute", "2017-01-01T00:00:00-00:00"),
    ("standard-attr-timestamp", "Resource timestamps", "2016-09-12T10:00:00-00:00"),
    ("subnet_allocation", "Subnet Allocation", "2015-03-30T10:00:00-00:00"),
];

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/extensions").route(web::get().to(list)))
        .service(web::resource("/network/v2.0/extensions/{alias}").route(web::get().to(show)));
}

async fn list(call: Call) -> HttpResponse {
    HttpResponse::Ok().json(json!({"extensions": supported(&call.service).collect::<Vec<_>>()}))
}

async fn show(call: Call, alias: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let absent = || error(StatusCode::NOT_FOUND, format!("Extension with alias {alias} does not exist"));
    let extension = supported(&call.service).find(|extension| extension["alias"] == alias.as_str()).ok_or_else(absent)?;
    Ok(HttpResponse::Ok().json(json!({"extension": extension})))
}

fn supported(service: &EmbeddedNetwork) -> impl Iterator<Item = Value> {
    let (extended, groups) = (service.has_extended_bindings(), service.request_format() == RequestFormat::Groups);
    EXTENSIONS
        .iter()
        .filter(move |(alias, ..)| extended || *alias != EXTENDED_BINDINGS)
        .filter(move |(alias, ..)| groups || *alias != REQUEST_GROUPS)
        .map(|(alias, name, updated)| json!({"alias": alias, "name": name, "description": name, "updated": updated, "links": []}))
}
