//! The conductor alone; its host is played by the test, and its migrations are killed.

use crate::saga::step_name::StepName;
use std::time::Duration;

use actix::prelude::*;
use diesel::prelude::*;
use uuid::Uuid;

use super::*;
use crate::actors::address::Address;
use crate::actors::cell::CellHosts;
use crate::actors::tests::played::{HOST, Played, play};
use crate::chaos::borders::{Outage, Outages};
use crate::db::api::leases::LEASE;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::host_protocol::HostCommand;
use crate::domain::saga_record::JournalEntry;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::saga::context::{Place, Prior, Request, ResizeRequest};
use crate::saga::debt;
use crate::saga::operations::BeginOperation;
use crate::saga::performer::Plainly;
use crate::saga::refusal::Refusal;
use crate::saga::steps::allocation::return_source_allocation;
use crate::saga::steps::records::{fail_migration, pay_hidden_records};
use crate::services::ServiceError;

/// A conductor of its own, which signs with this name.
pub(super) fn worker(played: &Played, name: &str) -> Worker {
    limited(played, name, 10)
}

/// As [`worker`], with `in_flight` operations at work and one that waits.
fn limited(played: &Played, name: &str, in_flight: usize) -> Worker {
    let controller = Controller { name: name.to_owned(), lease: LEASE, workers: 1, limits: Limits { in_flight, waiting: 1 } };
    let parts = ConductorParts::new(played.world.clone(), CellHosts::new(&played.world.env), Arc::new(Plainly), &controller);
    let address = Conductor::new(parts.clone(), None).start();
    Worker::new(Address::new(address), parts)
}

fn conductor(played: &Played, in_flight: usize) -> ConductorHandle {
    ConductorHandle::new(limited(played, "test", in_flight), [])
}

#[actix::test]
async fn an_operation_holds_its_server_until_it_ends() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = played.server(VmState::Stopped).await;
    let saga = conductor.begin(played.context(server, Request::Start)).await.unwrap();
    let call = played.next_request().await;
    assert_eq!(call.request.command, HostCommand::StartGuest);
    assert_eq!(played.world.operations.holder(server).await.unwrap(), Some(saga));

    let second = conductor.begin(played.context(server, Request::Stop)).await.unwrap_err();
    let busy = crate::domain::reason!("Cannot 'stop' instance {server} while it is in task_state powering-on");
    assert_eq!(second, Refusal::Conflict(busy));

    call.done();
    conductor.until_at_rest(server).await.unwrap();
    let record = played.record(server).await;
    assert_eq!((record.vm_state, record.task_state), (VmState::Active, None));
}

#[actix::test]
async fn a_delete_waits_for_no_room_and_has_the_server_next() {
    let mut played = play().await;
    let conductor = conductor(&played, 1);
    let server = played.server(VmState::Stopped).await;
    let saga = conductor.begin(played.context(server, Request::Start)).await.unwrap();
    let call = played.next_request().await;
    for _ in 0..2 {
        let other = conductor.begin(played.context(server, Request::Delete)).await;
        assert_eq!(other, Ok(saga), "it follows the start");
    }
    call.done();
    let removal = played.next_request().await;
    assert_eq!(removal.request.command, HostCommand::RemoveGuest);
    let delete = played.world.operations.holder(server).await.unwrap().unwrap();
    assert_eq!(delete, Uuid::new_v5(&saga, b"delete"));
    removal.done();
    played.next_request().await.done();
    conductor.until_at_rest(server).await.unwrap();
    assert!(played.world.cells.values().next().unwrap().db.instance(server).await.is_err());
}

