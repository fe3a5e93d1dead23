//! Tests of leases and holds on both databases. Each reading of the test clock, which counts on SQLite, moves it forward by a second.

use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, Utc};

use super::super::debts::NewDebt;
use super::super::operations::{Append, NewSaga};
use super::*;
use crate::db::{Db, Schema, fixture};
use crate::domain::saga_state::SagaState;
use crate::env::{Blocking, Clock, Env, RandomIds};

const SERVER: Uuid = Uuid::from_u128(1);
/// The longest wait for the end of a lease.
const PATIENCE: Duration = Duration::from_secs(20);
const SAGA: Uuid = Uuid::from_u128(7);

fn all_operations() -> Vec<Operations> {
    // On PostgreSQL the server's clock counts, whose time the test has to wait for.
    let lease = |db: &Db| if db.name() == "memory" { Duration::from_secs(6) } else { Duration::from_millis(600) };
    fixture::databases(Schema::Api).into_iter().map(|db| Operations::new(db.clone()).leased_for(lease(&db))).collect()
}

async fn begun(operations: &Operations, saga: u128, owner: &str) -> Uuid {
    let (id, server) = (Uuid::from_u128(saga), Uuid::from_u128(saga + 100));
    operations.begin(NewSaga::new(id, server, ("stop", 1), "accept", "{}".into(), owner)).await.unwrap();
    id
}

#[tokio::test]
async fn a_lease_keeps_another_controller_away_until_it_runs_out() {
    for operations in all_operations() {
        let saga = begun(&operations, 7, "first").await;
        assert!(matches!(operations.take_over(saga, "second").await.unwrap(), TakeOver::Held(_)));
        operations.renew(saga, 1).await.unwrap();
        let (renewed, mut looks) = (Instant::now(), 0);
        while let TakeOver::Held(left) = operations.take_over(saga, "second").await.unwrap() {
            assert!(left <= operations.lease);
            assert!(renewed.elapsed() < PATIENCE, "it runs out");
            looks += 1;
        }
        assert!(looks > 1, "the renewal prolonged it");
        assert!(matches!(operations.renew(saga, 1).await, Err(DbError::Conflict(_))), "it has passed on");
        // A later incarnation of the same owner need not wait for the lease to expire.
        assert!(matches!(operations.take_over(saga, "second").await.unwrap(), TakeOver::Taken(saga, _) if saga.lease.epoch == 3));
    }
}

#[tokio::test]
async fn a_lease_on_postgres_counts_by_the_servers_clock() {
    let Some(url) = fixture::fresh_postgres() else { return };
    let at = |hours: i64| {
        let clock = Arc::new(Ahead(TimeDelta::hours(hours)));
        let env = Env::new(clock, Arc::new(RandomIds), Blocking::Pool);
        Operations::new(Db::open("api", &url, Schema::Api, &env).unwrap())
    };
    // Three machines whose clocks differ by hours.
    let (behind, right, ahead) = (at(-5), at(0), at(5));
    for (number, first) in [(7, &behind), (8, &right), (9, &ahead)] {
        let saga = begun(first, number, "first").await;
        for other in [&behind, &right, &ahead] {
            assert!(other.abandoned().await.unwrap().sagas.is_empty(), "the lease still runs");
            let TakeOver::Held(left) = other.take_over(saga, "other").await.unwrap() else { panic!("it is held") };
            assert!(left <= LEASE, "{left:?}");
        }
        first.release(saga, 1).await.unwrap();
    }
}

/// A machine's clock that differs from the true time.
struct Ahead(TimeDelta);

impl Clock for Ahead {
    fn now(&self) -> DateTime<Utc> {
        Env::system().now() + self.0
    }
}

