//! I1 and I2: at most one guest of a server runs, and only on its owner. Also compares the fences of hosts and databases (a part of I13).

use std::collections::BTreeMap;

use uuid::Uuid;

use super::explanations::Topic;
use super::report::{Findings, Violation, list};
use super::snapshot::{Resting, Snapshot};
use crate::db::api::ownership::Ownership;
use crate::domain::host_protocol::GuestReport;
use crate::domain::server::{PowerState, VmState};

/// Finds violations of I1, I2 and I13.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    one_guest_runs(snapshot, &mut findings);
    guests_run_where_they_are_owned(snapshot, &mut findings);
    for server in snapshot.resting() {
        owner_is_the_records_host(snapshot, &server, &mut findings);
        power_is_the_records(snapshot, &server, &mut findings);
    }
    no_fence_is_ahead(snapshot, &mut findings);
    findings.done()
}

fn runs(guest: &GuestReport) -> bool {
    guest.power_state == PowerState::Running
}

/// I1 holds always: the collection asks again if two guests seem to run.
fn one_guest_runs(snapshot: &Snapshot, findings: &mut Findings) {
    let mut running: BTreeMap<Uuid, Vec<&str>> = BTreeMap::new();
    for (name, host) in &snapshot.hosts {
        for guest in host.report.guests.iter().filter(|guest| runs(guest)) {
            running.entry(guest.server).or_default().push(name);
        }
    }
    for (server, hosts) in running.into_iter().filter(|(_, hosts)| hosts.len() > 1) {
        let message = format!("its guest runs on {} hosts at once ({}), expected at most one", hosts.len(), hosts.join(", "));
        findings.add("I1", format!("server {server}"), message);
    }
}

/// I2: a guest runs only on its owner and for the present epoch. While an operation is in flight only the epoch can be checked.
fn guests_run_where_they_are_owned(snapshot: &Snapshot, findings: &mut Findings) {
    for (name, host) in &snapshot.hosts {
        for guest in host.report.guests.iter().filter(|guest| runs(guest)) {
            let subject = format!("server {}", guest.server);
            let Some(row) = snapshot.ownership.get(&guest.server) else {
                findings.add("I2", subject, format!("its guest runs on {name}, expected none: the server has no owner host"));
                continue;
            };
            if guest.started_epoch > row.epoch {
                let message = format!(
                    "its guest on {name} was started for epoch {}, expected at most the committed {}",
                    guest.started_epoch, row.epoch
                );
                findings.add("I2", subject, message);
            } else if !snapshot.busy.contains(&guest.server) {
                if row.owner != Some((host.cell.clone(), name.clone())) {
                    findings.add("I2", subject, format!("its guest runs on {name}, expected it only on its owner ({})", owner_of(row)));
                } else if guest.started_epoch != row.epoch {
                    let message =
                        format!("its guest on {name} was started for epoch {}, expected the present {}", guest.started_epoch, row.epoch);
                    findings.add("I2", subject, message);
                }
            }
        }
    }
}

fn owner_of(row: &Ownership) -> String {
    row.owner.as_ref().map_or_else(|| "nobody".to_owned(), |(cell, host)| format!("{host} in {cell}"))
}

/// I2 at rest: the visible record and the ownership row name the same host.
fn owner_is_the_records_host(snapshot: &Snapshot, server: &Resting, findings: &mut Findings) {
    let owner = snapshot.ownership.get(&server.id()).and_then(|row| row.owner.clone());
    let expected = server.host().map(|host| (server.cell.to_owned(), host.to_owned()));
    if owner != expected {
        let place_text = |place: &Option<(String, String)>| {
            place.as_ref().map_or_else(|| "nobody".to_owned(), |(cell, host)| format!("{host} in {cell}"))
        };
        let message = format!("its owner is {}, expected {}, where its record says it is", place_text(&owner), place_text(&expected));
        findings.about(server.id(), Topic::Guest, "I2", format!("server {}", server.id()), message);
    }
}

/// I2 at rest: the guest runs exactly if the record says so. Skips a host that is stopped.
fn power_is_the_records(snapshot: &Snapshot, server: &Resting, findings: &mut Findings) {
    let Some(host) = server.host() else { return };
    let Some(guest) = snapshot.guests_of(server.id()).find(|(name, _)| *name == host).map(|(_, guest)| guest) else { return };
    let expected = match server.record.vm_state {
        VmState::Active => PowerState::Running,
        VmState::Stopped | VmState::Shelved | VmState::SoftDeleted => PowerState::Shutdown,
        VmState::Paused => PowerState::Paused,
        VmState::Suspended => PowerState::Suspended,
        // Nova leaves a rescued server whose guest went off in RESCUE, and so does power following.
        VmState::Resized | VmState::Rescued => server.record.power_state,
        VmState::Building | VmState::Error | VmState::Deleted | VmState::ShelvedOffloaded => return,
    };
    let has_state = |power: PowerState| power != PowerState::NoState;
    if guest.defined && has_state(guest.power_state) && has_state(expected) && guest.power_state != expected {
        let word = |power| match power {
            PowerState::Running => "running",
            PowerState::Paused => "paused",
            PowerState::Suspended => "suspended",
            PowerState::NoState | PowerState::Shutdown => "off",
        };
        let message = format!(
            "its guest on {host} is {}, expected {}: the server is {}",
            word(guest.power_state),
            word(expected),
            server.record.vm_state
        );
        findings.about(server.id(), Topic::Guest, "I2", format!("server {}", server.id()), message);
    }
}

/// I13: nobody has obeyed a fence that was never given out. A server without counters is gone, and is forgotten by each participant at its
/// own time.
fn no_fence_is_ahead(snapshot: &Snapshot, findings: &mut Findings) {
    let on_hosts = snapshot
        .hosts
        .iter()
        .flat_map(|(name, host)| host.report.guests.iter().map(move |guest| (format!("host {name}"), guest.server, guest.fence)));
    let in_cells = snapshot.cells.iter().flat_map(|(name, cell)| {
        cell.records.fences.iter().map(move |(server, fence)| (format!("the database of {name}"), *server, *fence))
    });
    for (who, server, (epoch, attempt)) in on_hosts.chain(in_cells) {
        let Some(row) = snapshot.ownership.get(&server) else { continue };
        let limit = (row.epoch, row.attempt);
        if epoch > limit.0 || attempt > limit.1 {
            let message =
                format!("{who} has obeyed fence ({epoch}, {attempt}), expected at most {}", list([format!("({}, {})", limit.0, limit.1)]));
            findings.add("I13", format!("server {server}"), message);
        }
    }
}
