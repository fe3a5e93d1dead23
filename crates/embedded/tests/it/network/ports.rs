//! Tests that an address and a MAC belong to one port, that a port has at most one active binding, and that effects may repeat or come
//! late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cellshift_domain::fence::Fence;
use cellshift_domain::reason::ReasonCode;
use cellshift_embedded::MIGRATIONS;
use cellshift_embedded::ServiceError;
use cellshift_embedded::network::limits::Limits;
use cellshift_embedded::network::records::{Attributes, QosRuleKind, Scope};
use cellshift_embedded::network::*;
use cellshift_env::{Blocking, Env, RandomIds, SystemClock};
use cellshift_store::Db;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) fn inline() -> EmbeddedNetwork {
    let env = Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline);
    EmbeddedNetwork::new(Db::open("services", "", MIGRATIONS, &env).unwrap())
}

pub(crate) fn attributes(value: Value) -> Attributes {
    value.as_object().unwrap().clone()
}

pub(crate) fn admin() -> Scope {
    Scope::admin("ops")
}

pub(crate) fn member(project: &str) -> Scope {
    Scope { project_id: project.into(), admin: false, manager: false }
}

pub(crate) async fn network_with(network: &EmbeddedNetwork, cidrs: &[&str]) -> Uuid {
    let made = network.create_network(admin(), attributes(json!({"name": "private", "shared": true}))).await.unwrap();
    for cidr in cidrs {
        network.create_subnet(admin(), attributes(json!({"network_id": made.id, "cidr": cidr}))).await.unwrap();
    }
    made.id
}

pub(crate) fn new_port(network: &EmbeddedNetwork, on: Uuid) -> NewPort {
    NewPort { id: network.new_id(), network_id: on, project_id: "demo".into(), fixed_ip: None, security_groups: vec![] }
}

pub(crate) fn fence(server: Uuid, attempt: i64) -> Fence {
    Fence { server, epoch: 1, attempt }
}

fn hosts(port: &Port) -> Vec<(&str, &str)> {
    port.bindings.iter().map(|binding| (binding.host.as_str(), binding.status.as_str())).collect()
}

#[tokio::test]
async fn a_binding_names_the_providers_of_its_own_host() {
    let network = inline();
    let on = network_with(&network, &["10.0.0.0/24"]).await;
    let (server, new) = (network.new_id(), new_port(&network, on));
    let port = network.create_port(fence(server, 1), new).await.unwrap().id;
    let profiles = async || {
        let bindings = network.port(port).await.unwrap().bindings;
        bindings.into_iter().map(|binding| (binding.host, binding.profile)).collect::<BTreeMap<String, Value>>()
    };
    let is = |allocation: &str| HostKey::Are(HostKeys { allocation: Some(json!(allocation)), function: None });
    let kept = |allocation: &str| HostKey::Kept { or: HostKeys { allocation: Some(json!(allocation)), function: None } };
    network.create_binding(fence(server, 1), port, "h1", is("one")).await.unwrap();
    network.update_binding(port, "h1".into(), attributes(json!({"profile": {"own": 1, "allocation": "one"}}))).await.unwrap();
    for _ in 0..2 {
        network.create_binding(fence(server, 1), port, "h2", is("two")).await.unwrap();
        network.create_binding(fence(server, 1), port, "h3", HostKey::AllocationIs(None)).await.unwrap();
        network.create_binding(fence(server, 1), port, "h1", kept("else")).await.unwrap();
    }
    let (one, two) = (json!({"own": 1, "allocation": "one"}), json!({"own": 1, "allocation": "two"}));
    assert_eq!(profiles().await, [("h1", one), ("h2", two.clone()), ("h3", json!({"own": 1}))].map(|(h, p)| (h.to_owned(), p)).into());
    network.activate_binding(fence(server, 1), port, "h2").await.unwrap();
    network.delete_binding(fence(server, 1), port, "h1").await.unwrap();
    network.create_binding(fence(server, 1), port, "h1", kept("one")).await.unwrap();
    network.create_binding(fence(server, 1), port, "h3", is("three")).await.unwrap();
    let three = json!({"own": 1, "allocation": "three"});
    let one = json!({"own": 1, "allocation": "one"});
    assert_eq!(profiles().await, [("h1", one), ("h2", two), ("h3", three)].map(|(h, p)| (h.to_owned(), p)).into());
}