#[actix::test]
async fn a_step_towards_a_cell_known_to_be_down_ends_at_once() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let (server, other) = (played.server(VmState::Stopped).await, played.server(VmState::Stopped).await);
    let saga = conductor.begin(played.context(server, Request::Start)).await.unwrap();
    let call = played.next_request().await;
    played.health.begin_down(&"no answer".into());
    let began = tokio::time::Instant::now();
    let refusal = conductor.begin(played.context(other, Request::Start)).await.unwrap_err();
    assert!(matches!(&refusal, Refusal::Unavailable(why) if why.to_string().contains("cell1 is down since")), "{refusal:?}");
    call.done();
    // The cell's record is written past the step's effect: it is tried until the cell answers.
    let tried = async {
        loop {
            let entries = played.world.operations.entries(saga).await.unwrap();
            if entries.iter().filter(|entry| entry.step == "record_running" && entry.event == "unknown").count() >= 2 {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), tried).await.expect("no try waits for its deadline");
    assert!(began.elapsed() < Duration::from_secs(20));
    played.health.probe(Duration::from_secs(1), async { Ok(()) }).await;
    conductor.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

#[actix::test]
async fn a_refusal_of_the_host_gives_the_server_back() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = played.server(VmState::Stopped).await;
    conductor.begin(played.context(server, Request::Start)).await.unwrap();
    played.next_request().await.refused("out of memory");
    let undo = played.next_request().await;
    assert!(matches!(undo.request.command, HostCommand::StopGuest { .. }), "the guest shall be off as it was");
    undo.done();
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
    conductor.begin(played.context(server, Request::Start)).await.unwrap();
    let first = played.next_request().await;
    assert!(conductor.kill_migration(server).await);
    let second = played.next_request().await;
    assert!(first.request.fence.pair() < second.request.fence.pair(), "nothing that the dead one asked for may win");
    assert_eq!(first.request.operation, second.request.operation);
    first.done();
    second.done();
    conductor.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

#[actix::test]
async fn the_next_conductor_goes_on_from_the_journal() {
    let mut played = play().await;
    let server = played.server(VmState::Stopped).await;
    let first_life = conductor(&played, 10);
    let saga = first_life.begin(played.context(server, Request::Start)).await.unwrap();
    let _unanswered = played.next_request().await;
    first_life.next().addr().send(Shutdown).await.unwrap();

    let second_life = conductor(&played, 10);
    let call = played.next_request().await;
    assert_eq!(call.request.operation, saga);
    call.done();
    second_life.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

#[actix::test]
async fn a_request_to_a_dead_conductor_reaches_its_successor() {
    let mut played = play().await;
    let (server, dead) = (played.server(VmState::Stopped).await, worker(&played, "test"));
    let conductor = ConductorHandle::new(dead.clone(), []);
    dead.addr().send(Shutdown).await.unwrap();
    tokio::time::pause();
    let broken_off = Refusal::Unavailable("the beginning of the operation broke off; it goes on if it began".into());
    assert_eq!(conductor.begin(played.context(server, Request::Start)).await, Err(broken_off), "nobody is there");
    assert_eq!(played.world.operations.holder(server).await.unwrap(), None);
    let mut begun = conductor.begin(played.context(server, Request::Start));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut begun).await.is_err(), "its successor may be about to start");
    tokio::time::resume();

    conductor.address_of("conductor").unwrap().replace(Conductor::new(dead.parts.clone(), None).start());
    let saga = begun.await.unwrap();
    assert_eq!(played.world.operations.holder(server).await.unwrap(), Some(saga));
    played.next_request().await.done();
    conductor.until_at_rest(server).await.unwrap();
}

#[actix::test]
async fn requests_at_once_are_bounded() {
    let played = play().await;
    let (server, conductor) = (played.server(VmState::Stopped).await, conductor(&played, 10));
    let parts = &conductor.next().parts;
    let others: Vec<_> = std::iter::from_fn(|| parts.requests.clone().try_acquire_owned().ok()).collect();
    let refusal = conductor.begin(played.context(server, Request::Start)).await;
    assert_eq!((others.len(), refusal), (REQUESTS_MAX, Err(Refusal::Unavailable("busy: too many requests at once".into()))));
    drop(others);
    conductor.begin(played.context(server, Request::Start)).await.unwrap();
}

#[actix::test]
async fn a_record_that_cannot_be_read_keeps_no_other_operation() {
    let mut played = play().await;
    let (broken, server) = (played.server(VmState::Stopped).await, played.server(VmState::Stopped).await);
    let first_life = conductor(&played, 10);
    let unreadable = first_life.begin(played.context(broken, Request::Start)).await.unwrap();
    let saga = first_life.begin(played.context(server, Request::Start)).await.unwrap();
    let _unanswered = (played.next_request().await, played.next_request().await);
    first_life.next().addr().send(Shutdown).await.unwrap();
    let spoil = format!("UPDATE sagas SET cancellation = 'no JSON' WHERE id = '{unreadable}'");
    played.world.api.db().write(move |conn| Ok(diesel::sql_query(spoil).execute(conn)?)).await.unwrap();

    let second_life = conductor(&played, 10);
    let call = played.next_request().await;
    assert_eq!(call.request.operation, saga);
    call.done();
    second_life.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
    assert!(second_life.begin(played.context(broken, Request::Stop)).await.is_err(), "the other holds its server");
}

