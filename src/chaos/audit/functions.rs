//! I15 for virtual functions: each port that takes one has claimed it at its host, below the physical function that placement has charged,
//! and its binding names it. No function has two claims.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::explanations::Topic;
use super::report::{Findings, Violation};
use super::snapshot::{Resting, Snapshot};
use crate::domain::host_network::{EGRESS_BANDWIDTH, INGRESS_BANDWIDTH, VirtualFunction, device_in, takes_function};
use crate::domain::port_request::PortRequest;
use crate::services::network::{Port, PortBinding};

/// Finds violations of I15 in the virtual functions of hosts.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    no_function_is_claimed_twice(snapshot, &mut findings);
    let Some(ports) = &snapshot.ports else { return findings.done() };
    for server in snapshot.resting() {
        for host in server.host().into_iter().chain(server.source_host()).collect::<BTreeSet<_>>() {
            at_host(snapshot, &server, host, ports, &mut findings);
        }
    }
    findings.done()
}

fn no_function_is_claimed_twice(snapshot: &Snapshot, findings: &mut Findings) {
    for (name, host) in &snapshot.hosts {
        let mut holders: BTreeMap<&str, Uuid> = BTreeMap::new();
        for (holder, function) in
            host.report.claims.iter().flat_map(|(holder, claim)| claim.functions.values().map(move |one| (holder, one)))
        {
            if let Some(other) = holders.insert(&function.pci_slot, *holder) {
                let message = format!("server {holder} has claimed virtual function {}, which server {other} has", function.pci_slot);
                findings.about(*holder, Topic::Host, "I15", format!("host {name}"), message);
            }
        }
    }
}

/// Compares the functions that the server has claimed at a host with its ports' bindings there.
fn at_host(snapshot: &Snapshot, server: &Resting, host: &str, ports: &[Port], findings: &mut Findings) {
    let Some(report) = snapshot.hosts.get(host).map(|host| &host.report) else { return };
    let claim = report.claims.iter().find(|(holder, _)| *holder == server.id());
    let mut claimed: BTreeMap<Uuid, &VirtualFunction> =
        claim.iter().flat_map(|(_, claim)| claim.functions.iter().map(|(port, function)| (*port, function))).collect();
    for port in ports.iter().filter(|port| port.server == Some(server.id())) {
        let Some(binding) = port.bindings.iter().find(|binding| binding.host == host) else { continue };
        if let Some(why) = mismatch(snapshot, port, binding, claimed.remove(&port.id))
            && !snapshot.is_explained(server.id(), Topic::Ports)
        {
            findings.about(server.id(), Topic::Host, "I15", format!("port {}", port.id), why);
        }
    }
    // A port that its user has deleted is unknown by now. Its function returns when its interface leaves the server.
    for port in ports.iter().filter(|port| claimed.contains_key(&port.id)) {
        let message = format!("server {} has claimed a virtual function at {host}, expected none: it is not bound there", server.id());
        findings.about(server.id(), Topic::Host, "I15", format!("port {}", port.id), message);
    }
}

/// Returns what is wrong with a port's function at its binding's host.
fn mismatch(snapshot: &Snapshot, port: &Port, binding: &PortBinding, claimed: Option<&VirtualFunction>) -> Option<String> {
    let host = &binding.host;
    let slot = binding.function().map(|function| function.pci_slot);
    let expected = takes_function(&binding.vnic_type) && port.physical_network.is_some() && binding.allocation().is_some();
    match (slot, claimed) {
        (None, None) if expected => Some(format!("it has no virtual function at {host}, expected one: it is a {} port", binding.vnic_type)),
        // An operator may name a function by hand for a port without an allocation.
        (_, None) if !expected => None,
        (Some(slot), Some(claimed)) if slot == claimed.pci_slot => wrong_parent(snapshot, port, binding, claimed),
        (slot, claimed) => {
            let words = |slot: Option<&str>| slot.unwrap_or("none").to_owned();
            let (slot, claimed) = (words(slot.as_deref()), words(claimed.map(|function| function.pci_slot.as_str())));
            Some(format!("its binding to {host} names the virtual function {slot}, and {host} has claimed {claimed} for it"))
        }
    }
}

/// Returns what is wrong if the function does not belong to the physical function that gives the port its bandwidth.
fn wrong_parent(snapshot: &Snapshot, port: &Port, binding: &PortBinding, claimed: &VirtualFunction) -> Option<String> {
    let request = PortRequest::read(port.id, port.resource_request.as_ref()).ok().flatten()?;
    let grants = request.grants(binding.allocation()?).ok()?;
    let is_bandwidth = |class: &String| [EGRESS_BANDWIDTH, INGRESS_BANDWIDTH].contains(&class.as_str());
    let charged = grants.iter().find(|grant| grant.resources.keys().any(is_bandwidth))?.provider;
    let provider = snapshot.placement.as_ref()?.providers.iter().find(|provider| provider.uuid == charged)?;
    (device_in(&provider.name)? != claimed.parent_ifname).then(|| {
        format!(
            "its virtual function {} belongs to {} at {}, expected the device of {}, which is charged for it",
            claimed.pci_slot, claimed.parent_ifname, binding.host, provider.name
        )
    })
}
