//! Networks with guaranteed bandwidth for tests, and what servers hold of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cellshift::actors::root::Parts;
use cellshift::domain::port_request::{PortRequest, providers_named};
use cellshift::services::network::Port;
use cellshift::services::placement::{Inventory, PlacementService, Provider};
use cellshift_embedded::placement::Identity;
use serde_json::{Value, json};
use uuid::Uuid;

use super::old_form::OldForm;
use crate::client::User;
use crate::stage::Stage;

const EGRESS: &str = "NET_BW_EGR_KILOBIT_PER_SEC";
const INGRESS: &str = "NET_BW_IGR_KILOBIT_PER_SEC";
const RATE: &str = "NET_PACKET_RATE_KILOPACKET_PER_SEC";

/// The guarantees of a policy, in kilobits and kilopackets per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Minimum {
    pub egress: i64,
    pub ingress: i64,
    pub packets: i64,
}

/// The form of a port's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A single group with the port's id.
    Port,
    /// A group with an id of its own.
    OneGroup,
    /// Bandwidth and packet rates, a group for each.
    TwoGroups,
}

/// The ports of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A port of a bridge.
    Bridge,
    /// A port of a bridge, and one that asks for nothing.
    Mixed,
    /// A port of a physical function (SR-IOV).
    Function,
    /// A port of a physical function, one of a bridge, and one that asks for nothing.
    FunctionAndBridge,
}

impl Form {
    /// Sets the form in which ports show their requests.
    pub fn shown_by(self, parts: &mut Parts) {
        if self == Form::Port {
            parts.network = Arc::new(OldForm(parts.network.clone()));
        }
    }

    /// Returns what a policy guarantees, so that ports of this kind have a request of this form.
    pub fn minimum(self, _kind: Kind) -> Minimum {
        let bandwidth = Minimum { egress: 1000, ingress: 2000, packets: 0 };
        if self == Form::TwoGroups { Minimum { packets: 3, ..bandwidth } } else { bandwidth }
    }
}

impl Kind {
    /// Returns the attributes of the ports, one of which has this policy.
    pub fn ports(self, policy: &str) -> Vec<Value> {
        match self {
            Kind::Bridge => vec![json!({"qos_policy_id": policy})],
            Kind::Mixed => vec![json!({}), json!({"qos_policy_id": policy})],
            Kind::Function => vec![json!({"qos_policy_id": policy, "binding:vnic_type": "direct"})],
            Kind::FunctionAndBridge => {
                vec![json!({"qos_policy_id": policy, "binding:vnic_type": "direct"}), json!({"qos_policy_id": policy}), json!({})]
            }
        }
    }
}

/// Gives each host without one an Open vSwitch agent with a bridge of 10 Gbit/s each way.
pub async fn give_bridges(stage: &Stage) {
    let placement = &stage.running.cloud.services.placement;
    let providers = placement.providers().await.expect("providers");
    for host in providers.iter().filter(|provider| provider.inventories.contains_key("VCPU")) {
        let agent = format!("{}:Open vSwitch agent", host.name);
        if providers.iter().any(|provider| provider.name == agent) {
            continue;
        }
        let (agent_id, bridge_id) = (stage.world().env.uuid(), stage.world().env.uuid());
        let normal = || vec!["CUSTOM_VNIC_TYPE_NORMAL".to_owned()];
        below(stage, host.uuid, agent_id, &agent, &[(RATE, 1000)], normal()).await;
        let bridge = format!("{agent}:br-physnet0");
        below(stage, agent_id, bridge_id, &bridge, &[(EGRESS, 10_000_000), (INGRESS, 10_000_000)], normal()).await;
    }
}

/// Gives the agents of physical functions a packet rate, which no agent reports by itself.
pub async fn give_card_rates(stage: &Stage) {
    let all = stage.running.cloud.services.placement.provider_tree().await.expect("providers");
    for (agent, parent) in all.into_iter().filter(|(provider, _)| provider.name.ends_with(":NIC Switch agent")) {
        let parent = parent.expect("a host");
        below(stage, parent, agent.uuid, &agent.name, &[(RATE, 1000)], vec!["CUSTOM_VNIC_TYPE_DIRECT".to_owned()]).await;
    }
}

