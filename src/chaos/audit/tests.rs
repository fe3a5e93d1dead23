//! Tests each rule on a healthy world, where nothing is found, and on a world broken in one place, where exactly that is found.

use uuid::Uuid;

use super::fixture::*;
use super::{Report, explanations, judge};
use crate::domain::context::RequestContext;
use crate::domain::host_protocol::GuestReport;
use crate::domain::instance::Instance;
use crate::domain::migration::MigrationStatus;
use crate::domain::saga_record::SagaRecord;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::saga::context::{Context, Request};
use crate::saga::step::Class;
use crate::saga::tables;

#[test]
fn a_healthy_world_is_clean_and_says_what_was_checked() {
    let report = judge(&healthy());
    assert!(report.clean && report.is_complete(), "{report}");
    assert_eq!(report.checked.counts["servers"], 2);
    let json = serde_json::to_value(&report).unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["at", "checked", "clean", "violations"]);
    assert!(report.to_string().ends_with("clean: no violations"));
    assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
}

#[test]
fn i1_two_guests_of_one_server_even_in_flight() {
    expect_among("I1", "2 hosts at once (h1, h2)", |world| {
        let twin = guest_of(world, "h2", R).clone();
        *guest_of(world, "h1", R) = twin;
        world.busy.insert(R);
    });
}

#[test]
fn i2_a_guest_runs_only_on_its_owner_and_as_recorded() {
    expect_one("I2", "started for epoch 0, expected the present 1", |world| guest_of(world, "h1", A).started_epoch = 0);
    expect_one("I2", "at most the committed 1", |world| {
        world.busy.insert(A);
        guest_of(world, "h1", A).started_epoch = 2;
    });
    expect_one("I2", "is off, expected running", |world| guest_of(world, "h1", A).power_state = PowerState::Shutdown);
    expect_none(|world| guest_of(world, "h1", A).power_state = PowerState::NoState);
    expect_one("I2", "its owner is nobody, expected h1 in cell1", |world| {
        world.ownership.get_mut(&A).unwrap().owner = None;
        guest_of(world, "h1", A).power_state = PowerState::NoState;
    });
    expect_among("I2", "only on its owner (h2 in cell2)", |world| {
        world.ownership.get_mut(&A).unwrap().owner = Some(("cell2".into(), "h2".into()));
    });
}

#[test]
fn i3_one_visible_record_where_the_mapping_says() {
    expect_among("I3", "second record of it is visible in cell1", |world| record(world, "cell1", R).hidden = false);
    expect_one("I3", "cell1 has no record of it", |world| {
        records(world, "cell1").instances.retain(|record| record.uuid != A);
        records(world, "cell1").compute_nodes.clear();
        host(world, "h1").claims.retain(|(holder, _)| *holder != A);
        host(world, "h1").guests.retain(|guest| guest.server != A);
    });
    expect_among("I3", "is hidden, expected it visible", |world| record(world, "cell1", A).hidden = true);
    expect_among("I3", "no mapping does", |world| world.mappings.retain(|mapping| mapping.instance_uuid != A));
    expect_among("I3", "queued for delete", |world| world.mappings[0].queued_for_delete = Some(true));
    expect_one("I3", "cell1 has no hidden record", |world| {
        records(world, "cell1").instances.retain(|record| record.uuid != R);
        records(world, "cell1").compute_nodes[0].updated_at = None;
    });
}

#[test]
fn i14_a_hidden_record_needs_a_move_that_waits_for_confirm() {
    let leave_a_copy = |world: &mut super::Snapshot| {
        let copy = Instance { hidden: true, host: None, ..record(world, "cell1", A).clone() };
        records(world, "cell2").instances.push(copy);
    };
    expect_one("I14", "hidden record of it is in cell2", leave_a_copy);
    expect_none(|world| {
        leave_a_copy(world);
        world.debts.push(debt(A, "delete_source_records"));
    });
}