#[tokio::test]
async fn a_lease_runs_out_unless_its_own_owner_renews_it() {
    for operations in all_operations() {
        let (left, kept) = (begun(&operations, 1, "one").await, begun(&operations, 2, "one").await);
        let others = begun(&operations, 3, "two").await;
        assert_eq!(operations.in_flight_of("one").await.unwrap().sagas, [left, kept]);
        assert_eq!(operations.in_flight_of("two").await.unwrap().sagas, [others]);
        let began = Instant::now();
        let abandoned = loop {
            operations.renew_all("one", vec![kept, others]).await.unwrap();
            let abandoned = operations.abandoned().await.unwrap().sagas;
            if abandoned.len() > 1 {
                break abandoned;
            }
            assert!(began.elapsed() < PATIENCE, "they run out");
        };
        assert_eq!(abandoned, [left, others], "one renewed its own");
        assert!(matches!(operations.take_over(left, "two").await.unwrap(), TakeOver::Taken(..)));
        assert_eq!(operations.renew_all("one", vec![left]).await.unwrap(), 0, "it has passed on");
        assert_eq!(operations.in_flight_of("two").await.unwrap().sagas, [left, others]);
    }
}

#[tokio::test]
async fn many_are_taken_over_in_one_commit() {
    for operations in all_operations() {
        let mut sagas = Vec::new();
        for saga in 1..20 {
            sagas.push(begun(&operations, saga, "own").await);
        }
        let (ended, unknown) = (sagas[0], Uuid::from_u128(999));
        operations.append(fixture::end_of(ended, Uuid::from_u128(101), SagaState::Unwound)).await.unwrap();
        // Last, so that its lease still runs.
        let others = begun(&operations, 20, "other").await;
        sagas.extend([unknown, others]);
        let attempts = operations.take_over_all(sagas.clone(), "own").await.unwrap();
        assert_eq!(attempts.iter().map(|(saga, _)| *saga).collect::<Vec<_>>(), sagas, "each has an answer");
        for (saga, attempt) in attempts {
            match attempt.unwrap() {
                TakeOver::Taken(record, _) => assert_eq!((record.id, record.lease.epoch), (saga, 2)),
                TakeOver::Held(left) => assert!(saga == others && left <= operations.lease, "{saga} is held for {left:?}"),
                TakeOver::Over => assert!(saga == ended || saga == unknown, "{saga} is in flight"),
            }
        }
        assert!(matches!(operations.renew(sagas[1], 1).await, Err(DbError::Conflict(_))), "the earlier incarnation has lost them");
        operations.renew(others, 1).await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_that_was_just_renewed_is_not_written_again() {
    for operations in all_operations() {
        let saga = begun(&operations, 1, "one").await;
        assert_eq!(operations.renew_all("one", vec![saga]).await.unwrap(), 0, "it has just begun");
        let began = Instant::now();
        while operations.renew_all("one", vec![saga]).await.unwrap() == 0 {
            assert!(began.elapsed() < PATIENCE, "before it runs out");
        }
        assert!(!operations.abandoned().await.unwrap().sagas.contains(&saga));
    }
}

/// Makes an ended saga that owes one step.
async fn owing(operations: &Operations) {
    operations.begin(NewSaga::new(SAGA, SERVER, ("stop", 1), "accept", "{}".into(), "one")).await.unwrap();
    let debt = NewDebt { owed_seq: 1, step: "stop_guest".into(), side: "act".into(), context: "{}".into(), reason: "no answer".into() };
    operations.append(Append { owed: vec![debt], ..fixture::end_of(SAGA, SERVER, SagaState::Unwound) }).await.unwrap();
}

#[tokio::test]
async fn a_payer_loses_its_hold_of_a_server_with_the_lease() {
    for operations in all_operations() {
        owing(&operations).await;
        let debt = operations.debts(None).await.unwrap().remove(0);
        let sleeper = operations.hold(&debt, "one", true).await.unwrap().unwrap();
        assert_eq!(operations.hold(&debt, "two", true).await.unwrap(), None, "it is held");
        assert!(matches!(operations.take_over(SAGA, "two").await.unwrap(), TakeOver::Held(_)));
        let began = Instant::now();
        while !operations.abandoned().await.unwrap().sagas.contains(&SAGA) {
            assert!(began.elapsed() < PATIENCE, "the lease runs out");
        }
        let TakeOver::Taken(saga, _) = operations.take_over(SAGA, "two").await.unwrap() else { panic!("it has run out") };
        for refused in [
            operations.settle_debt(SAGA, 1, sleeper.lease_epoch).await,
            operations.debt_failed(SAGA, 1, sleeper.lease_epoch, "no answer".into(), true, Duration::ZERO).await,
            operations.release(SAGA, sleeper.lease_epoch).await,
        ] {
            assert!(matches!(refused, Err(DbError::Conflict(_))), "{refused:?}");
        }
        assert_eq!(operations.holder(SERVER).await.unwrap(), Some(SAGA));
        assert_eq!(operations.debts(None).await.unwrap(), std::slice::from_ref(&debt));

        operations.release(SAGA, saga.lease.epoch).await.unwrap();
        let awake = operations.hold(&debt, "two", true).await.unwrap().unwrap();
        assert!(awake.fence.pair() > sleeper.fence.pair(), "what the sleeper does comes under a lower fence");
        operations.settle_debt(SAGA, 1, awake.lease_epoch).await.unwrap();
        operations.release(SAGA, awake.lease_epoch).await.unwrap();
        assert_eq!(operations.hold(&debt, "one", true).await.unwrap(), None, "another has paid it meanwhile");
        assert_eq!(operations.holder(SERVER).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_debt_rests_after_a_try_for_whoever_asks() {
    for operations in all_operations() {
        owing(&operations).await;
        let debt = operations.debts(None).await.unwrap().remove(0);
        let fails = async |owner: &str, pause: Duration| {
            let held = operations.hold(&debt, owner, true).await.unwrap().expect("an operation that needs it does not wait");
            operations.debt_failed(SAGA, 1, held.lease_epoch, "no answer".into(), false, pause).await.unwrap();
            operations.release(SAGA, held.lease_epoch).await.unwrap();
        };
        fails("one", Duration::from_secs(20)).await;
        for owner in ["one", "two"] {
            assert_eq!(operations.hold(&debt, owner, false).await.unwrap(), None, "it was tried just now");
        }
        assert_eq!(operations.due_debts().await.unwrap().debts, []);
        operations.hasten_debts().await.unwrap();
        assert_eq!(operations.due_debts().await.unwrap().debts.len(), 1);
        fails("one", Duration::ZERO).await;
        let held = operations.hold(&debt, "two", false).await.unwrap().expect("it has rested");
        operations.release(SAGA, held.lease_epoch).await.unwrap();
    }
}

#[tokio::test]
async fn a_debt_of_an_unknown_table_is_left_alone() {
    for operations in all_operations() {
        owing(&operations).await;
        let older = operations.clone().knowing(|kind, _| kind != "stop");
        let due = older.due_debts().await.unwrap();
        let table = UnknownTable { kind: "stop".into(), version: 1 };
        assert_eq!((due.debts, due.left_alone), (Vec::new(), vec![LeftAlone { saga: SAGA, server: SERVER, table: table.clone() }]));
        let debt = older.debts(None).await.unwrap().remove(0);
        for eager in [false, true] {
            assert_eq!(older.hold(&debt, "one", eager).await.unwrap(), None);
        }
        let counts = older.summary().await.unwrap();
        assert_eq!((counts.debts_waiting, counts.debts_left_alone), (0, [(table, 1)].into()));

        let counts = operations.summary().await.unwrap();
        assert_eq!((counts.debts_waiting, counts.debts_left_alone.len()), (1, 0));
        assert!(operations.hold(&debt, "one", false).await.unwrap().is_some(), "the release that owes it pays it");
    }
}