/// Gives a host a second bridge that is like its first.
pub async fn give_twin(stage: &Stage, host: &str) {
    let placement = &stage.running.cloud.services.placement;
    let bridge = format!("{host}:Open vSwitch agent:br-physnet0");
    let all = placement.provider_tree().await.expect("providers");
    let (first, agent) = all.into_iter().find(|(provider, _)| provider.name == bridge).expect("a bridge");
    let (uuid, name) = (stage.world().env.uuid(), format!("{host}:Open vSwitch agent:br-twin"));
    placement.ensure_provider(uuid, &name, first.inventories.clone(), first.traits.clone()).await.expect("a provider");
    placement.update_provider(Identity { uuid, name, parent: agent }).await.expect("a parent");
}

/// Adds a provider below another.
async fn below(stage: &Stage, parent: Uuid, uuid: Uuid, name: &str, stock: &[(&str, i64)], traits: Vec<String>) {
    let placement = &stage.running.cloud.services.placement;
    let inventory = |total: i64| Inventory { total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio: 1.0 };
    let stock = stock.iter().map(|(class, total)| ((*class).to_owned(), inventory(*total))).collect();
    placement.ensure_provider(uuid, name, stock, traits).await.expect("a provider");
    placement.update_provider(Identity { uuid, name: name.to_owned(), parent: Some(parent) }).await.expect("a parent");
}

/// Makes a policy that guarantees this, for everybody.
pub async fn policy(stage: &Stage, minimum: Minimum) -> String {
    let policies = "/network/v2.0/qos/policies";
    let made = stage.admin.post(policies, json!({"policy": {"name": "minimum", "shared": true}})).await.expect(201).body;
    let policy = made["policy"]["id"].as_str().expect("a policy").to_owned();
    for (direction, amount) in [("egress", minimum.egress), ("ingress", minimum.ingress)] {
        if amount > 0 {
            let rule = json!({"minimum_bandwidth_rule": {"min_kbps": amount, "direction": direction}});
            stage.admin.post(&format!("{policies}/{policy}/minimum_bandwidth_rules"), rule).await.expect(201);
        }
    }
    if minimum.packets > 0 {
        let rule = json!({"minimum_packet_rate_rule": {"min_kpps": minimum.packets, "direction": "any"}});
        stage.admin.post(&format!("{policies}/{policy}/minimum_packet_rate_rules"), rule).await.expect(201);
    }
    policy
}

/// Makes a port of the member's on the first network, with these further attributes.
pub async fn port(stage: &Stage, further: Value) -> Uuid {
    port_of(&stage.member, further).await
}

/// As [`port`], a user's.
pub async fn port_of(user: &User, further: Value) -> Uuid {
    let networks = user.get("/network/v2.0/networks").await.expect(200).body;
    let mut body = json!({"port": {"network_id": networks["networks"][0]["id"]}});
    body["port"].as_object_mut().expect("a port").extend(further.as_object().expect("attributes").clone());
    let made = user.post("/network/v2.0/ports", body).await.expect(201).body;
    made["port"]["id"].as_str().expect("an id").parse().expect("an id")
}

