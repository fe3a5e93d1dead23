//! The interfaces of a new server: looks up and checks the networks and ports of the request.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::request::{NetworkDemand, Networks};
use crate::domain::context::RequestContext;
use crate::domain::policy::Target;
use crate::env::Env;
use crate::http::compute::answer::{bad_request, conflict, forbidden};
use crate::http::compute::servers::{ComputeApi, new_ports};
use crate::http::error::{ApiError, ErrorForm};
use crate::http::microversion::ApiVersion;
use crate::saga::context::RequestedNetwork;
use crate::services::ServiceError;
use crate::services::network::{GROUPS_NEED_SECURITY, Network, NetworkService, Port};

/// The checked interfaces of a request.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Interfaces {
    pub list: Vec<Interface>,
    /// True if a port requests bandwidth.
    pub has_resource_request: bool,
    /// The security groups of the ports to make.
    pub security_groups: Vec<Uuid>,
}

/// An interface.
#[derive(Clone, PartialEq, Debug)]
pub struct Interface {
    pub port: InterfacePort,
    pub tag: Option<String>,
}

/// The port of an interface.
#[derive(Clone, PartialEq, Debug)]
pub enum InterfacePort {
    Existing(Uuid),
    /// A port to make on this network, with this address or any.
    New {
        network: Uuid,
        fixed_ip: Option<String>,
    },
}

impl Interface {
    /// Returns the network and the address of a port to make.
    fn new_port(&self) -> Option<(Uuid, &Option<String>)> {
        match &self.port {
            InterfacePort::Existing(_) => None,
            InterfacePort::New { network, fixed_ip } => Some((*network, fixed_ip)),
        }
    }

    fn for_server(&self, env: &Env, security_groups: &[Uuid]) -> RequestedNetwork {
        let (port_id, network_id, fixed_ip) = match &self.port {
            InterfacePort::Existing(port) => (*port, None, None),
            InterfacePort::New { network, fixed_ip } => (env.uuid(), Some(*network), fixed_ip.clone()),
        };
        RequestedNetwork { port_id, network_id, fixed_ip, tag: self.tag.clone(), security_groups: security_groups.to_vec() }
    }
}

impl Interfaces {
    /// Returns one server's interfaces, and chooses ids for the ports to make.
    pub fn for_server(&self, env: &Env) -> Vec<RequestedNetwork> {
        self.list.iter().map(|interface| interface.for_server(env, &self.security_groups)).collect()
    }

    /// Refuses security groups for ports that networks without port security would make.
    pub async fn check_groups(&self, api: &ComputeApi) -> Result<(), ApiError> {
        if self.security_groups.is_empty() {
            return Ok(());
        }
        for (network, _) in self.list.iter().filter_map(Interface::new_port) {
            if !api.network.network(network).await.map_err(service_error)?.port_security_enabled {
                return Err(bad_request(GROUPS_NEED_SECURITY));
            }
        }
        Ok(())
    }

    /// Refuses ports that their networks cannot give a server.
    async fn check_networks(&self, api: &ComputeApi) -> Result<(), ApiError> {
        let mut on_networks: BTreeMap<Uuid, Vec<Option<String>>> = BTreeMap::new();
        for (network, fixed_ip) in self.list.iter().filter_map(Interface::new_port) {
            on_networks.entry(network).or_default().push(fixed_ip.clone());
        }
        for (network, addresses) in on_networks {
            new_ports::check_for_create(api, network, addresses).await?;
        }
        Ok(())
    }
}

/// Looks up the named networks and ports. 400 and 409 as in Nova.
pub async fn look_up(
    api: &ComputeApi,
    caller: &RequestContext,
    version: ApiVersion,
    networks: &Networks,
    servers: i64,
) -> Result<Interfaces, ApiError> {
    let demands = match networks {
        Networks::None => return Ok(Interfaces::default()),
        Networks::Auto => return automatic(api, caller, version, servers).await,
        Networks::List(demands) => demands,
    };
    let service = &*api.network;
    let usable = service.networks_for(&caller.project_id).await.map_err(service_error)?;
    let mut interfaces = Interfaces::default();
    let to_make = demands.iter().filter(|network| network.port.is_none()).count() as i64;
    check_room(service, caller, to_make.saturating_mul(servers)).await?;
    for demand in demands {
        let interface = match &demand.port {
            Some(port) => {
                let port = existing_port(service, caller, version, port, servers).await?;
                interfaces.has_resource_request |= port.resource_request.is_some();
                Interface { port: InterfacePort::Existing(port.id), tag: demand.tag.clone() }
            }
            None => new_port(api, caller, &usable, demand, servers).await?,
        };
        interfaces.list.push(interface);
    }
    interfaces.check_networks(api).await?;
    Ok(interfaces)
}