#[tokio::test]
async fn a_move_binds_at_the_target_and_leaves_the_source() {
    let network = inline();
    let on = network_with(&network, &["10.0.0.0/24", "fd00::/64"]).await;
    let server = network.new_id();
    let new = new_port(&network, on);
    for _ in 0..2 {
        let made = network.create_port(fence(server, 1), new.clone()).await.unwrap();
        let ips: Vec<&str> = made.fixed_ips.iter().map(|fixed| fixed.ip_address.as_str()).collect();
        assert_eq!((ips, made.network_name.as_str(), made.status.as_str()), (vec!["10.0.0.2", "fd00::2"], "private", "DOWN"));
        assert!(made.mac_address.starts_with("fa:16:3e:") && made.security_groups.len() == 1);
    }
    let port = new.id;
    for _ in 0..2 {
        network.create_binding(fence(server, 2), port, "cell1-host1", HostKey::AllocationIs(None)).await.unwrap();
    }
    network.set_plugged(port, "cell1-host1", true).await.unwrap();
    assert_eq!(network.port(port).await.unwrap().status, "ACTIVE");
    for _ in 0..2 {
        network.create_binding(fence(server, 3), port, "cell2-host1", HostKey::AllocationIs(None)).await.unwrap();
    }
    assert_eq!(hosts(&network.port(port).await.unwrap()), [("cell1-host1", "ACTIVE"), ("cell2-host1", "INACTIVE")]);
    for _ in 0..2 {
        network.activate_binding(fence(server, 4), port, "cell2-host1").await.unwrap();
    }
    let moved = network.port(port).await.unwrap();
    assert_eq!(hosts(&moved), [("cell1-host1", "INACTIVE"), ("cell2-host1", "ACTIVE")]);
    assert_eq!(moved.status, "DOWN", "only the active binding's plug counts");
    network.set_plugged(port, "cell2-host1", true).await.unwrap();
    for _ in 0..2 {
        network.delete_binding(fence(server, 5), port, "cell1-host1").await.unwrap();
    }
    let confirmed = network.port(port).await.unwrap();
    assert_eq!((hosts(&confirmed), confirmed.status.as_str()), (vec![("cell2-host1", "ACTIVE")], "ACTIVE"));
    // A late effect is refused.
    let late = network.create_binding(fence(server, 4), port, "cell1-host1", HostKey::AllocationIs(None)).await;
    assert!(matches!(late, Err(ServiceError::Stale(_))), "{late:?}");
    assert_eq!(network.port(port).await.unwrap(), confirmed);
    assert_eq!(network.ports_of(server).await.unwrap(), std::slice::from_ref(&confirmed));
    assert_eq!(network.ports_in_use().await.unwrap(), [confirmed]);
    for _ in 0..2 {
        network.delete_port(fence(server, 6), port).await.unwrap();
    }
    assert!(matches!(network.port(port).await, Err(ServiceError::NotFound(_))));
    // A missing port counts as unplugged, and cannot be plugged.
    network.set_plugged(port, "cell2-host1", false).await.unwrap();
    assert!(matches!(network.set_plugged(port, "cell2-host1", true).await, Err(ServiceError::NotFound(_))));
}

#[tokio::test]
async fn a_port_is_never_claimed_from_another_server() {
    let network = inline();
    let on = network_with(&network, &["10.0.0.0/24"]).await;
    let port = network.add_port(member("demo"), attributes(json!({"network_id": on, "name": "mine"}))).await.unwrap().port.id;
    let (first, second) = (network.new_id(), network.new_id());
    for _ in 0..2 {
        network.claim_port(fence(first, 1), port).await.unwrap();
    }
    network.create_binding(fence(first, 2), port, "host1", HostKey::AllocationIs(None)).await.unwrap();
    assert!(matches!(network.claim_port(fence(second, 1), port).await, Err(ServiceError::Conflict(_))));
    network.release_port(fence(second, 2), port).await.unwrap();
    network.delete_binding(fence(second, 2), port, "host1").await.unwrap();
    network.delete_port(fence(second, 2), port).await.unwrap();
    let held = network.port(port).await.unwrap();
    assert_eq!((held.device_id.as_str(), hosts(&held)), (first.to_string().as_str(), vec![("host1", "ACTIVE")]));
    for _ in 0..2 {
        network.release_port(fence(first, 3), port).await.unwrap();
    }
    let free = network.port(port).await.unwrap();
    assert_eq!((free.device_id.as_str(), free.device_owner.as_str(), free.bindings.len(), free.name.as_str()), ("", "", 0, "mine"));
}

