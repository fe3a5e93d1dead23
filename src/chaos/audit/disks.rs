//! I16 as far as it can be seen at rest, and I14 for hosts: the guest is on its host with its volumes and ports, a source that waits for
//! confirm keeps the disks, and hosts keep nothing else.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::explanations::Topic;
use super::report::{Findings, Violation, list};
use super::snapshot::{Resting, Snapshot};
use super::volumes::devices_of;
use crate::domain::host_protocol::GuestReport;
use crate::domain::server::VmState;

/// Finds violations of I14 and I16 on hosts.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    let resting = snapshot.resting();
    for server in &resting {
        guest_is_on_its_host(snapshot, server, &mut findings);
        source_keeps_the_disks(snapshot, server, &mut findings);
    }
    nothing_is_left(snapshot, &resting, &mut findings);
    findings.done()
}

fn guest_on<'a>(snapshot: &'a Snapshot, server: Uuid, host: &str) -> Option<&'a GuestReport> {
    snapshot.guests_of(server).find(|(name, _)| *name == host).map(|(_, guest)| guest)
}

fn guest_is_on_its_host(snapshot: &Snapshot, server: &Resting, findings: &mut Findings) {
    let Some(host) = server.host().filter(|host| snapshot.hosts.contains_key(*host)) else { return };
    let recoverable = matches!(server.record.vm_state, VmState::Error | VmState::Building | VmState::Deleted);
    let subject = format!("server {}", server.id());
    let Some(guest) = guest_on(snapshot, server.id(), host).filter(|guest| guest.defined) else {
        if !recoverable {
            findings.about(
                server.id(),
                Topic::Guest,
                "I16",
                subject,
                format!("{host} has no guest of it, expected one: the server is {}", server.record.vm_state),
            );
        }
        return;
    };
    if recoverable {
        return;
    }
    let connected: BTreeSet<Uuid> = guest.volumes.iter().copied().collect();
    let expected: BTreeSet<Uuid> = devices_of(snapshot, server).iter().filter_map(|device| device.volume_id).collect();
    if connected != expected {
        let message = format!("its guest on {host} has volumes {}, expected {} as on its record", list(&connected), list(&expected));
        findings.about(server.id(), Topic::Volumes, "I16", &subject, message);
    }
    if let Some(ports) = &snapshot.ports {
        let plugged: BTreeSet<Uuid> = guest.ports.iter().copied().collect();
        let own: BTreeSet<Uuid> = ports.iter().filter(|port| port.server == Some(server.id())).map(|port| port.id).collect();
        // A port that its user deleted leaves an interface without a network. A missing interface is a violation.
        if !own.is_subset(&plugged) {
            let message = format!("its guest on {host} has ports {}, expected {}, those of the server", list(&plugged), list(&own));
            findings.about(server.id(), Topic::Ports, "I14", &subject, message);
        }
    }
}

fn source_keeps_the_disks(snapshot: &Snapshot, server: &Resting, findings: &mut Findings) {
    let Some(source) = server.source_host().filter(|host| snapshot.hosts.contains_key(*host)) else { return };
    let subject = format!("server {}", server.id());
    match guest_on(snapshot, server.id(), source) {
        None => {
            let message = format!("{source} has kept nothing of it, expected its disks until the move is confirmed or reverted");
            findings.about(server.id(), Topic::Host, "I16", subject, message);
        }
        Some(guest) if guest.defined => {
            let message = format!("{source} still has a guest of it, expected only its disks until the move is confirmed or reverted");
            findings.about(server.id(), Topic::Host, "I14", subject, message);
        }
        Some(_) => {}
    }
}

/// Checks that hosts only hold guests and disks of an existing server, or for a revert.
fn nothing_is_left(snapshot: &Snapshot, resting: &[Resting], findings: &mut Findings) {
    for (name, host) in &snapshot.hosts {
        for guest in &host.report.guests {
            let server = guest.server;
            if snapshot.busy.contains(&server) || snapshot.is_out_of_sight(server) {
                continue;
            }
            let subject = format!("host {name}");
            for file in &guest.leftovers {
                findings.about(
                    server,
                    Topic::Host,
                    "I14",
                    &subject,
                    format!("{file} of server {server} is left, expected nothing of a copy that is over"),
                );
            }
            let belongs =
                resting.iter().filter(|row| row.id() == server).any(|row| row.host() == Some(name) || row.source_host() == Some(name));
            // An export alone appears as a report without a guest or disks.
            let holds = guest.defined || guest.leftovers.is_empty();
            if !belongs && holds {
                let what = if guest.defined { "a guest" } else { "disks" };
                findings.about(
                    server,
                    Topic::Host,
                    "I14",
                    &subject,
                    format!("it has {what} of server {server}, expected nothing: the server is not here"),
                );
            }
        }
    }
}
