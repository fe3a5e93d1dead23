//! Parses the body of `POST /servers`. The sibling modules look up the names in it.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use crate::domain::guest_secrets::InjectedFile;
use crate::domain::secret::Secret;
use crate::http::compute::answer::bad_request;
use crate::http::compute::servers::quota::MOST_AT_ONCE;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::http::schema::{as_bool, number};

/// A parsed body.
#[derive(Clone, Debug)]
pub struct NewServerRequest {
    pub name: String,
    pub description: Option<String>,
    pub hostname: Option<String>,
    pub flavor: String,
    /// Empty if the request names no image.
    pub image: String,
    pub admin_pass: Option<Secret<String>>,
    pub metadata: BTreeMap<String, String>,
    pub tags: Vec<String>,
    pub networks: Networks,
    pub block_devices: Vec<Value>,
    /// True if the block devices have the old form.
    pub legacy_block_devices: bool,
    pub key_name: Option<String>,
    pub user_data: Option<Secret<String>>,
    pub personality: Vec<InjectedFile>,
    pub config_drive: bool,
    pub zone: Zone,
    /// From 2.74: the host or hypervisor that the scheduler must choose.
    pub requested_host: Option<String>,
    pub requested_hypervisor: Option<String>,
    pub security_groups: Option<Vec<String>>,
    pub min_count: i64,
    pub max_count: i64,
    pub return_reservation_id: bool,
    pub auto_disk_config: bool,
    pub access_ip_v4: Option<String>,
    /// In its shortest form.
    pub access_ip_v6: Option<String>,
    pub trusted_certs: Option<Vec<String>>,
    pub scheduler_hints: BTreeMap<String, Value>,
}

/// The interfaces that a new server gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Networks {
    /// One interface on the project's only network.
    Auto,
    /// No interface.
    None,
    /// These interfaces.
    List(Vec<WantedNetwork>),
}

/// A requested interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedNetwork {
    pub network: Option<String>,
    pub port: Option<String>,
    pub fixed_ip: Option<String>,
    pub tag: Option<String>,
}

/// `availability_zone`, with which administrators can also force a host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Zone {
    pub name: Option<String>,
    pub host: Option<String>,
    pub node: Option<String>,
}

/// Parses a body that has passed its schema.
pub fn read(body: &Value, version: ApiVersion) -> Result<NewServerRequest, ApiError> {
    let server = &body["server"];
    let text = |key: &str| server[key].as_str().map(str::to_owned);
    let name = server["name"].as_str().unwrap_or_default().trim().to_owned();
    let (legacy, current) = (list(&server["block_device_mapping"]), list(&server["block_device_mapping_v2"]));
    if !legacy.is_empty() && !current.is_empty() {
        return Err(bad_request("Using different block_device_mapping syntaxes is not allowed in the same request."));
    }
    let min_count = number(&server["min_count"]).unwrap_or(1);
    let max_count = number(&server["max_count"]).unwrap_or(min_count);
    if min_count > max_count {
        return Err(bad_request("min_count must be <= max_count"));
    }
    if min_count > MOST_AT_ONCE {
        return Err(bad_request(format!("A request can create at most {MOST_AT_ONCE} servers: min_count is {min_count}.")));
    }
    Ok(NewServerRequest {
        description: if version.at_least(19) { text("description") } else { Some(name.clone()) },
        hostname: text("hostname"),
        flavor: id_of_reference(&server["flavorRef"]),
        image: server["imageRef"].as_str().unwrap_or_default().to_owned(),
        admin_pass: text("adminPass").map(Secret::new),
        metadata: strings(&server["metadata"]),
        tags: unique(texts(&server["tags"])),
        networks: networks(&server["networks"])?,
        legacy_block_devices: !legacy.is_empty(),
        block_devices: if legacy.is_empty() { current } else { legacy },
        key_name: text("key_name"),
        user_data: text("user_data").map(Secret::new),
        personality: InjectedFile::list(&server["personality"]),
        config_drive: as_bool(&server["config_drive"]),
        zone: zone(server["availability_zone"].as_str())?,
        requested_host: text("host"),
        requested_hypervisor: text("hypervisor_hostname"),
        security_groups: server["security_groups"]
            .as_array()
            .map(|groups| unique(groups.iter().filter_map(|group| group["name"].as_str().map(str::to_owned)).collect())),
        min_count,
        max_count,
        return_reservation_id: as_bool(&server["return_reservation_id"]),
        auto_disk_config: server["OS-DCF:diskConfig"].as_str() == Some("AUTO"),
        access_ip_v4: text("accessIPv4"),
        access_ip_v6: text("accessIPv6").map(|address| shortest_v6(&address)),
        trusted_certs: server["trusted_image_certificates"].as_array().map(|certs| texts(&json!(certs))),
        scheduler_hints: hints(body),
        name,
    })
}

