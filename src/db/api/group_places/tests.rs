//! Tests of the places of groups' members, on both databases.

use serde_json::json;

use super::super::operations::{NewSaga, Operations};
use super::super::tests::{databases, fence, id, new_server, now, with_cells};
use super::*;
use crate::db::fixture::end_of;
use crate::domain::quota_grant::QuotaGrant;
use crate::domain::server_group::ServerGroupRecord;

const GROUP: u128 = 500;

/// Makes a group with the servers 10 to 13.
async fn with_group(api: &ApiDb, policy: GroupPolicy, most: i64) {
    with_cells(api).await;
    let rules = json!({"max_server_per_host": most});
    let group = ServerGroupRecord {
        uuid: id(GROUP),
        created_at: now(),
        updated_at: None,
        project_id: "p1".into(),
        user_id: "u1".into(),
        name: "g".into(),
        policy,
        rules,
        members: Vec::new(),
    };
    api.create_server_group(group, QuotaGrant::without_check("a test")).await.unwrap();
    for n in 10..14 {
        api.create_server(fence(id(n), 1), new_server(n, Some(id(GROUP))), QuotaGrant::without_check("a test")).await.unwrap();
    }
}

/// Begins an operation on a server.
async fn begun(api: &ApiDb, server: u128, saga: u128, kind: &str) -> Operations {
    let operations = Operations::new(api.db().clone());
    operations.begin(NewSaga::new(id(saga), id(server), (kind, 1), "accept", "{}".into(), "me")).await.unwrap();
    operations
}

async fn end(operations: &Operations, server: u128, saga: u128, state: SagaState) {
    operations.append(end_of(id(saga), id(server), state)).await.unwrap();
}

fn place(server: u128, saga: u128, host: &str, source: Option<&str>) -> GroupPlace {
    GroupPlace { group: id(GROUP), server: id(server), saga: id(saga), host: host.into(), source_host: source.map(str::to_owned) }
}

async fn takes(api: &ApiDb, attempt: i64, place: GroupPlace) -> bool {
    api.take_group_place(fence(place.server, attempt), place).await.unwrap().is_none()
}

#[tokio::test]
async fn the_last_place_is_taken_once() {
    for most in [1, 2] {
        for api in databases() {
            with_group(&api, GroupPolicy::AntiAffinity, most).await;
            for n in 10..14 {
                begun(&api, n, n + 100, "create").await;
            }
            let requests = (10..14).map(|n| takes(&api, 2, place(n, n + 100, "h1", None)));
            let answers = futures::future::join_all(requests).await;
            assert_eq!(answers.iter().filter(|has_place| **has_place).count(), usize::try_from(most).unwrap());
            let again = answers.iter().zip(10..14).filter(|(has_place, _)| **has_place);
            for (_, n) in again {
                assert!(takes(&api, 3, place(n, n + 100, "h1", None)).await, "its own place");
                let late = api.take_group_place(fence(id(n), 2), place(n, n + 100, "h2", None)).await;
                assert!(matches!(late, Err(DbError::Stale(..))), "{late:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_place_counts_while_its_operation_may_use_it() {
    for api in databases() {
        with_group(&api, GroupPolicy::AntiAffinity, 1).await;
        for n in 11..13 {
            begun(&api, n, n + 100, "create").await;
        }
        let free = async |attempt: i64, host: &str| takes(&api, attempt, place(11, 111, host, None)).await;
        let operations = begun(&api, 10, 200, "resize").await;
        assert!(takes(&api, 2, place(10, 200, "h2", Some("h1"))).await);
        assert!(!free(2, "h1").await && !free(3, "h2").await && free(4, "h3").await);
        // The resize waits for its confirm or revert, and needs both hosts.
        end(&operations, 10, 200, SagaState::Done).await;
        assert!(!free(5, "h1").await && !free(6, "h2").await);
        begun(&api, 10, 201, "confirm").await;
        assert!(!free(7, "h1").await);
        end(&operations, 10, 201, SagaState::Done).await;
        assert!(free(8, "h1").await, "from then on the owner alone counts");
        assert_eq!(api.placed_group(id(GROUP)).await.unwrap().unwrap().members[&id(11)], ["h1"]);
        // A move that failed needs its target no more.
        begun(&api, 10, 202, "live_migrate").await;
        assert!(takes(&api, 3, place(10, 202, "h4", None)).await);
        assert!(!free(9, "h4").await);
        end(&operations, 10, 202, SagaState::Unwound).await;
        assert!(free(10, "h4").await);
        assert_eq!(api.placed_groups().await.unwrap().len(), 1);
        assert_eq!(api.placed_group(id(1)).await.unwrap(), None);
    }
}