/// Everything that a server has of networks, in lines: who holds how much of which provider, and
/// the providers that each binding names.
pub async fn ledger(stage: &Stage, server: Uuid, migration: Option<Uuid>) -> Vec<String> {
    let providers = stage.world().placement.providers().await.expect("providers");
    let names: BTreeMap<Uuid, &Provider> = providers.iter().map(|provider| (provider.uuid, provider)).collect();
    let name = |provider: &Uuid| names.get(provider).map_or_else(|| "nobody".to_owned(), |provider| provider.name.clone());
    let mut lines = Vec::new();
    for (who, consumer) in [("server", Some(server)), ("migration", migration)] {
        let Some(consumer) = consumer else { continue };
        let held = stage.world().placement.allocations_of(consumer).await.expect("allocations");
        for (provider, amounts) in held.iter().flat_map(|held| &held.allocations) {
            let amounts: Vec<String> =
                amounts.iter().filter(|(class, _)| class.starts_with("NET_")).map(|(c, a)| format!("{a} {c}")).collect();
            if !amounts.is_empty() {
                lines.push(format!("{who} holds {} of {}", amounts.join(", "), name(provider)));
            }
        }
    }
    for (number, port) in ports(stage, server).await.iter().enumerate() {
        for binding in &port.bindings {
            let providers: Vec<String> = binding.allocation().map(providers_named).unwrap_or_default().iter().map(name).collect();
            let providers = if providers.is_empty() { "nothing".to_owned() } else { providers.join(", ") };
            lines.push(format!("port {number} {} on {}: {providers}", binding.status, binding.host));
        }
    }
    lines.sort();
    lines
}

/// Returns the server's ports in the order of their making.
pub async fn ports(stage: &Stage, server: Uuid) -> Vec<Port> {
    stage.world().network.ports_of(server).await.expect("ports")
}

/// A place in an expected ledger: who holds what the ports ask for there, and the state of their bindings.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    pub host: &'a str,
    /// `server`, `migration`, or nobody.
    pub holder: Option<&'a str>,
    /// The status of the bindings; none if there are none.
    pub status: Option<&'a str>,
}

