//! I15: a host's claims are those of its servers, and its compute node's usage equals a recount.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::explanations::Topic;
use super::report::{Findings, Violation};
use super::snapshot::{Phase, Snapshot};
use crate::domain::flavor::Resources;

/// Finds violations of I15 in hosts and compute nodes.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    let expected = expected_claims(snapshot);
    for name in snapshot.hosts.keys() {
        claims_are_the_servers(snapshot, name, &expected, &mut findings);
    }
    nodes_are_a_recount(snapshot, &mut findings);
    findings.done()
}

/// Returns the claims of each server at rest: the present flavor on its host, the old flavor at a source that keeps room for a revert.
fn expected_claims(snapshot: &Snapshot) -> BTreeMap<(String, Uuid), Resources> {
    let mut expected = BTreeMap::new();
    for server in snapshot.resting() {
        let backed = server.record.is_volume_backed();
        if let Some(host) = server.host() {
            expected.insert((host.to_owned(), server.id()), server.record.flavor.resources(backed));
        }
        if let (Phase::Verify(migration), Some(old)) = (server.phase, &server.record.old_flavor) {
            expected.insert((migration.source_compute.clone(), server.id()), old.resources(backed));
        }
    }
    expected
}

fn claims_are_the_servers(snapshot: &Snapshot, name: &str, expected: &BTreeMap<(String, Uuid), Resources>, findings: &mut Findings) {
    let Some(host) = snapshot.hosts.get(name) else { return };
    let claims: BTreeMap<Uuid, Resources> = host.report.claims.iter().map(|(holder, claim)| (*holder, claim.room)).collect();
    let subject = format!("host {name}");
    for (holder, amount) in &claims {
        let room = expected.get(&(name.to_owned(), *holder));
        if room == Some(amount) || snapshot.busy.contains(holder) || snapshot.is_in_flight(*holder) || snapshot.is_out_of_sight(*holder) {
            continue;
        }
        let message = match room {
            Some(room) => format!("server {holder} has claimed {}, expected {}", words(amount), words(room)),
            None => format!("server {holder} has claimed {}, expected no claim: it is not here", words(amount)),
        };
        findings.about(*holder, Topic::Host, "I15", &subject, message);
    }
    for ((_, server), room) in expected.iter().filter(|((host, server), _)| host == name && !claims.contains_key(server)) {
        findings.about(*server, Topic::Host, "I15", &subject, format!("server {server} has no claim, expected {}", words(room)));
    }
}

fn words(amount: &Resources) -> String {
    format!("{} VCPU, {} MEMORY_MB, {} DISK_GB", amount.vcpu, amount.memory_mb, amount.disk_gb)
}

/// A compute node that was counted after the last operation agrees with its cell's records. One that was counted before is still due.
fn nodes_are_a_recount(snapshot: &Snapshot, findings: &mut Findings) {
    let last_change = snapshot.sagas.iter().map(|saga| saga.updated_at).max();
    if !snapshot.busy.is_empty() {
        return;
    }
    for cell in snapshot.cells.values() {
        for node in &cell.records.compute_nodes {
            let counted_at = node.updated_at.unwrap_or(node.created_at);
            if last_change.is_some_and(|last| counted_at <= last) {
                continue;
            }
            let mut used = Resources::default();
            for record in cell.records.instances.iter().filter(|record| record.host.as_deref() == Some(&node.host)) {
                let one = record.flavor.resources(record.is_volume_backed());
                used.vcpu += one.vcpu;
                used.memory_mb += one.memory_mb;
                used.disk_gb += one.disk_gb;
            }
            let recorded =
                Resources { vcpu: node.vcpus_used.into(), memory_mb: node.memory_mb_used.into(), disk_gb: node.local_gb_used.into() };
            if recorded != used {
                let message =
                    format!("its compute node shows {} in use, expected {}, what its servers take", words(&recorded), words(&used));
                findings.add("I15", format!("host {}", node.host), message);
            }
        }
    }
}
