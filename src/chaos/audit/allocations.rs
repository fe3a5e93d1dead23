//! I4: placement. No provider exceeds its capacity, each server at rest has the allocations of INVARIANTS D4, no consumer is without a
//! server or migration, and usage equals a recount (I15).

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::explanations::Topic;
use super::report::{Findings, Violation};
use super::snapshot::{Phase, PlacementSnapshot, Resting, Snapshot};
use crate::domain::flavor::Flavor;
use crate::services::placement::Allocations;

/// Finds violations of I4, and of I15's counters in placement.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    if let Some(placement) = &snapshot.placement {
        no_provider_is_over_capacity(placement, &mut findings);
        usage_is_a_recount(placement, &mut findings);
        let by_consumer: BTreeMap<Uuid, &Allocations> = placement.allocations.iter().map(|held| (held.consumer, held)).collect();
        for server in snapshot.resting() {
            allocations_fit_the_phase(snapshot, &by_consumer, &server, &mut findings);
        }
        no_consumer_of_nobody(snapshot, placement, &mut findings);
    }
    findings.done()
}

fn no_provider_is_over_capacity(placement: &PlacementSnapshot, findings: &mut Findings) {
    for provider in &placement.providers {
        for (class, used) in &provider.usages {
            let capacity = provider.inventories.get(class).map_or(0, |inventory| inventory.capacity());
            if *used > capacity {
                let message = format!("{used} {class} of {} are allocated, expected at most {capacity}", provider.name);
                findings.add("I4", format!("provider {}", provider.uuid), message);
            }
        }
    }
}

fn usage_is_a_recount(placement: &PlacementSnapshot, findings: &mut Findings) {
    if !placement.settled {
        return;
    }
    let mut counted: BTreeMap<(Uuid, &str), i64> = BTreeMap::new();
    for (provider, amounts) in placement.allocations.iter().flat_map(|held| &held.allocations) {
        for (class, amount) in amounts {
            *counted.entry((*provider, class)).or_default() += amount;
        }
    }
    for provider in &placement.providers {
        let classes: BTreeSet<&str> = provider.usages.keys().chain(provider.inventories.keys()).map(String::as_str).collect();
        for class in classes {
            let used = provider.usages.get(class).copied().unwrap_or_default();
            let counted = counted.get(&(provider.uuid, class)).copied().unwrap_or_default();
            if used != counted {
                let message = format!("its usage says {used} {class} on {}, expected {counted}, the sum of its allocations", provider.name);
                findings.add("I15", format!("provider {}", provider.uuid), message);
            }
        }
    }
}

/// Checks each server's allocations against INVARIANTS D4.
fn allocations_fit_the_phase(snapshot: &Snapshot, held: &BTreeMap<Uuid, &Allocations>, server: &Resting, findings: &mut Findings) {
    let backed = server.record.is_volume_backed();
    if let Some(source) = server.source_host()
        && let Phase::Verify(migration) = server.phase
    {
        let old = server.record.old_flavor.as_ref();
        compare(
            snapshot,
            held.get(&migration.uuid),
            server,
            &format!("migration {}", migration.uuid),
            Some((source, old, backed)),
            findings,
        );
    }
    let own = server.host().map(|host| (host, Some(&server.record.flavor), backed));
    compare(snapshot, held.get(&server.id()), server, &format!("server {}", server.id()), own, findings);
}

/// Compares a consumer's allocations on compute nodes with those of a flavor on one host, or with none.
fn compare(
    snapshot: &Snapshot,
    held: Option<&&Allocations>,
    server: &Resting,
    consumer: &str,
    expected: Option<(&str, Option<&Flavor>, bool)>,
    findings: &mut Findings,
) {
    let nodes: BTreeMap<Uuid, &str> =
        snapshot.cells.values().flat_map(|cell| &cell.records.compute_nodes).map(|node| (node.uuid, node.host.as_str())).collect();
    let on_nodes: BTreeMap<&str, &BTreeMap<String, i64>> =
        held.iter().flat_map(|held| &held.allocations).filter_map(|(provider, amounts)| Some((*nodes.get(provider)?, amounts))).collect();
    let mut wrong = |message: String| findings.about(server.id(), Topic::Allocations, "I4", consumer, message);
    let Some((host, flavor, backed)) = expected else {
        if !on_nodes.is_empty() {
            wrong(format!("it has an allocation on {}, expected none: the server has no host", first(&on_nodes)));
        }
        return;
    };
    // The nodes of a silent cell are unknown.
    if snapshot.node_of(host).is_none() {
        return;
    }
    let mend = match consumer.strip_prefix("server ") {
        Some(id) => format!(" (`cellshift heal-allocations --server {id}` gives it that)"),
        None => String::new(),
    };
    match on_nodes.get(host) {
        None => wrong(format!("it has no allocation on {host}, expected {}{mend}", words(&demand(flavor, backed)))),
        Some(amounts) if !flavor.is_some_and(Flavor::overrides_amounts) && **amounts != demand(flavor, backed) => {
            wrong(format!("it has {} on {host}, expected {}{mend}", words(amounts), words(&demand(flavor, backed))));
        }
        Some(_) => {}
    }
    for other in on_nodes.keys().filter(|other| **other != host) {
        wrong(format!("it has an allocation on {other} too, expected one on {host} only"));
    }
}

fn first(on_nodes: &BTreeMap<&str, &BTreeMap<String, i64>>) -> String {
    on_nodes.keys().next().copied().unwrap_or_default().to_owned()
}

fn demand(flavor: Option<&Flavor>, volume_backed: bool) -> BTreeMap<String, i64> {
    flavor.map(|flavor| flavor.resources(volume_backed)).unwrap_or_default().by_class()
}

fn words(amounts: &BTreeMap<String, i64>) -> String {
    super::report::list(amounts.iter().map(|(class, amount)| format!("{amount} {class}")))
}

fn no_consumer_of_nobody(snapshot: &Snapshot, placement: &PlacementSnapshot, findings: &mut Findings) {
    let moves: BTreeSet<Uuid> = snapshot
        .resting()
        .iter()
        .filter_map(|server| match server.phase {
            Phase::Verify(migration) => Some(migration.uuid),
            Phase::Settled | Phase::Nowhere => None,
        })
        .collect();
    let by_move: BTreeMap<Uuid, Uuid> = snapshot.sagas.iter().map(|saga| (saga.id, saga.server)).collect();
    for held in &placement.allocations {
        let consumer = held.consumer;
        let alive = snapshot.is_known(consumer)
            || moves.contains(&consumer)
            || snapshot.is_in_flight(consumer)
            || snapshot.reserved.contains(&consumer);
        // The move's record may be in a silent cell.
        let unseen = by_move.get(&consumer).is_some_and(|server| snapshot.is_out_of_sight(*server));
        if !alive && !unseen {
            let server = by_move.get(&consumer).copied().unwrap_or(consumer);
            let subject = format!("consumer {consumer}");
            findings.about(
                server,
                Topic::Allocations,
                "I4",
                subject,
                "it holds an allocation, expected none: there is no live server or migration of that id",
            );
        }
    }
}