#[actix::test]
async fn operations_beyond_the_limit_wait_and_then_are_refused() {
    let mut played = play().await;
    let conductor = conductor(&played, 1);
    let servers = [played.server(VmState::Stopped).await, played.server(VmState::Stopped).await, played.server(VmState::Stopped).await];
    conductor.begin(played.context(servers[0], Request::Start)).await.unwrap();
    let call = played.next_request().await;
    let waiting = conductor.begin(played.context(servers[1], Request::Start)).await.unwrap();
    let until_waiting = async {
        while !conductor.next().parts.room.has_waiting() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), until_waiting).await.expect("it waits");
    assert_eq!(played.record(servers[1]).await.task_state, Some(TaskState::PoweringOn), "it is accepted");
    let refusal = conductor.begin(played.context(servers[2], Request::Start)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Unavailable(_)), "{refusal:?}");
    assert_eq!(played.world.operations.holder(servers[2]).await.unwrap(), None);

    call.done();
    let call = played.next_request().await;
    assert_eq!(call.request.operation, waiting);
    call.done();
    conductor.until_at_rest(servers[1]).await.unwrap();
    assert_eq!(played.record(servers[1]).await.vm_state, VmState::Active);
}

#[actix::test]
async fn an_operation_that_waits_makes_room_for_its_servers_delete() {
    let mut played = play().await;
    let busy = limited(&played, "test", 1);
    let (conductor, elsewhere) = (ConductorHandle::new(busy, []), ConductorHandle::new(worker(&played, "other"), []));
    let servers = [played.server(VmState::Stopped).await, played.server(VmState::Stopped).await, played.server(VmState::Stopped).await];
    conductor.begin(played.context(servers[0], Request::Start)).await.unwrap();
    let hangs = played.next_request().await;
    // The wish to cancel comes once through the conductor that has the operation and once through another process.
    for (server, deleted_by) in [(servers[1], &conductor), (servers[2], &elsewhere)] {
        conductor.begin(played.context(server, Request::Start)).await.unwrap();
        deleted_by.begin(played.context(server, Request::Delete)).await.unwrap();
        let removal = played.next_request().await;
        assert_eq!((removal.request.fence.server, &removal.request.command), (server, &HostCommand::RemoveGuest));
        removal.done();
        played.next_request().await.done();
        conductor.until_at_rest(server).await.unwrap();
    }
    hangs.done();
    conductor.until_at_rest(servers[0]).await.unwrap();
    assert_eq!(played.record(servers[0]).await.vm_state, VmState::Active);
}

#[actix::test]
async fn a_refusal_that_is_not_journalled_is_unavailable() {
    let played = play().await;
    let conductor = conductor(&played, 10);
    let server = played.server(VmState::Stopped).await;
    let journal = played.world.api.db().clone();
    let broken = "CREATE TRIGGER broken BEFORE UPDATE ON sagas WHEN NEW.state = 'unwound' BEGIN SELECT RAISE(ABORT, 'broken'); END";
    journal.write(move |conn| Ok(diesel::sql_query(broken).execute(conn)?)).await.unwrap();
    let refusal = conductor.begin(played.context(server, Request::Stop)).await.unwrap_err();
    assert!(matches!(&refusal, Refusal::Unavailable(why) if why.to_string().contains("in vm_state stopped")), "{refusal:?}");

    journal.write(|conn| Ok(diesel::sql_query("DROP TRIGGER broken").execute(conn)?)).await.unwrap();
    conductor.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Stopped);
}

#[actix::test]
async fn an_overtaken_request_hears_that_the_operation_goes_on() {
    let mut played = play().await;
    let server = played.server(VmState::Stopped).await;
    // While it hung, its successor's try has written in the cell.
    let fence = played.fence(server).await;
    let successors = Fence { attempt: fence.attempt + 2, ..fence };
    played.world.cells["cell1"].db.apply(successors, CellTxn::new()).await.unwrap();
    let conductor = conductor(&played, 10);
    let refusal = conductor.begin(played.context(server, Request::Start)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Overtaken(_)) && !refusal.is_definite(), "{refusal:?}");
    played.next_request().await.done();
    conductor.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

/// A hard reboot of a server that ran has ended and owes these acts; the server is in ERROR.
pub(super) async fn owed(played: &Played, steps: &[&str]) -> Uuid {
    let server = played.server(VmState::Error).await;
    let mut context = played.context(server, Request::Reboot { hard: true });
    let (cell, instance) = crate::saga::accept::find(&played.world, server).await.unwrap();
    let node = played.world.node_on(&cell, instance.host.as_deref().unwrap()).await.unwrap();
    context.prior = Some(Prior { vm_state: VmState::Active, running: true, launched: true });
    context.source = Some(Place { cell, host: node.host.clone(), node: node.host, provider: node.uuid, availability_zone: None });
    played.owes(&context, "act", steps).await;
    server
}

