//! The conductor alone; its host is played by the test, and its migrations are killed.

use actix::prelude::*;
use tokio::sync::watch;

use super::*;
use crate::actors::played::{Played, play};
use crate::domain::host_protocol::HostCommand;
use crate::domain::server::VmState;
use crate::saga::context::{Kind, Request};

fn conductor(played: &Played, max_in_flight: usize) -> ConductorHandle {
    let (ended, seen) = watch::channel(0);
    let parts = ConductorParts::new(played.world.clone(), FaultPoints::default(), ended, max_in_flight);
    let address = Conductor::new(parts.clone(), None).start();
    ConductorHandle::new(Address::new(address), parts, seen)
}

#[actix::test]
async fn an_operation_holds_its_server_until_it_ends() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = played.server(VmState::Stopped).await;
    let saga = conductor.begin(played.context(server, Kind::Start, Request::Start)).await.unwrap();
    let asked = played.asked().await;
    assert_eq!(asked.request.command, HostCommand::StartGuest);
    assert_eq!(played.world.operations.holder(server).await.unwrap(), Some(saga));

    let second = conductor.begin(played.context(server, Kind::Delete, Request::Delete)).await.unwrap_err();
    let busy = format!("Cannot 'delete' instance {server} while it is in task_state powering-on");
    assert_eq!(second, Refusal::Conflict(busy));

    asked.done();
    conductor.until_at_rest(server).await.unwrap();
    let record = played.record(server).await;
    assert_eq!((record.vm_state, record.task_state), (VmState::Active, None));
}

#[actix::test]
async fn a_refusal_of_the_host_gives_the_server_back() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = played.server(VmState::Stopped).await;
    conductor.begin(played.context(server, Kind::Start, Request::Start)).await.unwrap();
    played.asked().await.refused("out of memory");
    conductor.until_at_rest(server).await.unwrap();
    let record = played.record(server).await;
    assert_eq!((record.vm_state, record.task_state), (VmState::Stopped, None));
    let db = &played.world.cells["cell1"].db;
    assert!(db.latest_fault(server).await.unwrap().unwrap().message.contains("out of memory"));
}

#[actix::test]
async fn a_dead_migration_is_succeeded_under_a_higher_fence() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = played.server(VmState::Stopped).await;
    conductor.begin(played.context(server, Kind::Start, Request::Start)).await.unwrap();
    let first = played.asked().await;
    assert!(conductor.addr().send(KillMigration(server)).await.unwrap());
    let second = played.asked().await;
    assert!(first.request.fence.pair() < second.request.fence.pair(), "nothing that the dead one asked for may win");
    assert_eq!(first.request.operation, second.request.operation);
    first.done();
    second.done();
    conductor.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

#[actix::test]
async fn the_next_life_of_the_conductor_goes_on_with_what_the_journal_holds() {
    let mut played = play().await;
    let server = played.server(VmState::Stopped).await;
    let first_life = conductor(&played, 10);
    let saga = first_life.begin(played.context(server, Kind::Start, Request::Start)).await.unwrap();
    let _unanswered = played.asked().await;
    first_life.addr().send(Shutdown).await.unwrap();

    let second_life = conductor(&played, 10);
    let asked = played.asked().await;
    assert_eq!(asked.request.operation, saga);
    asked.done();
    second_life.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

#[actix::test]
async fn past_the_limit_a_request_is_told_to_come_back() {
    let mut played = play().await;
    let conductor = conductor(&played, 1);
    let (one, two) = (played.server(VmState::Stopped).await, played.server(VmState::Stopped).await);
    conductor.begin(played.context(one, Kind::Start, Request::Start)).await.unwrap();
    let asked = played.asked().await;
    let refusal = conductor.begin(played.context(two, Kind::Start, Request::Start)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Unavailable(_)), "{refusal:?}");
    assert_eq!(played.world.operations.holder(two).await.unwrap(), None);
    asked.done();
    conductor.until_at_rest(one).await.unwrap();
}
