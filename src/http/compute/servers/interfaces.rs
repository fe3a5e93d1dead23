//! `/servers/{id}/os-interface`.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::create::networks::{named_network, service_error};
use super::rules::Tag;
use super::{ComputeApi, access, new_ports};
use crate::cell_registry::Located;
use crate::domain::context::RequestContext;
use crate::domain::host_network::takes_function;
use crate::domain::instance::Instance;
use crate::domain::network_info::NetworkInfo;
use crate::domain::reason::{Reason, ReasonCode};
use crate::domain::server::VmState;
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty, forbidden, not_found, ok, unavailable};
use crate::http::compute::body::Body;
use crate::http::compute::body::rules::{IpAddress, UuidOrNull, UuidText};
use crate::http::error::{ApiError, ErrorForm};
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::Schema;
use crate::saga::context::{DetachInterfaceRequest, Request, RequestedNetwork};
use crate::services::ServiceError;
use crate::services::network::Port;

/// The longest wait for the end of an attach, whose answer shows the port.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/servers/{id}/os-interface").route(web::get().to(index)).route(web::post().to(attach)))
        .service(web::resource("/servers/{id}/os-interface/{port}").route(web::get().to(show)).route(web::delete().to(detach)));
}

/// The schemas of this resource, by request.
pub(super) static SCHEMAS: &[(&str, &Schema)] = &[("POST /servers/{}/os-interface", &ATTACH.schema)];

