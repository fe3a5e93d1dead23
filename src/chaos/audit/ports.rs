//! I14 for ports: one ACTIVE binding on the server's host, an INACTIVE one at the source of a move that waits for confirm, and no others
//! (INVARIANTS D5).

use std::collections::BTreeMap;

use uuid::Uuid;

use super::explanations::Topic;
use super::report::{Findings, Violation, list};
use super::snapshot::{Resting, Snapshot};
use crate::services::network::Port;

/// Finds violations of I14 in ports and their bindings.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    let Some(ports) = &snapshot.ports else { return findings.done() };
    let resting: BTreeMap<Uuid, Resting<'_>> = snapshot.resting().into_iter().map(|server| (server.id(), server)).collect();
    for port in ports {
        match port.server.and_then(|server| resting.get(&server)) {
            Some(server) => bindings_fit_the_phase(server, port, &mut findings),
            None => no_binding_of_nobody(snapshot, port, &mut findings),
        }
    }
    findings.done()
}

fn bindings_fit_the_phase(server: &Resting, port: &Port, findings: &mut Findings) {
    let mut expected: Vec<(&str, &str)> = Vec::new();
    expected.extend(server.source_host().map(|host| (host, "INACTIVE")));
    expected.extend(server.host().map(|host| (host, "ACTIVE")));
    let mut present: Vec<(&str, &str)> = port.bindings.iter().map(|binding| (binding.host.as_str(), binding.status.as_str())).collect();
    expected.sort_unstable();
    present.sort_unstable();
    if present != expected {
        let words = |bindings: &[(&str, &str)]| list(bindings.iter().map(|(host, status)| format!("{status} on {host}")));
        let mut message = format!("its bindings are {}, expected {}, for server {}", words(&present), words(&expected), server.id());
        let stray = present.iter().find(|(host, _)| !expected.iter().any(|(place, _)| place == host));
        if let Some((host, _)) = stray {
            message += &format!(" (`DELETE /network/v2.0/ports/{}/bindings/{host}` removes the stray one)", port.id);
        } else if server.source_host().is_none() {
            message += " (a hard reboot of the server binds it)";
        }
        findings.about(server.id(), Topic::Ports, "I14", format!("port {}", port.id), message);
    }
}

fn no_binding_of_nobody(snapshot: &Snapshot, port: &Port, findings: &mut Findings) {
    let subject = format!("port {}", port.id);
    let hosts = list(port.bindings.iter().map(|binding| binding.host.as_str()));
    match port.server {
        Some(server) if snapshot.is_known(server) => {}
        Some(server) => {
            let message = format!("it belongs to server {server} (bindings: {hosts}), expected no port: there is no such server");
            findings.about(server, Topic::Ports, "I14", subject, message);
        }
        None if port.device_id.is_empty() && !port.bindings.is_empty() => {
            findings.add("I14", subject, format!("it is bound (bindings: {hosts}) but belongs to nobody, expected no binding"));
        }
        // An administrator has bound the port for another device.
        None => {}
    }
}