/// Returns an IPv6 address in its shortest form.
pub fn shortest_v6(address: &str) -> String {
    address.parse::<std::net::Ipv6Addr>().map_or_else(|_| address.to_owned(), |parsed| parsed.to_string())
}

/// Returns the id in a reference: the reference itself, or the last part of a URL.
pub fn id_of_reference(reference: &Value) -> String {
    let text = reference.as_str().map_or_else(|| reference.to_string(), str::to_owned);
    let path = text.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().filter_map(|entry| entry.as_str().map(str::to_owned)).collect()
}

/// Removes duplicates and keeps the order.
fn unique(all: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::with_capacity(all.len());
    all.into_iter().filter(|entry| seen.insert(entry.clone())).collect()
}

/// Returns an object's text values.
pub fn strings(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn hints(body: &Value) -> BTreeMap<String, Value> {
    let given = body.get("os:scheduler_hints").or_else(|| body.get("OS-SCH-HNT:scheduler_hints"));
    given.and_then(Value::as_object).map(|hints| hints.clone().into_iter().collect()).unwrap_or_default()
}

fn networks(value: &Value) -> Result<Networks, ApiError> {
    match value {
        Value::String(word) if word == "none" => Ok(Networks::None),
        Value::Array(entries) if !entries.is_empty() => {
            let wanted: Result<Vec<WantedNetwork>, ApiError> = entries.iter().map(wanted_network).collect();
            let wanted = wanted?;
            let mut ports = HashSet::new();
            for port in wanted.iter().filter_map(|network| network.port.as_ref()) {
                if !ports.insert(port) {
                    return Err(bad_request(format!("Port ID '{port}' was specified twice: you cannot attach a port multiple times.")));
                }
            }
            Ok(Networks::List(wanted))
        }
        _ => Ok(Networks::Auto),
    }
}

fn wanted_network(entry: &Value) -> Result<WantedNetwork, ApiError> {
    let text = |key: &str| entry[key].as_str().map(str::to_owned);
    let mut wanted = WantedNetwork { network: text("uuid"), port: text("port"), fixed_ip: text("fixed_ip"), tag: text("tag") };
    match (&wanted.port, &wanted.fixed_ip) {
        (Some(port), Some(address)) => Err(bad_request(format!(
            "Specified Fixed IP '{address}' cannot be used with port '{port}': the two cannot be specified together."
        ))),
        (Some(_), None) => {
            // The port determines its network.
            wanted.network = None;
            Ok(wanted)
        }
        (None, _) => match &wanted.network {
            None => Err(bad_request("Bad network format: missing 'uuid'")),
            Some(id) if uuid::Uuid::parse_str(id).is_err() => {
                Err(bad_request(format!("Bad networks format: network uuid is not in proper format ({id})")))
            }
            Some(_) => Ok(wanted),
        },
    }
}

fn zone(text: Option<&str>) -> Result<Zone, ApiError> {
    let Some(text) = text else { return Ok(Zone::default()) };
    let mut parts = text.split(':').map(|part| Some(part.to_owned()).filter(|part| !part.is_empty()));
    let zone = Zone { name: parts.next().flatten(), host: parts.next().flatten(), node: parts.next().flatten() };
    match parts.next() {
        Some(_) => Err(bad_request("Unable to parse availability_zone: it may hold a zone, a host and a node, with colons between them.")),
        None => Ok(zone),
    }
}
