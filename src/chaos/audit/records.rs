//! I3, I5, I11, I12 and I17: each server has one visible record in the cell of its mapping, in a state that clients know, and an operation
//! holds it exactly while one is in flight.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::explanations::Topic;
use super::journal;
use super::report::{Findings, Violation, list};
use super::snapshot::{Phase, Resting, Snapshot};
use crate::domain::instance::Instance;
use crate::domain::migration::MigrationStatus;
use crate::domain::server::VmState;
use crate::saga::step::Class;

/// Finds violations of I3, I5, I11, I12, I14 (hidden records) and I17.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    every_server_is_where_it_is_mapped(snapshot, &mut findings);
    no_record_is_left(snapshot, &mut findings);
    for server in snapshot.resting() {
        no_task_at_rest(&server, &mut findings);
        states_are_known(&server, &mut findings);
        no_trace_of_a_move(&server, &mut findings);
    }
    no_migration_is_stuck(snapshot, &mut findings);
    sagas_hold_what_they_work_on(snapshot, &mut findings);
    a_task_at_work(snapshot, &mut findings);
    findings.done()
}

/// I3: the mapping points to a visible record. A server that was acknowledged is never without one.
fn every_server_is_where_it_is_mapped(snapshot: &Snapshot, findings: &mut Findings) {
    for mapping in snapshot.mappings.iter().filter(|mapping| !snapshot.busy.contains(&mapping.instance_uuid)) {
        let (server, subject) = (mapping.instance_uuid, format!("server {}", mapping.instance_uuid));
        let deleted = mapping.queued_for_delete == Some(true);
        let Some(uuid) = mapping.cell_uuid else {
            if snapshot.build_requests.contains(&server) {
                findings.add("I11", subject, "it waits for a host, expected an operation in flight that builds it");
            } else if !deleted {
                findings.add("I3", subject, "its mapping names no cell and it has no build request, expected a record");
            }
            continue;
        };
        let Some(cell) = snapshot.cell_names.get(&uuid) else {
            findings.add("I3", subject, format!("its mapping names cell {uuid}, expected a cell that is mapped"));
            continue;
        };
        if !snapshot.cells.contains_key(cell) {
            continue;
        }
        match (snapshot.record_in(cell, server), deleted) {
            (None, true) => {}
            (None, false) => findings.add("I3", subject, format!("{cell} has no record of it, expected one: the mapping points there")),
            (Some(record), false) if record.hidden => {
                findings.add("I3", subject, format!("its record in {cell} is hidden, expected it visible: the mapping points there"));
            }
            (Some(record), false) if record.vm_state == VmState::SoftDeleted => {
                let message = "it is soft-deleted but not queued for delete, expected both or neither";
                findings.about(server, Topic::Records, "I3", subject, message);
            }
            (Some(_), false) => {}
            (Some(record), true) if record.vm_state == VmState::SoftDeleted => {}
            (Some(_), true) => {
                findings.about(
                    server,
                    Topic::Records,
                    "I3",
                    subject,
                    format!("it is queued for delete but {cell} still has its record, expected none at rest"),
                );
            }
        }
    }
}

