//! Hosts and requests for tests. The defaults pass all filters; each test changes what it is about.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::host_state::{HostCell, HostState};
use crate::request::Request;
use cellshift_domain::compute_host::{HostAggregate, HostNode, HostService, SERVICE_VERSION};
use cellshift_domain::fence::Fence;
use cellshift_domain::flavor::{Flavor, Resources};
use cellshift_domain::request_spec::RequestSpec;
use cellshift_domain::scheduling::{OperationKind, RequestedDestination, SelectDestinations, SourceHost};
use cellshift_domain::server_group::{GroupPolicy, ServerGroup};
use cellshift_neighbours::placement::{Offer, Provider};

/// Returns the same id for the same text.
pub fn id(text: &str) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes())
}

/// Makes an aggregate with metadata.
pub fn aggregate(metadata: &[(&str, &str)]) -> HostAggregate {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    HostAggregate { name: "aggregate".to_owned(), metadata }
}

/// Makes a host that is up, in a zone with its cell's name.
pub fn host(cell: &str, name: &str) -> HostState {
    let service = HostService {
        uuid: id(&format!("service of {name}")),
        host: name.to_owned(),
        disabled: false,
        disabled_reason: None,
        forced_down: false,
        version: SERVICE_VERSION,
    };
    let node = HostNode {
        uuid: id(name),
        host: name.to_owned(),
        hypervisor_hostname: name.to_owned(),
        hypervisor_type: "simulated".to_owned(),
        hypervisor_version: 1,
        host_ip: "127.0.0.1".to_owned(),
        running_vms: 0,
        current_workload: 0,
        cpu_info: Value::Null,
    };
    HostState {
        cell: Arc::new(HostCell { name: cell.to_owned(), uuid: id(cell), disabled: false }),
        service: Arc::new(service),
        node: Arc::new(node),
        up: true,
        availability_zone: cell.into(),
        aggregates: Arc::default(),
        in_placement: None,
    }
}

/// Makes the same host with another record.
pub fn changed(mut host: HostState, change: impl FnOnce(&mut HostService, &mut HostNode)) -> HostState {
    change(Arc::make_mut(&mut host.service), Arc::make_mut(&mut host.node));
    host
}

/// Disables a host's service, or enables it.
pub fn disable(host: &mut HostState, disabled: bool) {
    Arc::make_mut(&mut host.service).disabled = disabled;
}

/// Makes the same host with these amounts in placement.
pub fn with_room(mut host: HostState, total: Resources, free: Resources) -> HostState {
    host.in_placement = Some(Offer { total, free, ..Offer::new(provider(&host, &[])) });
    host
}

/// Makes the same host with these traits in placement.
pub fn with_traits(mut host: HostState, traits: &[&str]) -> HostState {
    host.in_placement = Some(Offer::new(provider(&host, traits)));
    host
}

fn provider(host: &HostState, traits: &[&str]) -> Provider {
    Provider {
        uuid: host.provider(),
        name: host.name().clone(),
        generation: 0,
        inventories: BTreeMap::new(),
        usages: BTreeMap::new(),
        traits: traits.iter().map(|name| (*name).to_owned()).collect(),
        aggregates: Vec::new(),
    }
}

/// Makes a request for a new server with one VCPU.
pub fn create(server: &str) -> SelectDestinations {
    let flavor = Flavor { id: "1".to_owned(), name: "m1.tiny".to_owned(), vcpus: 1, ..Flavor::default() };
    let resources = Resources { vcpu: 1, ..Resources::default() };
    let (request_spec, fence) = (RequestSpec::new(id(server), "demo", "user", flavor), Fence { server: id(server), epoch: 0, attempt: 1 });
    SelectDestinations::of_server_without_host(OperationKind::Create, request_spec, resources, fence)
}

/// Makes a request for a move of a server on host `host` of `cell`.
pub fn move_from(operation: OperationKind, cell: &str, host: &str, destination: RequestedDestination) -> SelectDestinations {
    SelectDestinations {
        operation,
        source: Some(SourceHost { cell: cell.to_owned(), host: host.to_owned() }),
        requested_destination: Some(destination),
        ..create("server")
    }
}

/// Makes a request for a resize of a server on cell1's host h1, which may leave its cell.
pub fn resize_across() -> SelectDestinations {
    move_from(OperationKind::Resize, "cell1", "h1", RequestedDestination::of_move("cell1", None, true))
}

/// Returns the request as filters see it.
pub fn request(demand: SelectDestinations) -> Request {
    Request { demand, group: None, named_servers: BTreeMap::new() }
}

/// Makes a group with members and their hosts.
pub fn group(policy: GroupPolicy, members: &[(&str, &[&str])]) -> ServerGroup {
    let hosts = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect();
    let members = members.iter().map(|(member, on)| (id(member), hosts(on))).collect();
    ServerGroup { uuid: id("group"), policy, max_server_per_host: 1, members, moving_among: Vec::new(), split: false }
}
