//! Two conductors over one database; the host is played by the test. Leases are short, so that they run out within the test.

use actix::prelude::*;
use tokio::sync::oneshot;

use super::tests::{owed, worker};
use super::*;
use crate::actors::address::Address;
use crate::actors::tests::played::{Played, play_leased};
use crate::db::api::leases::LEASE;
use crate::db::api::operations::NewSaga;
use crate::domain::saga_record::{JournalEntry, Lease};
use crate::domain::server::VmState;
use crate::saga::context::Request;
use crate::saga::operations::BeginOperation;

const SHORT: Duration = Duration::from_millis(1500);

/// Starts a stopped server through this conductor.
async fn begun(played: &Played, through: &Worker) -> (Uuid, Uuid) {
    let server = played.server(VmState::Stopped).await;
    let conductor = ConductorHandle::new(through.clone(), []);
    let saga = conductor.begin(played.context(server, Request::Start)).await.unwrap();
    (server, saga)
}

async fn lease(played: &Played, saga: Uuid) -> Lease {
    played.world.operations.saga(saga).await.unwrap().unwrap().lease
}

async fn journal(played: &Played, saga: Uuid) -> Vec<JournalEntry> {
    played.world.operations.entries(saga).await.unwrap()
}

fn signed(owner: &str, epoch: i64) -> Lease {
    Lease { owner: owner.into(), epoch }
}

/// Makes an actor stand still for as long as what this gives is kept.
fn paused<A>(actor: &Addr<A>) -> oneshot::Sender<()>
where
    A: Actor<Context = Context<A>> + Handler<Pause>,
{
    let (resume, until) = oneshot::channel();
    actor.do_send(Pause { until });
    resume
}

/// Waits until a conductor has nothing more at work.
async fn until_idle(conductor: &Worker) {
    let idle = async {
        loop {
            let ended = conductor.parts.ended.notified();
            if conductor.parts.in_flight.load(Ordering::Relaxed) == 0 {
                break;
            }
            ended.await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), idle).await.expect("it lets go");
}

#[actix::test]
async fn another_conductor_continues_the_work_of_a_dead_one() {
    let mut played = play_leased(LEASE).await;
    let (one, two) = (worker(&played, "one"), worker(&played, "two"));
    let (server, saga) = begun(&played, &one).await;
    let unanswered = played.next_request().await;
    one.addr().send(Shutdown).await.unwrap();
    let died = Instant::now();

    let call = played.next_request().await;
    let took = died.elapsed();
    assert_eq!((call.request.operation, &call.request.command), (saga, &unanswered.request.command));
    assert!(call.request.fence.pair() > unanswered.request.fence.pair(), "what the dead one asked for is late by now");
    assert_eq!(lease(&played, saga).await, signed("two", 2));
    call.done();
    two.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
    println!("taken over {took:?} after the death, ended {:?} after it", died.elapsed());
}

#[actix::test]
async fn a_conductor_that_dies_breaks_off_no_beginning() {
    let mut played = play_leased(SHORT).await;
    let (one, two, server) = (worker(&played, "one"), worker(&played, "two"), played.server(VmState::Stopped).await);
    let (operations, ending) = (played.world.operations.clone(), played.world.env.uuid());
    operations.begin(NewSaga::new(ending, server, ("stop", 1), "accept", "{}".into(), "another")).await.unwrap();
    let conductor = ConductorHandle::new(one.clone(), []);
    let mut begun = conductor.begin(played.context(server, Request::Start));
    while one.parts.requests.available_permits() == REQUESTS_MAX {
        assert!(futures::poll!(&mut begun).is_pending());
        tokio::task::yield_now().await;
    }
    // Handled behind the request, which waits for the server.
    one.addr().send(Shutdown).await.unwrap();
    operations.abandon(ending, "refused", "{}".into()).await.unwrap();
    let saga = begun.await.unwrap();
    assert_eq!(lease(&played, saga).await, signed("one", 1));
    assert_eq!(one.parts.requests.available_permits(), REQUESTS_MAX);
    played.next_request().await.done();
    two.until_at_rest(server).await.unwrap();
    assert_eq!(lease(&played, saga).await, signed("two", 2));
}

#[actix::test]
async fn a_conductor_that_stood_still_lets_go_when_it_wakes() {
    let mut played = play_leased(SHORT).await;
    let (one, two) = (worker(&played, "one"), worker(&played, "two"));
    let (server, saga) = begun(&played, &one).await;
    let late = played.next_request().await;
    let sleep = paused(&one.addr());
    // The host has done it; nobody hears of that while the conductor sleeps, for its migration sleeps with it.
    late.done();
    let call = played.next_request().await;
    assert_eq!(lease(&played, saga).await, signed("two", 2));

    drop(sleep);
    until_idle(&one).await;
    assert_eq!(lease(&played, saga).await, signed("two", 2), "it does not take back what another renews");
    let doubtful = journal(&played, saga).await;
    let started: Vec<_> = doubtful.iter().filter(|entry| entry.step == "start_guest").map(|entry| entry.event.as_str()).collect();
    assert_eq!(started, ["begun", "begun"], "what the sleeper knows of the end is not written");

    call.done();
    two.until_at_rest(server).await.unwrap();
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
    assert_eq!(journal(&played, saga).await.iter().filter(|entry| entry.step == "start_guest" && entry.event == "ok").count(), 1);
}

