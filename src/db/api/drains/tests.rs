//! Tests of drains' records and leases on both databases.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::db::{Schema, fixture};
use crate::domain::context::RequestContext;
use crate::domain::drain::Destination;

const DRAIN: Uuid = Uuid::from_u128(1);
const SERVER: Uuid = Uuid::from_u128(7);

fn plan(hosts: &[&str]) -> DrainPlan {
    DrainPlan {
        cell: "cell1".into(),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        whole_cell: false,
        to: Destination::Cell("cell2".into()),
        flavors: BTreeMap::from([("1".into(), "2".into())]),
        max_in_flight: 4,
        confirm: true,
        confirm_others: false,
        may_leave_cell: true,
        caller: RequestContext { user_id: "root".into(), ..RequestContext::default() },
    }
}

fn all_operations(lease: Duration) -> Vec<Operations> {
    fixture::databases(Schema::Api).into_iter().map(|db| Operations::new(db).leased_for(lease)).collect()
}

#[tokio::test]
async fn a_drain_is_driven_by_the_holder_of_its_lease_alone() {
    for operations in all_operations(Duration::from_secs(3600)) {
        operations.create_drain(DRAIN, plan(&["h1"])).await.unwrap();
        assert_eq!(operations.drain(DRAIN).await.unwrap().unwrap().plan, plan(&["h1"]));
        let first = operations.lease_drain(DRAIN, "first", None).await.unwrap().expect("nobody holds a new one");
        assert_eq!(operations.lease_drain(DRAIN, "second", None).await.unwrap(), None);
        assert_eq!(operations.lease_drain(DRAIN, "first", Some(first.epoch)).await.unwrap(), Some(first), "renewed");
        // A later incarnation of the same controller goes on at once.
        let next = operations.lease_drain(DRAIN, "first", None).await.unwrap().expect("its own");
        assert!(next.epoch > first.epoch);
        let late = operations.add_drain_servers(first, vec![(SERVER, "h1".into())], Vec::new()).await;
        assert!(matches!(late, Err(DbError::Conflict(_))), "{late:?}");
        assert_eq!(operations.add_drain_servers(next, vec![(SERVER, "h1".into())], Vec::new()).await.unwrap(), 1);
    }
    for operations in all_operations(Duration::ZERO) {
        operations.create_drain(DRAIN, plan(&["h1"])).await.unwrap();
        let first = operations.lease_drain(DRAIN, "first", None).await.unwrap().expect("free");
        let second = operations.lease_drain(DRAIN, "second", None).await.unwrap().expect("the lease has run out");
        assert!(matches!(operations.note_drain(first, None).await, Err(DbError::Conflict(_))));
        operations.note_drain(second, Some("a reason".into())).await.unwrap();
    }
}

#[tokio::test]
async fn a_paused_drain_begins_no_move_and_is_not_settled() {
    for operations in all_operations(Duration::from_secs(3600)) {
        operations.create_drain(DRAIN, plan(&["h1"])).await.unwrap();
        let lease = operations.lease_drain(DRAIN, "one", None).await.unwrap().expect("free");
        operations.add_drain_servers(lease, vec![(SERVER, "h1".into())], Vec::new()).await.unwrap();
        let server = operations.drain_servers_due(DRAIN, 9).await.unwrap().pop().expect("due");
        let moving = DrainServer { state: DrainServerState::Moving, operation: Some(Uuid::from_u128(9)), ..server };
        operations.change_drain(DRAIN, &[DrainState::Running], DrainState::Paused).await.unwrap();
        assert!(!operations.begin_drain_move(lease, moving.clone()).await.unwrap());
        operations.settle_drain(lease, DrainState::Running).await.unwrap();
        let drain = operations.drain(DRAIN).await.unwrap().unwrap();
        assert_eq!((drain.state, drain.is_settled), (DrainState::Paused, false));
        let again = operations.change_drain(DRAIN, &[DrainState::Running], DrainState::Paused).await;
        assert!(matches!(again, Err(DbError::Conflict(_))), "{again:?}");
        operations.change_drain(DRAIN, &[DrainState::Paused], DrainState::Running).await.unwrap();
        assert!(operations.begin_drain_move(lease, moving.clone()).await.unwrap());
        let servers = operations.drain_servers(DRAIN, Some(DrainServerState::Moving), None, 9).await.unwrap();
        assert_eq!(servers.iter().map(|server| server.operation).collect::<Vec<_>>(), [moving.operation]);
        assert_eq!(operations.drain_counts(DRAIN).await.unwrap()[&DrainServerState::Moving], 1);
    }
}