#[test]
fn i4_and_i15_placement() {
    let placement = |world: &mut super::Snapshot| world.placement.clone().unwrap();
    expect_among("I4", "17 VCPU of h2 are allocated, expected at most 16", |world| {
        *world.placement.as_mut().unwrap().providers[1].usages.get_mut("VCPU").unwrap() = 17;
    });
    expect_one("I15", "its usage says 1 VCPU on h2, expected 2", |world| {
        *world.placement.as_mut().unwrap().providers[1].usages.get_mut("VCPU").unwrap() = 1;
    });
    expect_none(|world| {
        let moving = world.placement.as_mut().unwrap();
        moving.settled = false;
        *moving.providers[1].usages.get_mut("VCPU").unwrap() = 1;
    });
    expect_among("I4", "it has no allocation on h1, expected", |world| {
        world.placement.as_mut().unwrap().allocations.retain(|held| held.consumer != A)
    });
    expect_among("I4", "migration 00000000-0000-0000-0000-000000000030: it has no allocation on h1", |world| {
        world.placement.as_mut().unwrap().allocations.retain(|held| held.consumer != MOVE);
    });
    expect_among("I4", "it has an allocation on h2 too", |world| {
        let extra = placement(world).allocations[2].allocations.clone();
        world.placement.as_mut().unwrap().allocations[0].allocations.extend(extra);
    });
    expect_among("I4", "no live server or migration of that id", |world| {
        let stray = crate::services::placement::Allocations { consumer: Uuid::from_u128(99), ..placement(world).allocations[0].clone() };
        world.placement.as_mut().unwrap().allocations.push(stray);
    });
}

#[test]
fn i5_what_is_left_of_a_move_that_is_over() {
    expect_one("I5", "keeps old_flavor of a move that is over", |world| {
        let flavor = record(world, "cell1", A).flavor.clone();
        record(world, "cell1", A).old_flavor = Some(flavor);
    });
    expect_one("I5", "it is migrating for server", |world| {
        let mut stuck = records(world, "cell1").migrations[0].clone();
        (stuck.uuid, stuck.instance_uuid, stuck.status) = (Uuid::from_u128(98), A, MigrationStatus::Migrating);
        records(world, "cell1").migrations.push(stuck);
    });
}

#[test]
fn i8_i9_i13_the_journal() {
    let set = |lines: &'static [(&str, &str, &str)]| {
        move |world: &mut super::Snapshot| {
            world.journals.insert(MOVE, journal(lines));
        }
    };
    const ACCEPTED: (&str, &str, &str) = ("accept", "act", "ok");
    expect_none(set(&[
        ("accept", "act", "begun"),
        ACCEPTED,
        ("claim", "act", "begun"),
        ("claim", "act", "begun"),
        ("claim", "act", "failed"),
        ("claim", "undo", "begun"),
        ("claim", "undo", "ok"),
        ("accept", "undo", "begun"),
        ("accept", "undo", "ok"),
    ]));
    // The act was passed over, and an experiment has its undo performed.
    expect_none(set(&[
        ("accept", "act", "begun"),
        ACCEPTED,
        ("claim", "act", "ok"),
        ("claim", "undo", "begun"),
        ("claim", "undo", "ok"),
        ("accept", "undo", "begun"),
        ("accept", "undo", "ok"),
    ]));
    expect_one("I8", "entry 2 follows entry 0", |world| {
        world.journals.get_mut(&MOVE).unwrap()[1].seq = 2;
    });
    expect_one("I8", "expected nothing past the end", set(&[("accept", "act", "begun"), ACCEPTED, ("claim", "act", "begun")]));
    expect_one(
        "I9",
        "begins to undo claim",
        set(&[("accept", "act", "begun"), ACCEPTED, ("claim", "undo", "begun"), ("claim", "undo", "ok")]),
    );
    expect_one(
        "I9",
        "entry 5 begins to undo claim",
        set(&[
            ("accept", "act", "begun"),
            ACCEPTED,
            ("claim", "act", "begun"),
            ("claim", "act", "failed"),
            ("accept", "undo", "begun"),
            ("claim", "undo", "begun"),
            ("claim", "undo", "ok"),
        ]),
    );
    expect_one("I13", "its last attempt is 30, expected at most 9", |world| world.journals.get_mut(&MOVE).unwrap()[0].attempt = 30);
    expect_one("I13", "expected more than the 2 before it", |world| {
        let mut entries = journal(&[("accept", "act", "begun"), ("accept", "act", "begun"), ACCEPTED]);
        (entries[0].attempt, entries[1].attempt) = (2, 1);
        world.journals.insert(MOVE, entries);
    });
    expect_one("I13", "host h1 has obeyed fence (1, 10), expected at most (1, 9)", |world| guest_of(world, "h1", A).fence = (1, 10));
    expect_one("I13", "the database of cell1 has obeyed fence (2, 5)", |world| {
        records(world, "cell1").fences.insert(A, (2, 5));
    });
    expect_one("I8", "its context cannot be read", |world| {
        world.sagas[0] = saga("running");
        world.holders.insert(R, MOVE);
        world.busy.insert(R);
    });
}

