//! Tests the rules for a shelved server that has left its host.

use uuid::Uuid;

use super::fixture::*;
use super::snapshot::Snapshot;
use crate::domain::server::{PowerState, VmState};
use crate::saga::steps::shelf;
use crate::services::image::Image;

const IMAGE: Uuid = Uuid::from_u128(0x51);

/// Takes server A off its host.
fn offload(world: &mut Snapshot) {
    let shelved = shelf::shelved(Default::default(), start(), "h1", Some(IMAGE));
    let record = record(world, "cell1", A);
    (record.host, record.node, record.availability_zone) = (None, None, None);
    (record.vm_state, record.power_state, record.system_metadata) = (VmState::ShelvedOffloaded, PowerState::Shutdown, shelved);
    // The recount after the last operation is still due.
    records(world, "cell1").compute_nodes[0].updated_at = Some(start());
    world.ownership.get_mut(&A).unwrap().owner = None;
    let here = host(world, "h1");
    here.guests.retain(|guest| guest.server != A);
    here.claims.retain(|(holder, _)| *holder != A);
    let placement = world.placement.as_mut().unwrap();
    let held = placement.allocations.iter().position(|held| held.consumer == A).unwrap();
    for (class, amount) in placement.allocations.remove(held).allocations.into_values().flatten() {
        *placement.providers[0].usages.get_mut(&class).unwrap() -= amount;
    }
    let port = world.ports.as_mut().unwrap().iter_mut().find(|port| port.server == Some(A)).unwrap();
    port.bindings.clear();
    let attachment = attachment(world);
    (attachment.host, attachment.status) = (None, "reserved".into());
    world.shelved_images = Some(vec![image()]);
}

fn attachment(world: &mut Snapshot) -> &mut crate::services::volume::Attachment {
    world.attachments.as_mut().unwrap().iter_mut().find(|attachment| attachment.server == A).unwrap()
}

fn image() -> Image {
    Image {
        name: Some("name-shelved".into()),
        status: "active".into(),
        properties: [(shelf::SHELVED_SERVER.to_owned(), A.to_string())].into(),
        ..Image::queued(IMAGE, "project", start())
    }
}

#[test]
fn a_server_on_no_host_holds_its_volumes_and_its_image_alone() {
    expect_none(offload);
    // By an attach since the offload.
    expect_none(|world| {
        offload(world);
        attachment(world).status = "attached".into();
    });
    expect_one("I14", "expected one without a host: the server has none", |world| {
        offload(world);
        attachment(world).host = Some("h1".into());
    });
    expect_one("I2", "its owner is h1 in cell1, expected nobody", |world| {
        offload(world);
        world.ownership.get_mut(&A).unwrap().owner = Some(("cell1".into(), "h1".into()));
    });
    expect_among("I17", "expected no host", |world| {
        offload(world);
        record(world, "cell1", A).host = Some("h1".into());
    });
}

#[test]
fn an_image_that_no_shelved_server_names_is_left_over() {
    expect_one("I14", "whose record does not name it", |world| world.shelved_images = Some(vec![image()]));
    expect_none(|world| {
        world.shelved_images = Some(vec![image()]);
        world.debts.push(debt(A, "delete_shelved_image"));
    });
}

#[test]
fn a_shelved_server_is_off_on_its_host() {
    expect_one("I2", "is running, expected off: the server is shelved", |world| {
        record(world, "cell1", A).vm_state = VmState::Shelved;
    });
}
