//! Tests of tickets: a host gets one for the bytes that its operation has it move, and for no others.

use uuid::Uuid;

use super::*;
use crate::actors::tests::fixture::{HostFixture, world};

const SERVER: Uuid = Uuid::from_u128(1);
const OTHER_SERVER: Uuid = Uuid::from_u128(2);
const H1: &str = "cell1-host1";
const H2: &str = "cell1-host2";

fn host(name: &str) -> Asker {
    Asker { cell: "cell1".into(), host: name.into() }
}

/// Has operations of the server make these transfers by the first host, and no others.
fn in_flight(world: &HostFixture, bytes: impl IntoIterator<Item = HostBytes>) {
    let transfers = bytes.into_iter().map(|bytes| (SERVER, HostTransfer { host: host(H1), bytes }));
    *world.oracle.transfers.lock() = Some(transfers.collect());
}

fn image_ticket(server: Uuid, image_id: Uuid, write: bool) -> HostQuestion {
    HostQuestion::ImageTicket { server, image_id, write }
}

fn export_ticket(source: &str) -> HostQuestion {
    HostQuestion::ExportTicket { server: SERVER, source: source.into() }
}

#[actix::test]
async fn a_ticket_is_for_bytes_that_an_operation_moves() {
    let world = world().await;
    let (image, queued) = (world.image().await, world.queued_image().await);
    in_flight(&world, [HostBytes::ReadImage(image), HostBytes::StoreImage(queued)]);
    let services = world.services();
    for question in [image_ticket(SERVER, image, false), image_ticket(SERVER, queued, true)] {
        let answer = services.ask(&host(H1), question).await;
        assert!(matches!(answer, Ok(QuestionAnswer::ImageTicket(_))), "{answer:?}");
    }
    let others = [
        (H1, OTHER_SERVER, image, false, "read"),
        (H2, SERVER, image, false, "read"),
        (H1, SERVER, image, true, "store"),
        (H1, SERVER, queued, false, "read"),
    ];
    for (asker, server, image, write, does) in others {
        let refusal = services.ask(&host(asker), image_ticket(server, image, write)).await.unwrap_err();
        let expected = reason!("No operation in flight of server {server} has host cell1/{asker} {does} image {image}.");
        assert_eq!(refusal, NeighbourError::Refused(expected));
    }
}

#[actix::test]
async fn a_source_is_asked_for_the_export_of_its_operation_alone() {
    let world = world().await;
    in_flight(&world, [HostBytes::ReadExport { source: H2.into() }]);
    let services = world.services();
    let answer = services.ask(&host(H1), export_ticket(H2)).await;
    assert!(matches!(answer, Err(NeighbourError::Unavailable(_))), "the source is not there: {answer:?}");
    for (asker, source) in [(H1, "cell1-host3"), (H2, H2), (H2, H1)] {
        let refusal = services.ask(&host(asker), export_ticket(source)).await;
        assert!(matches!(refusal, Err(NeighbourError::Refused(_))), "{asker} of {source}: {refusal:?}");
    }
}

#[actix::test]
async fn no_ticket_is_given_while_nobody_can_tell_who_may_have_it() {
    let world = world().await;
    let question = image_ticket(SERVER, world.image().await, false);
    let answer = world.services().ask(&host(H1), question).await;
    assert!(matches!(answer, Err(NeighbourError::Unavailable(_))), "{answer:?}");
}