#[tokio::test]
async fn only_taking_makes_a_port_a_servers_and_none_can_deny_it() {
    let network = inline();
    let on = network_with(&network, &["10.0.0.0/24"]).await;
    let server = network.new_id();
    let made = network.create_port(fence(server, 1), new_port(&network, on)).await.unwrap().id;
    let names = |id: Uuid| attributes(json!({"network_id": on, "device_id": id, "device_owner": "compute:nova"}));
    let foreign = network.add_port(member("elsewhere"), names(server)).await.unwrap().port;
    let own = network.add_port(member("demo"), names(server)).await.unwrap().port;
    let of_server = |ports: Vec<Port>| ports.iter().map(|port| port.id).collect::<Vec<_>>();
    assert_eq!(of_server(network.ports_of(server).await.unwrap()), [made]);
    assert_eq!(of_server(network.ports_in_use().await.unwrap()), [made], "nothing else is the audit's concern");
    let groups = network.security_group_names(vec![server]).await.unwrap();
    assert_eq!(groups, BTreeMap::from([(server, vec!["default".to_owned()])]));

    // The owner writes another device into the server's port. The server still has the port until it releases it.
    for device in [String::new(), network.new_id().to_string()] {
        network.update_port(member("demo"), made, attributes(json!({"device_id": device, "device_owner": ""}))).await.unwrap();
        assert_eq!(of_server(network.ports_of(server).await.unwrap()), [made]);
        network.create_binding(fence(server, 2), made, "host1", HostKey::AllocationIs(None)).await.unwrap();
        let second = network.claim_port(fence(network.new_id(), 1), made).await;
        assert!(matches!(second, Err(ServiceError::Conflict(_))), "{second:?}");
    }
    network.delete_port(fence(server, 3), made).await.unwrap();
    assert!(matches!(network.port(made).await, Err(ServiceError::NotFound(_))));
    network.release_port(fence(server, 4), foreign.id).await.unwrap();
    network.release_port(fence(server, 4), own.id).await.unwrap();
    let left = network.ports(admin(), PortFilter::default()).await.unwrap();
    assert_eq!(left.iter().map(|record| record.port.clone()).collect::<Vec<_>>(), [foreign, own]);
}

#[tokio::test]
async fn taken_foreign_and_gateway_addresses_are_refused() {
    let network = inline();
    let on = network_with(&network, &["10.0.0.0/29"]).await;
    let server = network.new_id();
    let at = |address: &str| NewPort { fixed_ip: Some(address.into()), ..new_port(&network, on) };
    network.create_port(fence(server, 1), at("10.0.0.4")).await.unwrap();
    assert!(matches!(network.create_port(fence(server, 1), at("10.0.0.4")).await, Err(ServiceError::Conflict(_))));
    assert!(matches!(network.create_port(fence(server, 1), at("10.0.0.1")).await, Err(ServiceError::Conflict(_))));
    assert!(matches!(network.create_port(fence(server, 1), at("10.0.1.4")).await, Err(ServiceError::Invalid(_))));
    let mut made = Vec::new();
    for _ in 0..4 {
        made.push(network.create_port(fence(server, 1), new_port(&network, on)).await.unwrap());
    }
    let ips: Vec<&str> = made.iter().map(|port| port.fixed_ips[0].ip_address.as_str()).collect();
    assert_eq!(ips, ["10.0.0.2", "10.0.0.3", "10.0.0.5", "10.0.0.6"]);
    let full = network.create_port(fence(server, 1), new_port(&network, on)).await;
    assert!(matches!(&full, Err(ServiceError::Conflict(why)) if why.for_users().starts_with("No more IP addresses")), "{full:?}");
    network.delete_port(fence(server, 2), made[1].id).await.unwrap();
    let again = network.create_port(fence(server, 3), new_port(&network, on)).await.unwrap();
    assert_eq!(again.fixed_ips[0].ip_address, "10.0.0.3");
}