static ATTACH: Body<AttachBody> = Body::whole(&[1, 49]);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AttachBody {
    #[serde(default, rename = "interfaceAttachment")]
    interface: NewInterface,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewInterface {
    #[serde(default)]
    #[schemars(with = "UuidText")]
    net_id: Option<String>,
    #[serde(default)]
    #[schemars(with = "UuidOrNull")]
    port_id: Option<String>,
    #[serde(default)]
    #[schemars(extend("minItems" = 1, "maxItems" = 1))]
    fixed_ips: Vec<FixedIp>,
    #[serde(default)]
    #[schemars(with = "Tag", extend("since" = 49))]
    tag: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FixedIp {
    #[schemars(with = "IpAddress")]
    ip_address: String,
}

async fn index(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>) -> Answer {
    let server = api.load(&caller, &id, "os_compute_api:os-attach-interfaces:list").await?;
    let ports = api.network.ports_of(server.instance.uuid).await.map_err(service_error)?;
    let views: Vec<Value> = ports.iter().map(|port| view(port, &server.network, version)).collect();
    ok(&json!({"interfaceAttachments": views}))
}

async fn show(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, path: web::Path<(String, String)>) -> Answer {
    let (id, port) = path.into_inner();
    shown(&api, &caller, version, &id, &port).await
}

async fn shown(api: &ComputeApi, caller: &RequestContext, version: ApiVersion, id: &str, port: &str) -> Answer {
    let server = api.load(caller, id, "os_compute_api:os-attach-interfaces:show").await?;
    let unknown = || not_found(format!("Instance {id} does not have a port with id {port}"));
    let port_id = Uuid::parse_str(port).map_err(|_| unknown())?;
    let ports = api.network.ports_of(server.instance.uuid).await.map_err(service_error)?;
    let port = ports.iter().find(|port| port.id == port_id).ok_or_else(unknown)?;
    ok(&json!({"interfaceAttachment": view(port, &server.network, version)}))
}

fn view(port: &Port, recorded: &NetworkInfo, version: ApiVersion) -> Value {
    let addresses: Vec<Value> = port.fixed_ips.iter().map(|ip| json!({"subnet_id": ip.subnet_id, "ip_address": ip.ip_address})).collect();
    let mut view = json!({
        "net_id": port.network_id,
        "port_id": port.id,
        "mac_addr": port.mac_address,
        "port_state": port.status,
        "fixed_ips": addresses,
    });
    if version.at_least(70) {
        view["tag"] = json!(recorded.0.iter().find(|vif| vif.port_id == port.id).and_then(|vif| vif.tag.clone()));
    }
    view
}

/// Answers at the end of the operation, with the port.
async fn attach(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>, body: Document) -> Answer {
    let AttachBody { interface } = ATTACH.read(version, &body).await?;
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:os-attach-interfaces:create").await?;
    let (network, port) = (interface.net_id.as_deref(), interface.port_id.as_deref());
    let address = interface.fixed_ips.first().map(|fixed| fixed.ip_address.as_str());
    if network.is_some() && port.is_some() {
        return Err(bad_request("Must not input both network_id and port_id"));
    }
    if address.is_some() && network.is_none() {
        return Err(bad_request("Must input network_id when request IP address"));
    }
    check_state(&located, "attach_interface")?;
    let instance = &located.instance;
    let (port_id, network_id) = match port {
        Some(port) => (usable_port(&api, &caller, instance, port).await?, None),
        None => (api.env.uuid(), Some(usable_network(&api, &caller, instance, network, address).await?)),
    };
    let fixed_ip = address.map(str::to_owned);
    let request = RequestedNetwork { port_id, network_id, fixed_ip, tag: interface.tag, security_groups: Vec::new() };
    let operation = api.begin(&caller, instance, Request::AttachInterface(request)).await?;
    await_end(&api, operation, instance.uuid).await?;
    shown(&api, &caller, version, &id, &port_id.to_string()).await
}

fn check_state(located: &Located, action: &str) -> Result<(), ApiError> {
    match located.instance.vm_state {
        VmState::Active | VmState::Paused | VmState::Stopped => access::require_no_task(&located.instance, action),
        other => Err(access::wrong_state(&located.instance, action, "vm_state", other.as_str())),
    }
}

/// Returns the id of a free port of the server's project.
async fn usable_port(api: &ComputeApi, caller: &RequestContext, instance: &Instance, named: &str) -> Result<Uuid, ApiError> {
    let unknown = || not_found(format!("Port id {named} could not be found."));
    let id = Uuid::parse_str(named).map_err(|_| unknown())?;
    let port = match api.network.port(id).await {
        Ok(port) if port.project_id == caller.project_id || caller.is_admin() => port,
        Ok(_) | Err(ServiceError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(service_error(error)),
    };
    if port.project_id != instance.project_id {
        return Err(bad_request(format!("Port {named} not usable for instance {}.", instance.uuid)));
    }
    if !port.device_id.is_empty() || port.server.is_some() {
        return Err(conflict(format!("Port {named} is still in use.")));
    }
    if takes_function(&port.vnic_type) {
        return Err(bad_request(format!(
            "Attaching interfaces of type {} is not supported: a virtual function is given to new servers and to servers that move.",
            port.vnic_type
        )));
    }
    if port.fixed_ips.is_empty() {
        return Err(bad_request(format!("Port {named} requires a FixedIP in order to be used.")));
    }
    Ok(port.id)
}

/// Returns the named network, or the only one that the server's project may use. Checks that the project may have one more port, and that
/// the network can give it.
async fn usable_network(
    api: &ComputeApi,
    caller: &RequestContext,
    instance: &Instance,
    named: Option<&str>,
    address: Option<&str>,
) -> Result<Uuid, ApiError> {
    let project = &instance.project_id;
    let usable = api.network.networks_for(project).await.map_err(service_error)?;
    let network = match (named, usable.as_slice()) {
        (Some(named), usable) => {
            let network = named_network(api, caller, usable, named).await?;
            network.ok_or_else(|| not_found(format!("Network {named} could not be found.")))?
        }
        (None, [only]) => only.clone(),
        (None, []) => {
            return Err(bad_request(format!("No specific network was requested and none are available for project '{project}'.")));
        }
        (None, _) => return Err(bad_request("Multiple possible networks found, use a Network ID to be more specific.")),
    };
    // The port is made in the project's name, and only a network's owner may choose addresses on it.
    if address.is_some() && !caller.is_admin() && network.project_id != caller.project_id {
        return Err(forbidden("rule:create_port:fixed_ips:ip_address is disallowed by policy"));
    }
    match api.network.room_for_ports(project).await.map_err(service_error)? {
        Some(room) if room < 1 => return Err(forbidden("Maximum number of ports exceeded")),
        _ => new_ports::check_for_attach(api, network.id, address).await?,
    }
    Ok(network.id)
}

/// Waits until an attach has ended. Fails as Nova does if the attach failed.
async fn await_end(api: &ComputeApi, operation: Uuid, server: Uuid) -> Result<(), ApiError> {
    let ended = async {
        loop {
            match api.operations.outcome(operation).await {
                Ok(Some(outcome)) => return outcome.map_err(|why| failed(why, server)),
                Ok(None) => tokio::time::sleep(BETWEEN_LOOKS).await,
                Err(refusal) => return Err(access::refused(refusal)),
            }
        }
    };
    let late = || unavailable(format!("The interface is still being attached; the actions of instance {server} tell how that ends."));
    tokio::time::timeout(PATIENCE, ended).await.unwrap_or_else(|_| Err(late()))
}

/// Converts the reason of a failed attach, which a service or the host has given.
fn failed(why: Reason, server: Uuid) -> ApiError {
    match why.code() {
        Some(ReasonCode::UnfitPort) => bad_request(why),
        Some(ReasonCode::Missing) => not_found(why),
        Some(ReasonCode::InUse) => conflict(why),
        Some(ReasonCode::QuotaExceeded) => forbidden("Maximum number of ports exceeded"),
        _ => {
            let message = format!("Failed to attach network adapter device to {server}");
            ApiError::new(ErrorForm::Compute, StatusCode::INTERNAL_SERVER_ERROR, message)
        }
    }
}

async fn detach(api: web::Data<ComputeApi>, Caller(caller): Caller, path: web::Path<(String, String)>) -> Answer {
    let (id, port) = path.into_inner();
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:os-attach-interfaces:delete").await?;
    check_state(&located, "detach_interface")?;
    let server = api.registry.server(located.instance.uuid).await?;
    let port_id = Uuid::parse_str(&port).ok();
    let vif = server.network.0.iter().find(|vif| Some(vif.port_id) == port_id);
    let vif = vif.ok_or_else(|| not_found(format!("Port id {port} is not attached")))?;
    // A port that is gone has no function any more.
    if let Ok(port) = api.network.port(vif.port_id).await
        && takes_function(&port.vnic_type)
    {
        return Err(bad_request(format!("Detaching interfaces of type {} is not supported.", port.vnic_type)));
    }
    let request = DetachInterfaceRequest { port_id: vif.port_id };
    api.begin(&caller, &located.instance, Request::DetachInterface(request)).await?;
    empty(StatusCode::ACCEPTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::reason::QUOTA_EXCEEDED;

    #[test]
    fn reasons_of_the_network_are_the_callers_mistakes() {
        let network = Uuid::nil();
        for (why, status) in [
            (format!("No more IP addresses available on network {network}."), 400),
            (format!("IP address 10.9.0.9 is not a valid IP for any of the subnets on network {network}."), 400),
            (format!("IP address 10.9.0.1 is the gateway of subnet {network}."), 400),
            (format!("Network {network} could not be found."), 404),
            (format!("Port {network} could not be found."), 404),
            (format!("Port {network} is still in use."), 409),
            (format!("{QUOTA_EXCEEDED}['port']."), 403),
            ("the disk broke".to_owned(), 500),
        ] {
            assert_eq!(failed(Reason::read(&why), network).status.as_u16(), status, "{why}");
        }
    }
}