#[actix::test]
async fn an_operation_that_was_given_to_a_sleeper_is_begun_by_another() {
    let mut played = play_leased(SHORT).await;
    let (one, two) = (worker(&played, "one"), worker(&played, "two"));
    let server = played.server(VmState::Stopped).await;
    let sleep = paused(&one.addr());
    let both = ConductorHandle::new(one.clone(), [two.clone()]);
    let saga = both.begin(played.context(server, Request::Start)).await.unwrap();
    assert_eq!(lease(&played, saga).await, signed("two", 1), "the sleeper does not accept it");
    played.next_request().await.done();
    two.until_at_rest(server).await.unwrap();
    let written = journal(&played, saga).await;
    drop(sleep);
    // Answered when what was in its mailbox before has been handled.
    assert!(!one.addr().send(KillMigration(server)).await.unwrap());
    until_idle(&one).await;
    assert_eq!(journal(&played, saga).await, written);
    assert_eq!(one.parts.requests.available_permits(), REQUESTS_MAX, "the request that it had is over");
}

#[actix::test]
async fn a_stuck_migration_loses_its_lease_under_a_live_conductor() {
    let mut played = play_leased(SHORT).await;
    let (one, two, roster) = (worker(&played, "one"), worker(&played, "two"), Roster::default());
    let parts = one.parts.clone().listed(&roster);
    one.addr().send(Shutdown).await.unwrap();
    let one = Worker::new(Address::new(Conductor::new(parts.clone(), None).start()), parts);
    let (sleeping, sleeper) = begun(&played, &one).await;
    let late = played.next_request().await;
    let (waiting, waiter) = begun(&played, &one).await;
    let waits = played.next_request().await;
    assert!(roster.pause(&format!("migration/{sleeper}")));

    let call = played.next_request().await;
    assert_eq!((call.request.operation, lease(&played, sleeper).await), (sleeper, signed("two", 2)));
    // The waiting operation began before the other's lease ran out, and has not gone on since; its lease is renewed.
    assert_eq!(lease(&played, waiter).await, signed("one", 1));
    call.done();
    two.until_at_rest(sleeping).await.unwrap();
    waits.done();
    late.done();
    one.until_at_rest(waiting).await.unwrap();
    assert_eq!(lease(&played, waiter).await, signed("one", 1));
    roster.resume_all();
    until_idle(&one).await;
}

#[actix::test]
async fn a_payer_that_dies_blocks_no_other_payer() {
    let mut played = play_leased(SHORT).await;
    let (one, two) = (worker(&played, "one"), worker(&played, "two"));
    let server = owed(&played, &["start_guest"]).await;
    one.addr().do_send(PayDebts);
    let unanswered = played.next_request().await;
    one.addr().send(Shutdown).await.unwrap();
    assert!(played.world.operations.holder(server).await.unwrap().is_some(), "the dead one's hold is there");
    // The other ends it, and pays in its own time.
    let call = played.next_request().await;
    assert!(call.request.fence.pair() > unanswered.request.fence.pair());
    call.done();
    two.until_at_rest(server).await.unwrap();
    assert!(played.world.operations.debts(Some(server)).await.unwrap().is_empty());
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

#[actix::test]
async fn operations_go_round_the_conductors_and_past_a_sleeper() {
    let mut played = play_leased(SHORT).await;
    let (one, two) = (worker(&played, "one"), worker(&played, "two"));
    let both = ConductorHandle::new(one.clone(), [two]);
    let mut owners = Vec::new();
    for _ in 0..4 {
        let server = played.server(VmState::Stopped).await;
        let saga = both.begin(played.context(server, Request::Start)).await.unwrap();
        owners.push(lease(&played, saga).await.owner);
        played.next_request().await.done();
        both.until_at_rest(server).await.unwrap();
    }
    assert_eq!(owners, ["one", "two", "one", "two"]);
    let sleep = paused(&one.addr());
    let due = played.world.operations.renewal_interval();
    let missed = async {
        while one.is_awake() {
            tokio::time::sleep(due).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), missed).await.expect("it is missed");
    for _ in 0..2 {
        let server = played.server(VmState::Stopped).await;
        let saga = both.begin(played.context(server, Request::Start)).await.unwrap();
        assert_eq!(lease(&played, saga).await.owner, "two");
        played.next_request().await.done();
        both.until_at_rest(server).await.unwrap();
    }
    drop(sleep);
}