/// Has the debts tried once.
fn paid_by(conductor: &ConductorHandle) -> tokio::task::JoinHandle<()> {
    let conductor = conductor.clone();
    actix::spawn(async move { conductor.pay_debts().await })
}

/// Has the debts tried once and waits for the end of it; the host does what it is asked meanwhile.
async fn pay(played: &mut Played, conductor: &ConductorHandle, asks: usize) {
    let paying = paid_by(conductor);
    for _ in 0..asks {
        played.next_request().await.done();
    }
    tokio::time::timeout(Duration::from_secs(20), paying).await.expect("the debts were not tried").unwrap();
}

#[actix::test]
async fn a_server_is_back_when_the_last_debt_it_depends_on_is_paid() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    // The guest depends on the second, not on the first.
    let server = owed(&played, &["begin", "start_guest"]).await;
    pay(&mut played, &conductor, 1).await;
    assert!(played.world.operations.debts(Some(server)).await.unwrap().is_empty());
    let record = played.record(server).await;
    assert_eq!((record.vm_state, record.power_state), (VmState::Active, PowerState::Running));
}

#[actix::test]
async fn a_server_stays_in_error_while_another_debt_stands() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = owed(&played, &["stop_guest", "start_guest"]).await;
    let paying = paid_by(&conductor);
    played.next_request().await.done();
    played.next_request().await.refused("not yet");
    tokio::time::timeout(Duration::from_secs(20), paying).await.expect("the debts were not tried").unwrap();
    assert_eq!(played.world.operations.debts(Some(server)).await.unwrap().len(), 1);
    assert_eq!(played.record(server).await.vm_state, VmState::Error, "its guest has not been started");
    pay(&mut played, &conductor, 1).await;
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

#[actix::test]
async fn a_host_that_hangs_delays_no_other_servers_debts() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let owing = [owed(&played, &["start_guest"]).await, owed(&played, &["start_guest"]).await];
    let paying = paid_by(&conductor);
    let (hangs, answers) = (played.next_request().await, played.next_request().await);
    let (waiting, other) = (hangs.request.fence.server, answers.request.fence.server);
    assert_eq!(BTreeSet::from([waiting, other]), owing.into());
    answers.done();
    let debts = async |server| played.world.operations.debts(Some(server)).await.unwrap().len();
    while debts(other).await > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(debts(waiting).await, 1);
    // A later round leaves the server alone whose host is asked already.
    tokio::time::timeout(Duration::from_secs(20), paid_by(&conductor)).await.expect("it does not wait").unwrap();
    hangs.done();
    tokio::time::timeout(Duration::from_secs(20), paying).await.expect("the host has answered").unwrap();
    assert_eq!(debts(waiting).await, 0);
}

#[actix::test]
async fn a_debt_stands_until_the_servers_record_is_right_too() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = owed(&played, &["start_guest"]).await;
    let cell = played.world.cells["cell1"].db.db().clone();
    cell.set_outage(Outage::Refuses);
    pay(&mut played, &conductor, 1).await;
    cell.set_outage(Outage::None);
    assert_eq!(played.world.operations.holder(server).await.unwrap(), None, "the server is let go whatever happened");
    assert_eq!(played.world.operations.debts(Some(server)).await.unwrap().len(), 1);

    pay(&mut played, &conductor, 1).await;
    assert!(played.world.operations.debts(Some(server)).await.unwrap().is_empty());
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

#[actix::test]
async fn a_debt_that_is_being_tried_keeps_no_request_waiting() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = owed(&played, &["start_guest"]).await;
    let paying = paid_by(&conductor);
    let hanging = played.next_request().await;
    let reboot = played.context(server, Request::Reboot { hard: true });
    let saga = conductor.begin(reboot).await.expect("the host that hangs is no reason to refuse");
    for _ in 0..3 {
        let call = played.next_request().await;
        assert!(call.request.operation == saga && call.request.fence.pair() > hanging.request.fence.pair());
        call.done();
    }
    conductor.until_at_rest(server).await.unwrap();
    hanging.done();
    tokio::time::timeout(Duration::from_secs(20), paying).await.expect("the payer gives up").unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
    assert_eq!(played.world.operations.debts(Some(server)).await.unwrap().len(), 1, "who lost the server strikes nothing out");
    pay(&mut played, &conductor, 1).await;
    assert!(played.world.operations.debts(Some(server)).await.unwrap().is_empty());
}