/// I3 and I14: there is no second visible record, and a hidden one only while a move waits for confirm or revert.
fn no_record_is_left(snapshot: &Snapshot, findings: &mut Findings) {
    let mapped: BTreeMap<Uuid, Option<&String>> =
        snapshot.mappings.iter().map(|m| (m.instance_uuid, m.cell_uuid.and_then(|uuid| snapshot.cell_names.get(&uuid)))).collect();
    let kept_for_revert: BTreeSet<(String, Uuid)> = snapshot
        .resting()
        .iter()
        .filter_map(|server| Some((snapshot.host_cells.get(server.source_host()?)?.clone(), server.id())))
        .collect();
    for (cell, record) in snapshot.records().filter(|(_, record)| !snapshot.busy.contains(&record.uuid)) {
        let subject = format!("server {}", record.uuid);
        match mapped.get(&record.uuid) {
            None => findings.about(
                record.uuid,
                Topic::Records,
                "I3",
                subject,
                format!("{cell} has a record of it but no mapping does, expected both or none"),
            ),
            Some(home) if home.is_some_and(|home| home == cell) => {}
            Some(home) => {
                let home = home.map_or("no cell", String::as_str);
                if !record.hidden {
                    findings.add(
                        "I3",
                        subject,
                        format!("a second record of it is visible in {cell}, expected only the one in {home}, where the mapping points"),
                    );
                } else if !snapshot.is_out_of_sight(record.uuid) && !kept_for_revert.contains(&(cell.to_owned(), record.uuid)) {
                    let message = format!("a hidden record of it is in {cell}, expected none: no move from there waits for confirm");
                    findings.about(record.uuid, Topic::Records, "I14", subject, message);
                }
            }
        }
    }
    for server in snapshot.resting() {
        let Some(source) = server.source_host().and_then(|host| snapshot.host_cells.get(host)) else { continue };
        let across = source != server.cell && snapshot.cells.contains_key(source);
        if across && snapshot.record_in(source, server.id()).is_none_or(|record| !record.hidden) {
            let message = format!("{source} has no hidden record of it, expected one until the move is confirmed or reverted");
            findings.add("I3", format!("server {}", server.id()), message);
        }
    }
}

/// I12 at rest: without a live saga there is no task.
fn no_task_at_rest(server: &Resting, findings: &mut Findings) {
    if let Some(task) = server.record.task_state {
        let message = format!("its task_state is {task} but no operation is in flight, expected none");
        findings.add("I12", format!("server {}", server.id()), message);
    }
}

/// I12 in flight: from its first step to its pivot an operation shows a task.
fn a_task_at_work(snapshot: &Snapshot, findings: &mut Findings) {
    for saga in snapshot.sagas.iter().filter(|saga| snapshot.at_one_step.contains(&saga.server)) {
        let none = Vec::new();
        let entries = snapshot.journals.get(&saga.id).unwrap_or(&none);
        if snapshot.holders.get(&saga.server) != Some(&saga.id) {
            continue;
        }
        let Some((context, step)) = journal::step_at_work(saga, entries) else { continue };
        let shows_task = context.part().rules().first_task_state.is_some() && matches!(step.class, Class::Reversible | Class::Pivot);
        let mapping = snapshot.mappings.iter().find(|mapping| mapping.instance_uuid == saga.server);
        let cell = mapping.and_then(|mapping| snapshot.cell_names.get(&mapping.cell_uuid?));
        let Some(record) = cell.and_then(|cell| snapshot.record_in(cell, saga.server)).filter(|_| shows_task) else { continue };
        if record.task_state.is_none() {
            let message = format!("its task_state is null but operation {} is at {}, expected what it does", saga.id, step.name);
            findings.add("I12", format!("server {}", saga.server), message);
        }
    }
}

/// I17: the states fit together.
fn states_are_known(server: &Resting, findings: &mut Findings) {
    let subject = format!("server {}", server.id());
    let record = server.record;
    match (record.vm_state, server.phase) {
        (VmState::Building, _) => findings.add("I17", subject, "it is building but no operation is in flight, expected active or error"),
        (VmState::Deleted, _) => findings.add("I17", subject, "its vm_state is deleted but its record is not, expected both or neither"),
        (VmState::Resized, Phase::Settled | Phase::Nowhere) => {
            findings.add("I17", subject, "it waits for confirm but has no finished migration, expected one to confirm or revert");
        }
        (
            VmState::Active
            | VmState::Paused
            | VmState::Suspended
            | VmState::Rescued
            | VmState::Stopped
            | VmState::Shelved
            | VmState::SoftDeleted,
            Phase::Nowhere,
        ) => {
            findings.add("I17", subject, format!("it is {} but its record names no host, expected one", record.vm_state));
        }
        (VmState::Resized, Phase::Verify(migration)) if migration.dest_compute != record.host => {
            let named = |host: &Option<String>| host.clone().unwrap_or_else(|| "no host".to_owned());
            let message = format!(
                "it is on {}, expected {}, the target of migration {}",
                named(&record.host),
                named(&migration.dest_compute),
                migration.uuid
            );
            findings.add("I17", subject, message);
        }
        (VmState::ShelvedOffloaded, Phase::Settled | Phase::Verify(_)) => {
            let host = record.host.as_deref().unwrap_or_default();
            findings.add("I17", subject, format!("it is {} but its record names {host}, expected no host", record.vm_state));
        }
        (VmState::Active | VmState::Paused | VmState::Suspended | VmState::Rescued | VmState::Stopped | VmState::Error, _) => {}
        (VmState::Resized | VmState::Shelved | VmState::ShelvedOffloaded | VmState::SoftDeleted, _) => {}
    }
}