#[test]
fn i11_i12_sagas_and_tasks() {
    expect_among("I11", "is running at running but does not hold server", |world| world.sagas[0] = saga("running"));
    let held = |world: &mut super::Snapshot| {
        world.holders.insert(R, MOVE);
        world.busy.insert(R);
    };
    expect_one("I11", "still holds server", held);
    expect_none(|world| {
        held(world);
        world.debts.push(debt(R, "clean_source_host"));
    });
    expect_one("I12", "its task_state is resize_prep", |world| record(world, "cell1", A).task_state = Some(TaskState::ResizePrep));
    expect_none(|world| {
        record(world, "cell1", A).task_state = Some(TaskState::ResizePrep);
        world.busy.insert(A);
    });
    expect_one("I12", "its task_state is null but operation", |world| stops(world, "stop_guest"));
    expect_none(|world| {
        stops(world, "stop_guest");
        record(world, "cell1", A).task_state = Some(TaskState::PoweringOff);
    });
    // The last step clears the task before the operation releases the server.
    expect_none(|world| stops(world, "record_stopped"));
}

/// Puts an operation that stops server A at this step.
fn stops(world: &mut super::Snapshot, step: &str) {
    let id = Uuid::from_u128(77);
    let context = Context::new(id, RequestContext::default(), A, Request::Stop);
    let mut lines = vec![("accept", "act", "begun"), ("accept", "act", "ok"), ("begin", "act", "begun"), ("begin", "act", "ok")];
    if step == "record_stopped" {
        lines.extend([("stop_guest", "act", "begun"), ("stop_guest", "act", "ok")]);
    }
    lines.push((step, "act", "begun"));
    let context = serde_json::to_string(&context).unwrap();
    world.sagas.push(SagaRecord { id, server: A, kind: "stop".into(), context, ..saga("running") });
    world.journals.insert(id, journal(&lines));
    world.holders.insert(A, id);
    world.busy.insert(A);
    world.at_one_step.insert(A);
    world.ownership.get_mut(&A).unwrap().attempt = 100;
}

#[test]
fn i14_ports_volumes_images_and_hosts() {
    expect_one("I14", "ACTIVE on h1, INACTIVE on h2, expected ACTIVE on h1", |world| {
        let extra = crate::services::network::PortBinding {
            host: "h2".into(),
            status: "INACTIVE".into(),
            ..world.ports.as_ref().unwrap()[0].bindings[0].clone()
        };
        world.ports.as_mut().unwrap()[0].bindings.push(extra);
    });
    expect_one("I14", "its bindings are ACTIVE on h2, expected INACTIVE on h1, ACTIVE on h2", |world| {
        world.ports.as_mut().unwrap()[1].bindings.remove(0);
    });
    expect_one("I14", "belongs to nobody", |world| {
        let of_a = world.ports.as_ref().unwrap()[0].clone();
        let lost = crate::services::network::Port { id: Uuid::from_u128(5), device_id: String::new(), server: None, ..of_a };
        world.ports.as_mut().unwrap().push(lost);
    });
    expect_one("I14", "belongs to server 00000000-0000-0000-0000-00000000004d", |world| {
        let of_a = world.ports.as_ref().unwrap()[0].clone();
        let stray = crate::services::network::Port { id: Uuid::from_u128(5), server: Some(Uuid::from_u128(77)), ..of_a };
        world.ports.as_mut().unwrap().push(stray);
    });
    expect_one("I14", "there is no such server", |world| {
        let stray = crate::services::volume::Attachment { server: Uuid::from_u128(77), ..world.attachments.as_ref().unwrap()[0].clone() };
        world.attachments.as_mut().unwrap().push(stray);
    });
    expect_one("I14", "has 0 others, of which 0 without a host", |world| {
        world.attachments.as_mut().unwrap().remove(1);
    });
    expect_one("I14", "is reserved to no host, expected attached to h1", |world| {
        let attachment = &mut world.attachments.as_mut().unwrap()[0];
        (attachment.host, attachment.status) = (None, "reserved".into());
    });
    let leave_an_image = |world: &mut super::Snapshot| world.temporary_images.as_mut().unwrap().push(image());
    expect_one("I14", "made to carry the disks of migration", leave_an_image);
    expect_none(|world| {
        leave_an_image(world);
        world.debts.push(debt(R, "delete_snapshot_image"));
    });
    expect_one("I14", "it has disks of server", |world| {
        let kept = GuestReport { defined: false, power_state: PowerState::Shutdown, ..guest_of(world, "h1", A).clone() };
        host(world, "h2").guests.push(kept);
    });
    expect_one("I14", "transfer/x of server", |world| guest_of(world, "h1", A).leftovers.push("transfer/x".into()));
}