#[tokio::test]
async fn a_host_is_in_one_drain_until_that_ends_and_is_forgotten() {
    for operations in all_operations(Duration::from_secs(3600)) {
        operations.create_drain(DRAIN, plan(&["h1", "h2"])).await.unwrap();
        let second = operations.create_drain(Uuid::from_u128(2), plan(&["h3", "h2"])).await;
        assert!(matches!(&second, Err(DbError::Conflict(why)) if why.to_string().contains("h2")), "{second:?}");
        let lease = operations.lease_drain(DRAIN, "one", None).await.unwrap().expect("free");
        operations.add_drain_servers(lease, vec![(SERVER, "h1".into())], Vec::new()).await.unwrap();
        operations.settle_drain(lease, DrainState::Running).await.unwrap();
        assert_eq!(operations.drain(DRAIN).await.unwrap().unwrap().state, DrainState::Done);
        operations.create_drain(Uuid::from_u128(2), plan(&["h3", "h2"])).await.unwrap();
        let later = operations.db().env().now() + chrono::TimeDelta::days(1);
        assert_eq!(operations.drains_ended_before(later, 9).await.unwrap(), [DRAIN], "the other one is open");
        operations.forget_drains(vec![DRAIN]).await.unwrap();
        assert_eq!(operations.drain(DRAIN).await.unwrap(), None);
        assert_eq!(operations.drain_servers(DRAIN, None, None, 9).await.unwrap(), []);
        assert_eq!(operations.drains(None, 9).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_undone_drain_holds_its_hosts_until_it_is_settled() {
    for operations in all_operations(Duration::from_secs(3600)) {
        operations.create_drain(DRAIN, plan(&["h1"])).await.unwrap();
        let lease = operations.lease_drain(DRAIN, "one", None).await.unwrap().expect("free");
        operations.settle_drain(lease, DrainState::Running).await.unwrap();
        let second = Uuid::from_u128(2);
        operations.create_drain(second, plan(&["h1"])).await.unwrap();
        let refused = operations.undo_drain(DRAIN).await;
        assert!(matches!(&refused, Err(DbError::Conflict(why)) if why.to_string().contains(&second.to_string())), "{refused:?}");
        operations.change_drain(second, &[DrainState::Running], DrainState::Cancelled).await.unwrap();

        operations.undo_drain(DRAIN).await.unwrap();
        assert!(operations.drains_to_drive().await.unwrap().contains(&DRAIN), "also after its end");
        assert!(matches!(operations.create_drain(Uuid::from_u128(3), plan(&["h1"])).await, Err(DbError::Conflict(_))));
        operations.settle_drain(lease, DrainState::Running).await.unwrap();
        assert_eq!(operations.drain(DRAIN).await.unwrap().unwrap().state, DrainState::Undoing, "a driver that saw it run settles nothing");
        operations.drain_hosts_disabled(lease, false).await.unwrap();
        operations.settle_drain(lease, DrainState::Undoing).await.unwrap();
        let drain = operations.drain(DRAIN).await.unwrap().unwrap();
        assert_eq!((drain.state, drain.is_settled, drain.hosts_disabled), (DrainState::Undone, true, false));
        assert!(matches!(operations.undo_drain(DRAIN).await, Err(DbError::Conflict(_))));
        operations.create_drain(Uuid::from_u128(3), plan(&["h1"])).await.unwrap();
    }
}

#[tokio::test]
async fn servers_with_one_reason_are_counted_together() {
    for operations in all_operations(Duration::from_secs(3600)) {
        operations.create_drain(DRAIN, plan(&["h1"])).await.unwrap();
        let lease = operations.lease_drain(DRAIN, "one", None).await.unwrap().expect("free");
        let servers = (1..=4).map(|number| (Uuid::from_u128(number), "h1".to_owned())).collect();
        operations.add_drain_servers(lease, servers, Vec::new()).await.unwrap();
        for (number, reason) in [(1, Some("it is locked")), (2, Some("no host")), (3, Some("no host")), (4, None)] {
            let page = operations.drain_servers(DRAIN, None, None, 9).await.unwrap();
            let server = page.into_iter().find(|server| server.server == Uuid::from_u128(number)).expect("its row");
            let refused = DrainServer { state: DrainServerState::Refused, reason: reason.map(str::to_owned), ..server };
            operations.write_drain_server(lease, refused).await.unwrap();
        }
        let reasons = operations.drain_reasons(DRAIN).await.unwrap();
        let numbers: Vec<(&str, i64)> = reasons.iter().map(|group| (group.reason.as_str(), group.servers)).collect();
        assert_eq!(numbers, [("no host", 2), ("it is locked", 1)]);
    }
}
