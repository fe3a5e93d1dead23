//! The rules for ports that ask for resources, each broken once. Server A's port has its bandwidth from a bridge below h1; server R moved
//! from that bridge to one below h2, and waits for confirm.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::fixture::{A, MOVE, NODE1, NODE2, R, expect_among, expect_none, expect_one, port_of};
use super::snapshot::Snapshot;
use crate::domain::host_network::{VirtualFunction, provider_id};
use crate::domain::host_protocol::HostClaim;
use crate::services::network::Port;
use crate::services::placement::{Inventory, Provider};

const BW: &str = "NET_BW_EGR_KILOBIT_PER_SEC";
const BRIDGE1: Uuid = Uuid::from_u128(0x21);
const BRIDGE2: Uuid = Uuid::from_u128(0x22);

fn bridge(uuid: Uuid, name: &str, used: i64) -> Provider {
    let stock = Inventory { total: 10_000, reserved: 0, min_unit: 1, max_unit: 10_000, step_size: 1, allocation_ratio: 1.0 };
    Provider {
        uuid,
        name: name.into(),
        generation: 1,
        inventories: BTreeMap::from([(BW.to_owned(), stock)]),
        usages: BTreeMap::from([(BW.to_owned(), used)]),
        traits: Vec::new(),
        aggregates: Vec::new(),
    }
}

fn port(snapshot: &mut Snapshot, server: Uuid) -> &mut Port {
    snapshot.ports.as_mut().unwrap().iter_mut().find(|port| port.id == port_of(server)).unwrap()
}

fn name(snapshot: &mut Snapshot, server: Uuid, host: &str, allocation: Value) {
    let bindings = &mut port(snapshot, server).bindings;
    bindings.iter_mut().find(|binding| binding.host == host).unwrap().profile = json!({"allocation": allocation});
}

fn give(snapshot: &mut Snapshot, consumer: Uuid, provider: Uuid, amount: i64) {
    let held = &mut snapshot.placement.as_mut().unwrap().allocations;
    let held = held.iter_mut().find(|held| held.consumer == consumer).unwrap();
    held.allocations.insert(provider, BTreeMap::from([(BW.to_owned(), amount)]));
}

/// Gives both servers a port that asks for 1000, and what belongs to it.
fn with_bandwidth(snapshot: &mut Snapshot) {
    let placement = snapshot.placement.as_mut().unwrap();
    placement.providers.extend([bridge(BRIDGE1, "h1:br", 2000), bridge(BRIDGE2, "h2:br", 1000)]);
    placement.parents.extend([(BRIDGE1, NODE1), (BRIDGE2, NODE2)]);
    for server in [A, R] {
        port(snapshot, server).resource_request = Some(json!({"resources": {BW: 1000}, "required": []}));
    }
    name(snapshot, A, "h1", json!(BRIDGE1));
    name(snapshot, R, "h1", json!(BRIDGE1));
    name(snapshot, R, "h2", json!(BRIDGE2));
    for (consumer, provider) in [(A, BRIDGE1), (MOVE, BRIDGE1), (R, BRIDGE2)] {
        give(snapshot, consumer, provider, 1000);
    }
}

fn broken(breaking: impl FnOnce(&mut Snapshot)) -> impl FnOnce(&mut Snapshot) {
    move |snapshot| {
        with_bandwidth(snapshot);
        breaking(snapshot);
    }
}

#[test]
fn ports_with_their_providers_are_no_violation() {
    expect_none(with_bandwidth);
}

#[test]
fn a_port_that_asks_has_an_allocation_and_no_other_has() {
    expect_among("I14", "has no allocation", broken(|snapshot| name(snapshot, A, "h1", Value::Null)));
    expect_among("I14", "it asks for nothing", broken(|snapshot| port(snapshot, A).resource_request = None));
    expect_among(
        "I14",
        "names no provider for the group",
        broken(|snapshot| {
            port(snapshot, A).resource_request = Some(json!({"request_groups": [
                {"id": Uuid::from_u128(1), "resources": {BW: 500}, "required": []}, {"id": Uuid::from_u128(2), "resources": {BW: 500}, "required": []},
            ]}));
            name(snapshot, A, "h1", json!({Uuid::from_u128(1).to_string(): BRIDGE1}));
        }),
    );
}

#[test]
fn a_ports_provider_lies_below_its_host() {
    expect_among("I14", "names h2:br, expected a provider below h1", broken(|snapshot| name(snapshot, A, "h1", json!(BRIDGE2))));
    let unknown = Uuid::from_u128(0x99);
    expect_among("I14", "which does not exist", broken(|snapshot| name(snapshot, A, "h1", json!(unknown))));
}

#[test]
fn the_server_holds_what_its_ports_ask_for() {
    let request =
        |amount: i64| move |snapshot: &mut Snapshot| port(snapshot, A).resource_request = Some(json!({"resources": {BW: amount}}));
    expect_one("I4", "it holds 1000 NET_BW_EGR_KILOBIT_PER_SEC of h1:br of networks, expected 700", broken(request(700)));
}

#[test]
fn the_move_holds_what_a_revert_needs() {
    expect_one("I4", "it holds something of h1:br, expected of none", broken(|snapshot| name(snapshot, R, "h1", Value::Null)));
}

#[test]
fn a_server_without_a_host_holds_nothing_of_networks() {
    expect_among("I4", "expected none", broken(|snapshot| port(snapshot, A).bindings.clear()));
}