/// Answers 403 unless the project has room for this many ports. Each port is counted again when it is made.
async fn check_room(service: &dyn NetworkService, caller: &RequestContext, ports: i64) -> Result<(), ApiError> {
    if ports == 0 {
        return Ok(());
    }
    match service.room_for_ports(&caller.project_id).await.map_err(service_error)? {
        Some(room) if room < ports => Err(forbidden("Maximum number of ports exceeded")),
        _ => Ok(()),
    }
}

/// Returns an interface on the project's only network.
async fn automatic(api: &ComputeApi, caller: &RequestContext, version: ApiVersion, servers: i64) -> Result<Interfaces, ApiError> {
    let service = &*api.network;
    let usable = service.networks_for(&caller.project_id).await.map_err(service_error)?;
    match usable.as_slice() {
        [only] => {
            check_room(service, caller, servers).await?;
            let interface = Interface { port: InterfacePort::New { network: only.id, fixed_ip: None }, tag: None };
            let interfaces = Interfaces { list: vec![interface], ..Interfaces::default() };
            interfaces.check_networks(api).await?;
            Ok(interfaces)
        }
        [] if version.at_least(37) => {
            Err(bad_request(format!("Unable to automatically allocate a network for project {}", caller.project_id)))
        }
        [] => Ok(Interfaces::default()),
        _ => Err(conflict("Multiple possible networks found, use a Network ID to be more specific.")),
    }
}

/// Returns the named network if it is among those that the server's project may use, or if the caller is an administrator. None for an
/// unknown network. 403 for an external network that nobody shares, unless the policy lets the caller attach it.
pub async fn named_network(
    api: &ComputeApi,
    caller: &RequestContext,
    usable: &[Network],
    named: &str,
) -> Result<Option<Network>, ApiError> {
    let Ok(id) = Uuid::parse_str(named) else { return Ok(None) };
    let of_project = usable.iter().find(|network| network.id == id);
    let network = match of_project {
        Some(network) => network.clone(),
        None => match api.network.network(id).await {
            Ok(network) => network,
            Err(ServiceError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(service_error(error)),
        },
    };
    if network.external && !network.shared && !api.policy.check("network:attach_external_network", caller, &Target::own(caller)) {
        return Err(forbidden(format!("It is not allowed to create an interface on external network {id}")));
    }
    Ok((caller.is_admin() || of_project.is_some()).then_some(network))
}

async fn new_port(
    api: &ComputeApi,
    caller: &RequestContext,
    usable: &[Network],
    demand: &NetworkDemand,
    servers: i64,
) -> Result<Interface, ApiError> {
    let named = demand.network.as_deref().unwrap_or_default();
    let network = named_network(api, caller, usable, named).await?;
    let network = network.ok_or_else(|| bad_request(format!("Network {named} could not be found.")))?;
    // The port is made in the caller's name, and only a network's owner may choose addresses on it.
    let owns = caller.is_admin() || network.project_id == caller.project_id;
    if demand.fixed_ip.is_some() && !owns {
        return Err(forbidden("rule:create_port:fixed_ips:ip_address is disallowed by policy"));
    }
    if demand.fixed_ip.is_some() && servers > 1 {
        return Err(bad_request("Failed to launch instances: Unable to launch multiple instances with a single configured fixed IP."));
    }
    let port = InterfacePort::New { network: network.id, fixed_ip: demand.fixed_ip.clone() };
    Ok(Interface { port, tag: demand.tag.clone() })
}

async fn existing_port(
    service: &dyn NetworkService,
    caller: &RequestContext,
    version: ApiVersion,
    named: &str,
    servers: i64,
) -> Result<Port, ApiError> {
    let unknown = || bad_request(format!("Port id {named} could not be found."));
    let id = Uuid::parse_str(named).map_err(|_| unknown())?;
    let port = match service.port(id).await {
        Ok(port) if port.project_id == caller.project_id || caller.is_admin() => port,
        Ok(_) | Err(ServiceError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(service_error(error)),
    };
    if servers > 1 {
        return Err(bad_request("Unable to launch multiple instances with a single configured port ID."));
    }
    if port.project_id != caller.project_id {
        return Err(bad_request(format!("Port {named} not usable for instances of project {}.", caller.project_id)));
    }
    if !port.device_id.is_empty() || port.server.is_some() {
        return Err(conflict(format!("Port {named} is still in use.")));
    }
    if port.fixed_ips.is_empty() {
        return Err(bad_request(format!("Port {named} requires a FixedIP in order to be used.")));
    }
    if port.resource_request.is_some() && !version.at_least(72) {
        return Err(bad_request(
            "Creating servers with ports having resource requests, like a port with a QoS minimum bandwidth policy, is not supported until microversion 2.72.",
        ));
    }
    Ok(port)
}

/// Converts a service's error for the compute API.
pub fn service_error(error: ServiceError) -> ApiError {
    ApiError::from_service(ErrorForm::Compute, error)
}