#[tokio::test]
async fn a_minimum_bandwidth_policy_makes_a_port_ask_for_resources() {
    let network = inline();
    let policy = network.create_qos_policy(admin(), attributes(json!({"name": "gold", "shared": true}))).await.unwrap();
    let on =
        network.create_network(admin(), attributes(json!({"shared": true, "provider:physical_network": "physnet2"}))).await.unwrap().id;
    let fields = attributes(json!({"network_id": on, "qos_policy_id": policy.id}));
    let port = network.add_port(member("demo"), fields).await.unwrap().port;
    assert_eq!(port.resource_request, None);
    let rule = |kind, body| network.create_qos_rule(admin(), policy.id, kind, attributes(body));
    rule(QosRuleKind::MinimumBandwidth, json!({"min_kbps": 1000})).await.unwrap();
    rule(QosRuleKind::MinimumBandwidth, json!({"min_kbps": 500, "direction": "ingress"})).await.unwrap();
    rule(QosRuleKind::MinimumPacketRate, json!({"min_kpps": 7, "direction": "any"})).await.unwrap();
    let twice = rule(QosRuleKind::MinimumBandwidth, json!({"min_kbps": 1})).await;
    assert!(matches!(twice, Err(ServiceError::Conflict(_))), "{twice:?}");
    let demand = network.port(port.id).await.unwrap().resource_request.unwrap();
    let groups = demand["request_groups"].as_array().unwrap();
    assert_eq!(groups[0]["resources"], json!({"NET_BW_EGR_KILOBIT_PER_SEC": 1000, "NET_BW_IGR_KILOBIT_PER_SEC": 500}));
    assert_eq!(groups[0]["required"], json!(["CUSTOM_PHYSNET_PHYSNET2", "CUSTOM_VNIC_TYPE_NORMAL"]));
    assert_eq!(groups[1]["resources"], json!({"NET_PACKET_RATE_KILOPACKET_PER_SEC": 7}));
    assert_eq!(demand["same_subtree"], json!([groups[0]["id"], groups[1]["id"]]));
    assert!(matches!(network.delete_qos_policy(admin(), policy.id).await, Err(ServiceError::Conflict(_))));
}

#[tokio::test]
async fn projects_see_shared_networks_and_change_only_their_own() {
    let network = inline();
    let shared = network_with(&network, &["10.0.0.0/24"]).await;
    let own = network.create_network(member("a"), attributes(json!({"name": "own"}))).await.unwrap().id;
    let seen: Vec<Uuid> = network.networks(member("a")).await.unwrap().iter().map(|n| n.id).collect();
    assert_eq!(seen, [shared, own]);
    assert!(matches!(network.network_record(member("b"), own).await, Err(ServiceError::NotFound(_))));
    assert!(matches!(network.delete_network(member("b"), shared).await, Err(ServiceError::Forbidden(_))));
    let share = network.update_network(member("a"), own, attributes(json!({"shared": true}))).await;
    assert!(matches!(share, Err(ServiceError::Forbidden(_))), "{share:?}");
    let wrong = network.update_network(member("a"), own, attributes(json!({"mtu": "big"}))).await;
    assert!(matches!(&wrong, Err(ServiceError::Invalid(why)) if why.to_string().contains("mtu")), "{wrong:?}");
    let port = network.add_port(member("a"), attributes(json!({"network_id": own}))).await.unwrap().port.id;
    assert!(network.ports(member("b"), PortFilter::default()).await.unwrap().is_empty());
    let bind = network.update_port(member("a"), port, attributes(json!({"binding:host_id": "host1"}))).await;
    assert!(matches!(bind, Err(ServiceError::Forbidden(_))), "{bind:?}");
    let default = network.security_groups(member("a")).await.unwrap();
    assert_eq!((default.len(), default[0].name.as_str(), default[0].security_group_rules.len()), (1, "default", 4));
    assert!(matches!(network.delete_security_group(member("a"), default[0].id).await, Err(ServiceError::Conflict(_))));
}

/// A random effect on the bindings of two ports over three hosts.
#[derive(Clone, Debug)]
enum Effect {
    Bind(usize, usize),
    Activate(usize, usize),
    Unbind(usize, usize),
    Plug(usize, usize, bool),
}

fn effect() -> impl Strategy<Value = Effect> {
    prop_oneof![
        (0usize..2, 0usize..3).prop_map(|(port, host)| Effect::Bind(port, host)),
        (0usize..2, 0usize..3).prop_map(|(port, host)| Effect::Activate(port, host)),
        (0usize..2, 0usize..3).prop_map(|(port, host)| Effect::Unbind(port, host)),
        (0usize..2, 0usize..3, any::<bool>()).prop_map(|(port, host, plugged)| Effect::Plug(port, host, plugged)),
    ]
}

