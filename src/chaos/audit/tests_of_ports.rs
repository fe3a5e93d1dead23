//! The rules for ports that ask for resources, each broken once. Server A's port has its bandwidth from a bridge below h1; server R moved
//! from that bridge to one below h2, and waits for confirm.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::fixture::{A, MOVE, NODE1, NODE2, R, expect_among, expect_none, expect_one, port_of};
use super::snapshot::Snapshot;
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
    let asked = |amount: i64| move |snapshot: &mut Snapshot| port(snapshot, A).resource_request = Some(json!({"resources": {BW: amount}}));
    expect_one("I4", "it holds 1000 NET_BW_EGR_KILOBIT_PER_SEC of h1:br of networks, expected 700", broken(asked(700)));
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