fn image() -> crate::services::image::Image {
    crate::services::image::Image {
        name: Some("name-resize-temp".into()),
        status: "active".into(),
        properties: [("cellshift_migration".to_owned(), MOVE.to_string())].into(),
        ..crate::services::image::Image::queued(Uuid::from_u128(0x50), "project", start())
    }
}

#[test]
fn i15_claims_and_compute_nodes() {
    expect_one("I15", "has no claim, expected 1 VCPU", |world| host(world, "h1").claims.retain(|(holder, _)| *holder != A));
    expect_one("I15", "expected no claim: it is not here", |world| {
        let claim = host(world, "h1").claims[0].clone();
        host(world, "h2").claims.push(claim);
    });
    expect_one("I15", "its compute node shows 7 VCPU", |world| records(world, "cell2").compute_nodes[0].vcpus_used = 7);
    expect_none(|world| {
        // The recount after the last operation is still due.
        let node = &mut records(world, "cell2").compute_nodes[0];
        (node.vcpus_used, node.updated_at) = (7, Some(start()));
    });
}

#[test]
fn i16_guests_and_kept_disks() {
    expect_one("I16", "h1 has kept nothing of it", |world| host(world, "h1").guests.retain(|guest| guest.server != R));
    expect_one("I16", "has volumes none, expected", |world| guest_of(world, "h1", A).volumes.clear());
    expect_one("I14", "has ports none, expected", |world| guest_of(world, "h1", A).ports.clear());
    expect_one("I16", "h1 has no guest of it", |world| host(world, "h1").guests.retain(|guest| guest.server != A));
    expect_none(|world| {
        record(world, "cell1", A).vm_state = VmState::Error;
        host(world, "h1").guests.retain(|guest| guest.server != A);
    });
}

#[test]
fn i17_states_fit_together() {
    expect_among("I17", "has no finished migration", |world| record(world, "cell1", A).vm_state = VmState::Resized);
    expect_one("I17", "building but no operation", |world| record(world, "cell1", A).vm_state = VmState::Building);
}

#[test]
fn the_audit_names_parts_that_do_not_answer() {
    let mut world = healthy();
    world.cells.remove("cell2");
    world.unreachable.push("cell cell2: down".into());
    world.hosts.remove("h2");
    world.unreachable.push("host h2: no answer".into());
    world.ports = None;
    let report = judge(&world);
    assert!(report.clean && !report.is_complete(), "{report}");
    assert_eq!(report.checked.unreachable.len(), 2);
    assert!(report.to_string().contains("not checked: cell cell2: down"));
    assert!(report.to_string().ends_with("incomplete: no violations in what answered"));
}

#[test]
fn every_step_that_can_be_owed_explains_something_in_particular() {
    for (name, table) in tables::ALL {
        for step in table.steps.iter().skip(1).filter(|step| step.class == Class::Cleanup || step.undo.work().is_some()) {
            // Past the pivot no undo is ever owed.
            if matches!(step.class, Class::Pivot | Class::Forward) {
                continue;
            }
            assert!(explanations::topics_of(step.name.as_str()).len() < 7, "{name}: say what a debt of {} explains", step.name);
        }
    }
}