/// I5 (NOVA-DIFFERENCES L14): the fields that a move sets on the record stay exactly until it is confirmed, reverted or undone.
fn no_trace_of_a_move(server: &Resting, findings: &mut Findings) {
    let kept = kept_fields(server.record);
    let subject = format!("server {}", server.id());
    match server.phase {
        Phase::Verify(_) if kept.len() < 3 => {
            let message =
                format!("its record keeps {} of a move, expected old_flavor, new_flavor and old_vm_state until confirm", list(kept));
            findings.add("I5", subject, message);
        }
        Phase::Settled | Phase::Nowhere if !kept.is_empty() => {
            let message = format!("its record keeps {} of a move that is over, expected none", list(kept));
            findings.about(server.id(), Topic::Records, "I5", subject, message);
        }
        Phase::Verify(_) | Phase::Settled | Phase::Nowhere => {}
    }
}

fn kept_fields(record: &Instance) -> Vec<&'static str> {
    let fields = [
        ("old_flavor", record.old_flavor.is_some()),
        ("new_flavor", record.new_flavor.is_some()),
        ("old_vm_state", record.old_vm_state.is_some()),
    ];
    fields.into_iter().filter(|(_, kept)| *kept).map(|(name, _)| name).collect()
}

/// I5: a failed move has status `error`; only a move that waits for confirm may have a live status.
fn no_migration_is_stuck(snapshot: &Snapshot, findings: &mut Findings) {
    let verify: BTreeMap<Uuid, Uuid> = snapshot
        .resting()
        .iter()
        .filter_map(|server| match server.phase {
            Phase::Verify(migration) => Some((server.id(), migration.uuid)),
            Phase::Settled | Phase::Nowhere => None,
        })
        .collect();
    for (name, cell) in &snapshot.cells {
        for migration in &cell.records.migrations {
            let server = migration.instance_uuid;
            if snapshot.busy.contains(&server) || verify.get(&server) == Some(&migration.uuid) || snapshot.is_out_of_sight(server) {
                continue;
            }
            let message = format!(
                "in {name} it is {} for server {server} but no operation is in flight, expected {}",
                migration.status,
                MigrationStatus::OVER.map(MigrationStatus::as_str).join(", ")
            );
            findings.about(server, Topic::Records, "I5", format!("migration {}", migration.uuid), message);
        }
    }
}

/// I11: a live saga holds its server, and only live sagas (and payments of debts) hold servers.
fn sagas_hold_what_they_work_on(snapshot: &Snapshot, findings: &mut Findings) {
    for saga in &snapshot.sagas {
        let holds = snapshot.holders.get(&saga.server) == Some(&saga.id);
        let over = saga.state.is_over();
        let pays = snapshot.debts.iter().any(|debt| debt.saga == saga.id);
        let subject = format!("migration {}", saga.id);
        if !over && !holds && !snapshot.busy.contains(&saga.server) {
            let message = format!(
                "it is {} at {} but does not hold server {}, expected done, unwound, or the server held",
                saga.state, saga.step, saga.server
            );
            findings.add("I11", subject, message);
        } else if over && holds && !pays {
            findings.add("I11", subject, format!("it is {} but still holds server {}, expected the server free", saga.state, saga.server));
        }
    }
    let ids: BTreeSet<Uuid> = snapshot.sagas.iter().map(|saga| saga.id).collect();
    for (server, saga) in snapshot.holders.iter().filter(|(_, saga)| !ids.contains(saga)) {
        findings.add("I11", format!("server {server}"), format!("operation {saga} holds it, expected one that the journal knows"));
    }
}