async fn play(effects: Vec<Effect>) {
    let network = inline();
    let on = network_with(&network, &["10.0.0.0/24"]).await;
    let (server, names) = (network.new_id(), ["h0", "h1", "h2"]);
    let mut ports = Vec::new();
    for _ in 0..2 {
        ports.push(network.create_port(fence(server, 1), new_port(&network, on)).await.unwrap().id);
    }
    for effect in effects {
        let before = network.ports_of(server).await.unwrap();
        let outcome = match effect {
            Effect::Bind(port, host) => {
                network.create_binding(fence(server, 1), ports[port], names[host], HostKey::AllocationIs(None)).await
            }
            Effect::Activate(port, host) => network.activate_binding(fence(server, 1), ports[port], names[host]).await,
            Effect::Unbind(port, host) => network.delete_binding(fence(server, 1), ports[port], names[host]).await,
            Effect::Plug(port, host, plugged) => network.set_plugged(ports[port], names[host], plugged).await,
        };
        let after = network.ports_of(server).await.unwrap();
        assert!(outcome.is_ok() || before == after, "a refused effect left something behind");
        for port in &after {
            let active: Vec<_> = port.bindings.iter().filter(|binding| binding.status == "ACTIVE").collect();
            assert!(active.len() <= 1);
            assert_eq!(port.status == "ACTIVE", active.iter().any(|binding| binding.plugged));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_port_never_has_two_active_bindings(effects in prop::collection::vec(effect(), 1..20)) {
        futures::executor::block_on(play(effects));
    }
}

/// Makes many ports concurrently: no address or MAC repeats, and all share the project's first default group.
async fn race(url: &str) {
    let network = EmbeddedNetwork::new(Db::open("services", url, MIGRATIONS, &Env::system()).unwrap());
    let on = network_with(&network, &["10.9.0.0/24"]).await;
    let made = (0..24).map(|_| {
        let network = network.clone();
        async move { network.create_port(fence(network.new_id(), 1), new_port(&network, on)).await.unwrap() }
    });
    let made = futures::future::join_all(made).await;
    let count = |part: fn(&Port) -> String| made.iter().map(part).collect::<BTreeSet<_>>().len();
    assert_eq!(count(|port| port.fixed_ips[0].ip_address.clone()), 24);
    assert_eq!(count(|port| port.mac_address.clone()), 24);
    assert_eq!(count(|port| port.security_groups[0].to_string()), 1);
}

#[tokio::test]
async fn ports_made_at_once_on_sqlite_share_nothing() {
    let dir = tempfile::tempdir().unwrap();
    race(dir.path().join("services.db").to_str().unwrap()).await;
}

#[tokio::test]
async fn ports_made_at_once_on_postgres_share_nothing() {
    if let Some(url) = cellshift_store::fixture::fresh_postgres() {
        race(&url).await;
    }
}

fn with_little_room(url: &str) -> EmbeddedNetwork {
    let limits = Limits { quota_port: 7, quota_network: 3, quota_security_group: 4, ..Limits::default() };
    EmbeddedNetwork::new(Db::open("services", url, MIGRATIONS, &Env::system()).unwrap()).with_limits(limits)
}

/// Makes more of each resource than the project may have, concurrently through two services.
async fn race_for_room(two: [EmbeddedNetwork; 2]) {
    let on = network_with(&two[0], &["10.9.0.0/24"]).await;
    let makers = (0..40).map(|n| {
        let network = two[n % 2].clone();
        async move {
            match n % 4 {
                0 => network.create_port(fence(network.new_id(), 1), new_port(&network, on)).await.map(drop),
                1 => network.add_port(member("demo"), attributes(json!({"network_id": on}))).await.map(drop),
                2 => network.create_network(member("demo"), Attributes::new()).await.map(drop),
                _ => network.create_security_group(member("demo"), attributes(json!({"name": n.to_string()}))).await.map(drop),
            }
        }
    });
    let outcomes = futures::future::join_all(makers).await;
    let refused = |error: &ServiceError| matches!(error, ServiceError::Conflict(why) if why.code() == Some(ReasonCode::QuotaExceeded));
    assert!(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(refused), "{outcomes:?}");
    let rooms = two[1].quota_usage("demo".into()).await.unwrap();
    let used = ["port", "network", "security_group"].map(|resource| rooms[resource].used);
    assert_eq!(used, [7, 3, 4], "all of the room is taken, and no more");
    assert_eq!(two[0].room_for_ports("demo").await.unwrap(), Some(0));
}

#[tokio::test]
async fn quotas_hold_when_many_make_at_once_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    // A SQLite file belongs to one process, so both writers are one service.
    let network = with_little_room(dir.path().join("services.db").to_str().unwrap());
    race_for_room([network.clone(), network]).await;
}

#[tokio::test]
async fn quotas_hold_under_two_writers_on_postgres() {
    if let Some(url) = cellshift_store::fixture::fresh_postgres() {
        race_for_room([with_little_room(&url), with_little_room(&url)]).await;
    }
}