/// Checks that the server's ports have at these places what they ask for, and nowhere else anything.
pub async fn expect(stage: &Stage, server: Uuid, migration: Option<Uuid>, places: &[At<'_>]) {
    let holdings = ledger(stage, server, migration).await;
    let mut expected = Vec::new();
    let providers = stage.world().placement.providers().await.expect("providers");
    let names: BTreeMap<Uuid, &str> = providers.iter().map(|provider| (provider.uuid, provider.name.as_str())).collect();
    for At { host, holder, status } in places {
        let mut held: BTreeMap<&str, BTreeMap<String, i64>> = BTreeMap::new();
        for (number, port) in ports(stage, server).await.iter().enumerate() {
            let request = PortRequest::read(port.id, port.resource_request.as_ref()).expect("a request");
            let binding = port.bindings.iter().find(|binding| binding.host == *host);
            let grants = match (&request, binding.and_then(|binding| binding.allocation())) {
                (Some(request), Some(allocation)) => {
                    request.grants(allocation).unwrap_or_else(|why| panic!("port {number} on {host}: {why}"))
                }
                _ => Vec::new(),
            };
            let of: Vec<&str> = grants.iter().map(|grant| names[&grant.provider]).collect();
            assert!(of.iter().all(|name| name.starts_with(&format!("{host}:"))), "port {number} on {host}: {of:?}\n{holdings:#?}");
            assert!(status.is_none() || request.is_some() != of.is_empty(), "port {number}: {holdings:#?}");
            for grant in &grants {
                let sums = held.entry(names[&grant.provider]).or_default();
                for (class, amount) in &grant.resources {
                    *sums.entry(class.clone()).or_default() += amount;
                }
            }
            if let Some(status) = status {
                let charges = binding.and_then(|binding| binding.allocation()).map(providers_named).unwrap_or_default();
                let charges: Vec<&str> = charges.iter().map(|provider| names[provider]).collect();
                let charges = if charges.is_empty() { "nothing".to_owned() } else { charges.join(", ") };
                expected.push(format!("port {number} {status} on {host}: {charges}"));
            }
        }
        for (name, amounts) in held.iter().filter(|_| holder.is_some()) {
            let amounts: Vec<String> = amounts.iter().map(|(class, amount)| format!("{amount} {class}")).collect();
            expected.push(format!("{} holds {} of {name}", holder.unwrap_or_default(), amounts.join(", ")));
        }
    }
    expected.sort();
    assert_eq!(holdings, expected, "at {places:#?}");
    functions_are(stage, server, places).await;
    usage_is(stage, &[Some(server), migration]).await;
}

/// Checks that the server's direct ports have at these places a function of the charged physical function, which their bindings name, and
/// nowhere else any function.
async fn functions_are(stage: &Stage, server: Uuid, places: &[At<'_>]) {
    let providers = stage.world().placement.providers().await.expect("providers");
    let mut expected = BTreeSet::new();
    for port in ports(stage, server).await.iter().filter(|port| port.vnic_type == "direct") {
        for At { host, .. } in places.iter().filter(|place| place.holder.is_some()) {
            let binding = port.bindings.iter().find(|binding| binding.host == *host).unwrap_or_else(|| panic!("no binding to {host}"));
            let function = binding.function().unwrap_or_else(|| panic!("no function in {}", binding.profile));
            let request = PortRequest::read(port.id, port.resource_request.as_ref()).expect("a request").expect("a request");
            let grants = request.grants(binding.allocation().expect("an allocation")).expect("grants");
            let charged = grants.iter().find(|grant| grant.resources.contains_key(EGRESS)).expect("bandwidth").provider;
            let name = &providers.iter().find(|provider| provider.uuid == charged).expect("a provider").name;
            let device = name.rsplit(':').next().expect("a device").to_owned();
            expected.insert((host.to_string(), port.id, function.pci_slot, device, function.physical_network));
        }
    }
    assert_eq!(functions(stage, server).await, expected);
}

/// Returns the virtual functions that hosts have claimed for the server: host, port, address, physical function and physical network.
pub async fn functions(stage: &Stage, server: Uuid) -> BTreeSet<(String, Uuid, String, String, String)> {
    let mut claims = BTreeSet::new();
    for (cell, host) in [("cell1", "cell1-host1"), ("cell1", "cell1-host2"), ("cell2", "cell2-host1"), ("cell2", "cell2-host2")] {
        for (_, claim) in stage.report(cell, host).await.claims.into_iter().filter(|(holder, _)| *holder == server) {
            claims.extend(
                claim
                    .functions
                    .into_iter()
                    .map(|(port, one)| (host.to_owned(), port, one.pci_slot, one.parent_ifname, one.physical_network)),
            );
        }
    }
    claims
}

/// Checks that nobody else uses anything of any network.
async fn usage_is(stage: &Stage, consumers: &[Option<Uuid>]) {
    let mut sums: BTreeMap<(Uuid, String), i64> = BTreeMap::new();
    for consumer in consumers.iter().flatten().collect::<BTreeSet<_>>() {
        let held = stage.world().placement.allocations_of(*consumer).await.expect("allocations");
        for (provider, amounts) in held.into_iter().flat_map(|held| held.allocations) {
            for (class, amount) in amounts.into_iter().filter(|(class, _)| class.starts_with("NET_")) {
                *sums.entry((provider, class)).or_default() += amount;
            }
        }
    }
    for provider in stage.world().placement.providers().await.expect("providers") {
        for (class, used) in provider.usages.iter().filter(|(class, _)| class.starts_with("NET_")) {
            let expected = sums.get(&(provider.uuid, class.clone())).copied().unwrap_or_default();
            assert_eq!(*used, expected, "{class} of {}", provider.name);
        }
    }
}

/// The server holds everything on this host, and its bindings there are active.
pub fn settled(host: &str) -> [At<'_>; 1] {
    [At { host, holder: Some("server"), status: Some("ACTIVE") }]
}

/// The server holds everything on the target, and the migration everything on the source.
pub fn moved<'a>(source: &'a str, target: &'a str) -> [At<'a>; 2] {
    [
        At { host: source, holder: Some("migration"), status: Some("INACTIVE") },
        At { host: target, holder: Some("server"), status: Some("ACTIVE") },
    ]
}

/// Makes a server with one port that has this minimum, and returns it with its host.
pub async fn server_with(stage: &Stage, minimum: Minimum) -> (Uuid, String) {
    give_bridges(stage).await;
    let policy = policy(stage, minimum).await;
    let port = port(stage, json!({"qos_policy_id": policy})).await;
    let (server, host) = stage.create_on_a_host(stage.server().with("networks", json!([{"port": port}]))).await;
    (server, host)
}