#[actix::test]
async fn a_request_behind_an_operation_that_cannot_end_reads_why() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = played.server(VmState::Stopped).await;
    let journal = played.world.api.db().clone();
    let full = "CREATE TRIGGER full BEFORE UPDATE ON sagas WHEN NEW.state = 'done' BEGIN SELECT RAISE(ABORT, 'no room'); END";
    journal.write(move |conn| Ok(diesel::sql_query(full).execute(conn)?)).await.unwrap();
    conductor.begin(played.context(server, Request::Start)).await.unwrap();
    played.next_request().await.done();
    let answer = async {
        loop {
            match conductor.begin(played.context(server, Request::Stop)).await {
                Err(Refusal::Unavailable(why)) => return why.to_string(),
                Err(Refusal::Conflict(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let why = tokio::time::timeout(Duration::from_secs(20), answer).await.expect("it is told");
    assert!(why.contains(&format!("the operation that has instance {server} cannot end")), "{why}");

    journal.write(|conn| Ok(diesel::sql_query("DROP TRIGGER full").execute(conn)?)).await.unwrap();
    conductor.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
    conductor.begin(played.context(server, Request::Stop)).await.unwrap();
}

#[actix::test]
async fn a_debt_of_an_unknown_step_asks_for_an_operator() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = played.server(VmState::Active).await;
    played.owes(&played.context(server, Request::Stop), "undo", &["carry_over"]).await;
    let debts = async |played: &Played| played.world.operations.debts(Some(server)).await.unwrap();
    while !debts(&played).await[0].needs_operator {
        assert!(debts(&played).await[0].tries < 10, "it asks too late");
        pay(&mut played, &conductor, 0).await;
    }
    let [debt] = &debts(&played).await[..] else { panic!("it does not stand") };
    assert_eq!((debt.tries, debt.reason.as_str()), (10, "this release does not know the step carry_over"));
    conductor.begin(played.context(server, Request::Stop)).await.unwrap();
}

#[actix::test]
async fn a_move_waits_for_the_debts_of_the_move_before() {
    let played = play().await;
    let conductor = conductor(&played, 10);
    let move_of = |server| {
        let flavor = Box::new(Flavor { id: "1".into(), name: "small".into(), ..Flavor::default() });
        played.context(server, Request::Resize(Box::new(ResizeRequest { flavor, migrate: true, host: None, cross_cell_allowed: true })))
    };
    let debts = async |server| played.world.operations.debts(Some(server)).await.unwrap().len();
    let (owing, refusing) = (played.server(VmState::Active).await, played.server(VmState::Active).await);
    let mut older = move_of(owing);
    older.source =
        Some(Place { cell: "cell1".into(), host: HOST.into(), node: HOST.into(), provider: Uuid::nil(), availability_zone: None });
    played.owes(&older, "undo", &["record_target_choice", "record_migration", "create_snapshot_image"]).await;
    played.force_down(true).await;
    let begun = conductor.begin(move_of(owing)).await;
    assert!(
        matches!(&begun, Err(Refusal::Conflict(why)) if why.to_string().contains("host is down")),
        "refused after its debts, but {begun:?}"
    );
    played.force_down(false).await;
    assert_eq!(debts(owing).await, 1, "the other is nothing that a move builds upon");

    // Without a source it cannot be paid.
    played.owes(&move_of(refusing), "undo", &["record_target_choice"]).await;
    let refusal = conductor.begin(move_of(refusing)).await.unwrap_err();
    let Refusal::Conflict(why) = refusal else { panic!("{refusal:?}") };
    let why = why.to_string();
    assert!(why.starts_with(&format!("Cannot 'migrate' instance {refusing} while what its last move left is being cleaned up")), "{why}");
    let standing = played.world.operations.debts(Some(refusing)).await.unwrap();
    let [debt] = &standing[..] else { panic!("{standing:?}") };
    assert!(debt.tries <= 3, "once for the request, besides what the conductor tries meanwhile, not {} times", debt.tries);
    conductor.begin(played.context(refusing, Request::Stop)).await.unwrap();
}

#[actix::test]
async fn a_late_payment_touches_only_the_debtors_own() {
    let played = play().await;
    let (world, server) = (&played.world, played.server(VmState::Active).await);
    let mut context = played.context(server, Request::Delete);
    let (cell, instance) = crate::saga::accept::find(world, server).await.unwrap();
    let node = world.node_on(&cell, instance.host.as_deref().unwrap()).await.unwrap();
    let here = Place { cell, host: node.host.clone(), node: node.host, provider: node.uuid, availability_zone: None };
    let elsewhere = Place { host: "host2".into(), ..here.clone() };
    for (place, is_its) in [(&here, true), (&elsewhere, false)] {
        assert_eq!(debt::in_use_again(world, &context, place).await, Ok(is_its), "what is there may be removed only if it has left");
        assert_eq!(debt::lost_ownership(world, &context, place).await, Ok(!is_its), "what is to run there is its to restore");
    }
    assert_eq!(debt::was_mended(world, &context).await, Ok(true), "its user has it running");
    // A copy is owed to be removed from the cell where the server is by now.
    pay_hidden_records(world, &context, played.fence(server).await, &here.cell).await.unwrap();
    // So is its room on a host that was off when the server was made, and that has it by now.
    context.target = Some(here.clone());
    let claim = crate::saga::tables::create::TABLE.steps.iter().find(|step| step.name == StepName::ClaimAtHost).unwrap();
    assert_eq!(debt::is_moot(world, &context, claim.moot).await, Ok(true), "the room is the server's");
    assert_eq!(played.record(server).await.uuid, server);
}

#[actix::test]
async fn a_claim_that_comes_after_its_undo_is_refused() {
    let played = play().await;
    let (world, server) = (&played.world, played.server(VmState::Active).await);
    let mut context = played.context(server, Request::Revert);
    let act = played.fence(server).await;
    let undo = Fence { attempt: act.attempt + 1, ..act };
    // The move holds nothing yet, and may not any more.
    return_source_allocation(world, &mut context, undo).await.unwrap();
    let late = world.placement.replace_allocations(act, Vec::new()).await;
    assert!(matches!(late, Err(ServiceError::Stale(..))), "{late:?}");
}

#[actix::test]
async fn a_record_of_a_move_that_comes_after_its_undo_is_refused() {
    let played = play().await;
    let (world, server) = (&played.world, played.server(VmState::Active).await);
    let mut context = played.context(server, Request::Delete);
    context.source =
        Some(Place { cell: "cell1".into(), host: "host1".into(), node: "host1".into(), provider: server, availability_zone: None });
    let act = played.fence(server).await;
    let undo = Fence { attempt: act.attempt + 1, ..act };
    // Nothing was recorded, and nothing may be any more.
    fail_migration(world, &mut context, undo).await.unwrap();
    let late = world.cells["cell1"].db.apply(act, CellTxn::new()).await;
    assert!(matches!(late, Err(DbError::Stale(..))), "{late:?}");
}

#[actix::test]
async fn a_step_that_has_nothing_to_do_is_a_line_of_the_next_commit() {
    let mut played = play().await;
    let conductor = conductor(&played, 10);
    let server = played.server(VmState::Stopped).await;
    let saga = conductor.begin(played.context(server, Request::Delete)).await.unwrap();
    let call = played.next_request().await;
    assert_eq!(call.request.command, HostCommand::RemoveGuest, "a server that never moved left nothing elsewhere");
    let operations = played.world.operations.clone();
    let lines = async || operations.entries(saga).await.unwrap();
    let of = |entries: &[JournalEntry], step: &str| -> Vec<(String, i64)> {
        entries.iter().filter(|entry| entry.step == step).map(|entry| (entry.event.clone(), entry.attempt)).collect()
    };
    let entries = lines().await;
    for idle in ["clean_source_host", "release_source_ports", "release_source_volumes", "delete_source_records"] {
        assert_eq!(of(&entries, idle), [("ok".to_owned(), 0)], "{idle}");
    }
    // A killed runner's successor goes on behind them.
    assert!(conductor.kill_migration(server).await);
    let again = played.next_request().await;
    assert!(again.request.command == HostCommand::RemoveGuest && call.request.fence.pair() < again.request.fence.pair());
    call.done();
    again.done();
    played.next_request().await.done();
    conductor.until_at_rest(server).await.unwrap();
    let entries = lines().await;
    assert_eq!(of(&entries, "clean_source_host").len(), 1);
    assert_eq!(of(&entries, "delete_shelved_image"), [("ok".to_owned(), 0)]);
    assert_eq!(of(&entries, "delete_record").last().map(|(event, _)| event.as_str()), Some("ok"));
}
