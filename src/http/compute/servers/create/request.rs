//! Reads a request for new servers out of the body of `POST /servers`. The sibling modules look up the names in it.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::body::{CreateBody, GroupName, NetworkEntries, NetworkEntry};
use super::device::{Device, LegacyDevice};

use crate::domain::guest_secrets::InjectedFile;
use crate::domain::secret::Secret;
use crate::http::compute::answer::bad_request;
use crate::http::compute::servers::quota::MOST_AT_ONCE;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// A request for new servers.
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
    pub block_devices: Vec<Device>,
    /// The block devices of a request that uses the old form. There are no others then.
    pub legacy_block_devices: Vec<LegacyDevice>,
    pub key_name: Option<String>,
    pub user_data: Option<Secret<String>>,
    pub personality: Vec<InjectedFile>,
    pub config_drive: bool,
    pub zone: Zone,
    /// From 2.74: the host or hypervisor that the scheduler must choose.
    pub requested_host: Option<String>,
    pub requested_hypervisor: Option<String>,
    pub security_groups: Option<Vec<String>>,
    /// The security groups as the client wrote them, for the answer.
    pub group_entries: Option<Vec<GroupName>>,
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
    /// An interface on the project's only network.
    Auto,
    /// No interface.
    None,
    /// These interfaces.
    List(Vec<NetworkDemand>),
}

/// A requested interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkDemand {
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

impl NewServerRequest {
    /// Reads a body that has passed its schema. 400 for values that do not fit together.
    pub fn new(body: CreateBody, version: ApiVersion) -> Result<NewServerRequest, ApiError> {
        let server = body.server;
        let name = server.name.trim().to_owned();
        if !server.block_device_mapping.is_empty() && !server.block_device_mapping_v2.is_empty() {
            return Err(bad_request("Using different block_device_mapping syntaxes is not allowed in the same request."));
        }
        let min_count = server.min_count.unwrap_or(1);
        let max_count = server.max_count.unwrap_or(min_count);
        if min_count > max_count {
            return Err(bad_request("min_count must be <= max_count"));
        }
        if min_count > MOST_AT_ONCE {
            return Err(bad_request(format!("A request can create at most {MOST_AT_ONCE} servers: min_count is {min_count}.")));
        }
        let group_names = |groups: &Vec<GroupName>| unique(groups.iter().filter_map(|group| group.name.clone()).collect());
        Ok(NewServerRequest {
            description: if version.at_least(19) { server.description } else { Some(name.clone()) },
            hostname: server.hostname,
            flavor: id_of_reference(&server.flavor),
            image: server.image,
            admin_pass: server.admin_pass.map(|text| text.0),
            metadata: server.metadata,
            tags: unique(server.tags),
            networks: networks(server.networks)?,
            block_devices: server.block_device_mapping_v2,
            legacy_block_devices: server.block_device_mapping,
            key_name: server.key_name,
            user_data: server.user_data.map(|text| text.0),
            personality: server.personality.into_iter().map(InjectedFile::from).collect(),
            config_drive: server.config_drive.0,
            zone: zone(server.availability_zone.as_deref())?,
            requested_host: server.host,
            requested_hypervisor: server.hypervisor_hostname,
            security_groups: server.security_groups.as_ref().map(group_names),
            group_entries: server.security_groups,
            min_count,
            max_count,
            return_reservation_id: server.return_reservation_id.0,
            auto_disk_config: server.disk_config.as_deref() == Some("AUTO"),
            access_ip_v4: server.access_ip_v4,
            access_ip_v6: server.access_ip_v6.map(|address| shortest_v6(&address)),
            trusted_certs: server.trusted_image_certificates,
            scheduler_hints: body.hints.or(body.old_hints).unwrap_or_default(),
            name,
        })
    }

    /// True if the request names block devices, in either form.
    pub fn names_devices(&self) -> bool {
        !self.block_devices.is_empty() || !self.legacy_block_devices.is_empty()
    }
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

/// Removes duplicates and keeps the order.
fn unique(all: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::with_capacity(all.len());
    all.into_iter().filter(|entry| seen.insert(entry.clone())).collect()
}

fn networks(entries: Option<NetworkEntries>) -> Result<Networks, ApiError> {
    match entries {
        Some(NetworkEntries::Word(word)) if word == "none" => Ok(Networks::None),
        Some(NetworkEntries::List(entries)) if !entries.is_empty() => {
            let demands = entries.into_iter().map(network).collect::<Result<Vec<NetworkDemand>, ApiError>>()?;
            let mut ports = HashSet::new();
            for port in demands.iter().filter_map(|network| network.port.as_ref()) {
                if !ports.insert(port) {
                    return Err(bad_request(format!("Port ID '{port}' was specified twice: you cannot attach a port multiple times.")));
                }
            }
            Ok(Networks::List(demands))
        }
        _ => Ok(Networks::Auto),
    }
}

fn network(entry: NetworkEntry) -> Result<NetworkDemand, ApiError> {
    let mut demand = NetworkDemand { network: entry.uuid, port: entry.port, fixed_ip: entry.fixed_ip, tag: entry.tag };
    match (&demand.port, &demand.fixed_ip) {
        (Some(port), Some(address)) => Err(bad_request(format!(
            "Specified Fixed IP '{address}' cannot be used with port '{port}': the two cannot be specified together."
        ))),
        (Some(_), None) => {
            // The port determines its network.
            demand.network = None;
            Ok(demand)
        }
        (None, _) => match &demand.network {
            None => Err(bad_request("Bad network format: missing 'uuid'")),
            Some(id) if uuid::Uuid::parse_str(id).is_err() => {
                Err(bad_request(format!("Bad networks format: network uuid is not in proper format ({id})")))
            }
            Some(_) => Ok(demand),
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