#[test]
fn an_active_binding_is_held_at_each_step() {
    let busy = |snapshot: &mut Snapshot| {
        snapshot.busy.insert(A);
        snapshot.at_one_step.insert(A);
    };
    let held_by_nobody = move |snapshot: &mut Snapshot| {
        busy(snapshot);
        name(snapshot, A, "h1", json!(BRIDGE2));
    };
    expect_one("I14", "neither the server nor a move of it holds anything", broken(held_by_nobody));
}

/// Makes A's port a direct one that has its bandwidth from a physical function below h1, with the function that h1 has claimed for it.
fn with_function(snapshot: &mut Snapshot) {
    with_bandwidth(snapshot);
    let placement = snapshot.placement.as_mut().unwrap();
    placement.providers.iter_mut().find(|provider| provider.uuid == BRIDGE1).unwrap().name = "h1:NIC Switch agent:ens1".into();
    let direct = port(snapshot, A);
    (direct.vnic_type, direct.physical_network) = ("direct".into(), Some("physnet0".into()));
    direct.bindings[0].vnic_type = "direct".into();
    direct.bindings[0].profile = json!({
        "allocation": BRIDGE1, "pci_slot": "0000:80:00.1", "pci_vendor_info": "8086:1515", "physical_network": "physnet0"
    });
    claim_of(snapshot, A).functions.insert(port_of(A), function("0000:80:00.1", "ens1"));
}

fn function(slot: &str, parent: &str) -> VirtualFunction {
    VirtualFunction { pci_slot: slot.into(), parent_ifname: parent.into(), physical_network: "physnet0".into() }
}

fn claim_of(snapshot: &mut Snapshot, server: Uuid) -> &mut HostClaim {
    let report = &mut snapshot.hosts.get_mut("h1").unwrap().report;
    &mut report.claims.iter_mut().find(|(holder, _)| *holder == server).unwrap().1
}

fn misclaimed(breaking: impl FnOnce(&mut Snapshot)) -> impl FnOnce(&mut Snapshot) {
    move |snapshot| {
        with_function(snapshot);
        breaking(snapshot);
    }
}

#[test]
fn a_function_is_of_the_charged_physical_function() {
    expect_none(with_function);
    let of_other = |snapshot: &mut Snapshot| claim_of(snapshot, A).functions.get_mut(&port_of(A)).unwrap().parent_ifname = "ens2".into();
    expect_one("I15", "belongs to ens2 at h1, expected the device of h1:NIC Switch agent:ens1", misclaimed(of_other));
}

#[test]
fn a_binding_names_the_function_that_its_host_has_claimed() {
    let forgotten = |snapshot: &mut Snapshot| claim_of(snapshot, A).functions.clear();
    expect_one("I15", "names the virtual function 0000:80:00.1, and h1 has claimed none", misclaimed(forgotten));
    let unnamed = |snapshot: &mut Snapshot| name(snapshot, A, "h1", json!(BRIDGE1));
    expect_one("I15", "names the virtual function none, and h1 has claimed 0000:80:00.1", misclaimed(unnamed));
    let neither = |snapshot: &mut Snapshot| {
        claim_of(snapshot, A).functions.clear();
        name(snapshot, A, "h1", json!(BRIDGE1));
    };
    expect_one("I15", "has no virtual function at h1, expected one", misclaimed(neither));
    let unbound = |snapshot: &mut Snapshot| {
        claim_of(snapshot, R).functions.insert(port_of(A), function("0000:80:00.2", "ens1"));
    };
    expect_one("I15", "expected none: it is not bound there", misclaimed(unbound));
}

#[test]
fn no_function_is_claimed_by_two_servers() {
    let twice = |snapshot: &mut Snapshot| {
        claim_of(snapshot, R).functions.insert(Uuid::from_u128(0x77), function("0000:80:00.1", "ens1"));
    };
    expect_one("I15", "which server", misclaimed(twice));
}

#[test]
fn a_reported_provider_lies_below_its_own_host() {
    let agent = || bridge(provider_id("h1:Open vSwitch agent"), "h1:Open vSwitch agent", 0);
    let device = || bridge(provider_id("h1:Open vSwitch agent:br"), "h1:Open vSwitch agent:br", 0);
    let tree = |top: Uuid, above_device: Option<Uuid>| {
        move |snapshot: &mut Snapshot| {
            let placement = snapshot.placement.as_mut().unwrap();
            placement.providers.extend([agent(), device()]);
            placement.parents.insert(agent().uuid, top);
            placement.parents.extend(above_device.map(|above| (device().uuid, above)));
        }
    };
    expect_none(tree(NODE1, Some(agent().uuid)));
    expect_one("I15", "its parent is h2, expected h1", tree(NODE2, Some(agent().uuid)));
    expect_one("I15", "its parent is h1, expected h1:Open vSwitch agent", tree(NODE1, Some(NODE1)));
    expect_one("I15", "its parent is none, expected h1:Open vSwitch agent", tree(NODE1, None));
}

#[test]
fn no_chain_of_parents_is_lost() {
    let above = |parent: Uuid| {
        broken(move |snapshot| {
            snapshot.placement.as_mut().unwrap().parents.insert(BRIDGE1, parent);
        })
    };
    expect_among("I15", "which does not exist", above(Uuid::from_u128(0x99)));
    expect_among("I15", "its parents are a ring", above(BRIDGE1));
}
