//! Tests of the API database's records, on both databases.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::connection::SimpleConnection;
use serde_json::json;
use uuid::Uuid;

use super::ApiDb;
use super::instance_mappings::MappingFilter;
use super::leases::TakeOver;
use super::operations::{Append, NewSaga, Operations};
use super::ownership;
use super::publications::NewServer;
use crate::db::{DbError, Schema, fixture};
use crate::domain::cell_mapping::{CELL0, CellMapping, CellMappingChange};
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;
use crate::domain::flavor::{Flavor, FlavorScope};
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::key_pair::KeyPair;
use crate::domain::quota::{CountedRoom, ServerUsage};
use crate::domain::quota_grant::QuotaGrant;
use crate::domain::request_spec::RequestSpec;
use crate::domain::saga_state::SagaState;
use crate::domain::server_group::{GroupPolicy, ServerGroupRecord};

pub(super) fn databases() -> Vec<ApiDb> {
    fixture::databases(Schema::Api).into_iter().map(ApiDb::new).collect()
}

pub(super) fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub(super) fn now() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(1_000_000)
}

pub(super) fn fence(server: Uuid, attempt: i64) -> Fence {
    Fence { server, epoch: 1, attempt }
}

fn flavor(flavorid: &str, name: &str) -> Flavor {
    Flavor { id: flavorid.into(), name: name.into(), vcpus: 1, memory_mb: 64, is_public: true, ..Flavor::default() }
}

pub(super) async fn with_cells(api: &ApiDb) {
    for (uuid, name) in [(CELL0, "cell0"), (id(1), "cell1"), (id(2), "cell2")] {
        let cell = CellMapping {
            uuid,
            created_at: now(),
            updated_at: None,
            name: name.into(),
            database_url: format!("{name}.db"),
            disabled: false,
        };
        api.create_cell_mapping(cell).await.unwrap();
    }
}

pub(super) fn new_server(n: u128, group: Option<Uuid>) -> NewServer {
    let instance = Instance::new(id(n), "p1", "u1", "vm", flavor("1", "a"), now());
    let request_spec = RequestSpec {
        image_id: Some(id(900)),
        instance_group: group,
        scheduler_hints: BTreeMap::from([("group".to_owned(), json!("g"))]),
        ..RequestSpec::new(id(n), "p1", "u1", flavor("1", "a"))
    };
    NewServer { instance: InstanceBundle::new(instance), request_spec }
}

#[tokio::test]
async fn a_server_is_accepted_published_and_moved_by_one_commit_each() {
    for api in databases() {
        with_cells(&api).await;
        let group = ServerGroupRecord {
            uuid: id(500),
            created_at: now(),
            updated_at: None,
            project_id: "p1".into(),
            user_id: "u1".into(),
            name: "g".into(),
            policy: GroupPolicy::AntiAffinity,
            rules: json!({"max_server_per_host": 2}),
            members: Vec::new(),
        };
        api.create_server_group(group, QuotaGrant::without_check("a test")).await.unwrap();
        // The group is gone, so nothing of the server is accepted.
        let refused = api.create_server(fence(id(11), 1), new_server(11, Some(id(501))), QuotaGrant::without_check("a test")).await;
        assert!(matches!(refused, Err(DbError::NotFound(_))));
        assert!(matches!(api.instance_mapping(id(11)).await, Err(DbError::NotFound(_))));
        // The create comes after its own undo, so nothing of the server is accepted.
        api.raise_fence(fence(id(11), 2)).await.unwrap();
        assert!(matches!(
            api.create_server(fence(id(11), 1), new_server(11, None), QuotaGrant::without_check("a test")).await,
            Err(DbError::Stale(..))
        ));
        assert!(matches!(api.instance_mapping(id(11)).await, Err(DbError::NotFound(_))));

        api.create_server(fence(id(10), 1), new_server(10, Some(id(500))), QuotaGrant::without_check("a test")).await.unwrap();
        let mapping = api.instance_mapping(id(10)).await.unwrap();
        assert_eq!((mapping.cell_uuid, mapping.queued_for_delete, mapping.user_id.as_deref()), (None, Some(false), Some("u1")));
        assert_eq!(
            mapping.created_at,
            new_server(10, None).instance.instance.created_at,
            "a server has the same age in its cell's absence"
        );
        assert_eq!(api.build_requests(Some("p1")).await.unwrap(), [new_server(10, None).instance]);
        assert_eq!(api.server_group_of(id(10)).await.unwrap(), Some(id(500)));
        assert_eq!(api.request_spec(id(10)).await.unwrap(), new_server(10, Some(id(500))).request_spec);
        assert!(matches!(
            api.create_server(fence(id(10), 1), new_server(10, None), QuotaGrant::without_check("a test")).await,
            Err(DbError::Conflict(_))
        ));

        for _ in 0..2 {
            api.publish_build(fence(id(10), 1), id(10), id(1)).await.unwrap();
        }
        assert!(matches!(api.build_request(id(10)).await, Err(DbError::NotFound(_))));
        let mut spec = api.request_spec(id(10)).await.unwrap();
        spec.flavor = flavor("2", "b");
        api.publish_move(fence(id(10), 2), id(10), id(2), spec.clone()).await.unwrap();
        assert_eq!(api.instance_mapping(id(10)).await.unwrap().cell_uuid, Some(id(2)));
        assert_eq!(api.request_spec(id(10)).await.unwrap(), spec);
        assert!(matches!(api.publish_move(fence(id(10), 1), id(10), id(1), spec).await, Err(DbError::Stale(..))));

        api.set_queued_for_delete(id(10), true).await.unwrap();
        assert!(api.instance_mappings(MappingFilter { living: true, ..Default::default() }).await.unwrap().is_empty());
        assert_eq!(api.instance_mappings(MappingFilter { cell: Some(Some(id(2))), ..Default::default() }).await.unwrap().len(), 1);
        assert_eq!(api.instance_mappings_of(vec![id(10), id(11)]).await.unwrap().len(), 1);
        assert_eq!(api.project_servers("p1", Some("u1")).await.unwrap().usage.instances, 0);
        api.purge_server(fence(id(10), 3), id(10)).await.unwrap();
        assert!(api.server_group(id(500)).await.unwrap().members.is_empty());
    }
}

#[tokio::test]
async fn cells_and_hosts_are_mapped_once() {
    for api in databases() {
        with_cells(&api).await;
        let again = CellMapping {
            uuid: id(9),
            created_at: now(),
            updated_at: None,
            name: "cell1".into(),
            database_url: String::new(),
            disabled: false,
        };
        assert!(matches!(api.create_cell_mapping(again).await, Err(DbError::Conflict(_))));
        api.update_cell_mapping(id(2), CellMappingChange { disabled: Some(true), ..Default::default() }).await.unwrap();
        assert!(api.cell_mappings().await.unwrap().iter().any(|cell| cell.uuid == id(2) && cell.disabled));
        assert_eq!(
            api.cell_mappings().await.unwrap().iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>(),
            ["cell0", "cell1", "cell2"]
        );
        for _ in 0..2 {
            api.map_hosts(vec!["h1".to_owned()], id(1)).await.unwrap();
        }
        assert!(matches!(api.map_hosts(vec!["h1".to_owned()], id(2)).await, Err(DbError::Conflict(_))));
        assert_eq!(api.host_mapping("h1").await.unwrap().cell_uuid, id(1));
        assert!(api.hosts_of_cell(id(2)).await.unwrap().is_empty());
        assert!(matches!(api.host_mapping("h2").await, Err(DbError::NotFound(_))));
    }
}

#[tokio::test]
async fn flavors_belong_to_all_or_to_those_who_were_given_them() {
    for api in databases() {
        let first = api.create_flavor(flavor("1", "a")).await.unwrap();
        let private = Flavor { is_public: false, ..flavor("2", "b") };
        assert!(api.create_flavor(private.clone()).await.unwrap().id > first.id);
        for duplicate in [flavor("1", "c"), flavor("3", "a")] {
            assert!(matches!(api.create_flavor(duplicate).await, Err(DbError::Conflict(_))));
        }
        api.add_flavor_access("2", "p1").await.unwrap();
        assert!(matches!(api.add_flavor_access("2", "p1").await, Err(DbError::Conflict(_))));
        assert!(matches!(api.add_flavor_access("1", "p1").await, Err(DbError::Conflict(_))));
        assert_eq!(api.flavors(FlavorScope::OfProject("p1".into())).await.unwrap().len(), 2);
        assert_eq!(api.flavors(FlavorScope::OfProject("p2".into())).await.unwrap().len(), 1);
        assert!(api.may_use_flavor("2", "p1").await.unwrap() && !api.may_use_flavor("2", "p2").await.unwrap());
        let edited = api.edit_extra_specs("2", |mut specs| {
            specs.insert("hw:x".into(), "1".into());
            Ok(specs)
        });
        assert_eq!(edited.await.unwrap().len(), 1);
        let stored = api.flavor("2").await.unwrap().flavor;
        assert_eq!(stored, Flavor { extra_specs: [("hw:x".to_owned(), "1".to_owned())].into(), ..private });
        api.remove_flavor_access("2", "p1").await.unwrap();
        assert!(api.flavor_access("2").await.unwrap().is_empty());
        api.delete_flavor("2").await.unwrap();
        assert!(matches!(api.delete_flavor("2").await, Err(DbError::NotFound(_))));
    }
}

#[tokio::test]
async fn key_pairs_are_a_users_own() {
    for api in databases() {
        let key = |user: &str, name: &str| KeyPair {
            id: 0,
            created_at: now(),
            user_id: user.into(),
            name: name.into(),
            fingerprint: "ff".into(),
            public_key: "ssh-rsa".into(),
            key_type: "ssh".into(),
        };
        for (user, name) in [("u1", "b"), ("u1", "a"), ("u2", "a")] {
            assert!(api.create_key_pair(key(user, name), QuotaGrant::without_check("a test")).await.unwrap().id > 0);
        }
        assert!(matches!(api.create_key_pair(key("u1", "a"), QuotaGrant::without_check("a test")).await, Err(DbError::Conflict(_))));
        let names = |keys: Vec<KeyPair>| keys.into_iter().map(|key| key.name).collect::<Vec<_>>();
        assert_eq!(names(api.key_pairs("u1", None, None).await.unwrap()), ["a", "b"]);
        assert_eq!(names(api.key_pairs("u1", Some("a"), Some(5)).await.unwrap()), ["b"]);
        api.delete_key_pair("u1", "a").await.unwrap();
        assert!(matches!(api.key_pair("u1", "a").await, Err(DbError::NotFound(_))));
        assert!(api.key_pair("u2", "a").await.is_ok());
    }
}

#[tokio::test]
async fn a_host_is_in_one_zone() {
    for api in databases() {
        let first = api.create_aggregate(id(1), "a", Some("z1")).await.unwrap();
        let second = api.create_aggregate(id(2), "b", None).await.unwrap();
        assert!(matches!(api.create_aggregate(id(3), "a", None).await, Err(DbError::Conflict(_))));
        api.add_aggregate_host(first.id, "h1").await.unwrap();
        assert!(matches!(api.add_aggregate_host(first.id, "h1").await, Err(DbError::Conflict(_))));
        api.add_aggregate_host(second.id, "h1").await.unwrap();
        let zone =
            |zone: &str| BTreeMap::from([("availability_zone".to_owned(), Some(zone.to_owned())), ("x".to_owned(), Some("y".to_owned()))]);
        assert!(matches!(api.set_aggregate_metadata(second.id, zone("z2")).await, Err(DbError::Conflict(_))));
        let same = api.set_aggregate_metadata(second.id, zone("z1")).await.unwrap();
        assert_eq!((same.availability_zone(), same.metadata.len(), same.hosts.len()), (Some("z1"), 2, 1));
        assert!(same.updated_at.is_some());
        api.set_aggregate_metadata(second.id, BTreeMap::from([("x".to_owned(), None)])).await.unwrap();
        assert_eq!(api.rename_aggregate(second.id, "c").await.unwrap().metadata.len(), 1);
        assert!(matches!(api.delete_aggregate(second.id).await, Err(DbError::Conflict(_))));
        api.remove_aggregate_host(second.id, "h1").await.unwrap();
        api.delete_aggregate(second.id).await.unwrap();
        assert_eq!(api.aggregates().await.unwrap().len(), 1);
        let third = api.create_aggregate(id(3), "c", Some("z3")).await.unwrap();
        let together = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(api.add_aggregate_hosts(third.id, together(&["h2", "h3"])).await.unwrap().hosts.len(), 2);
        assert!(matches!(api.add_aggregate_hosts(third.id, together(&["h4", "h1"])).await, Err(DbError::Conflict(_))), "h1 is in z1");
        assert_eq!(api.add_aggregate_hosts(third.id, together(&["h2", "h5"])).await.unwrap().hosts.len(), 3, "neither h4 nor h2 twice");
        let memberships = api.memberships().await.unwrap();
        assert_eq!(memberships.of("h5").aggregates.iter().map(|aggregate| aggregate.name.as_str()).collect::<Vec<_>>(), ["c"]);
        assert_eq!((memberships.zone_of("h1"), memberships.zone_of("h5"), memberships.zone_of("h4")), (Some("z1"), Some("z3"), None));
    }
}

#[tokio::test]
async fn a_new_owner_has_the_lease_and_reads_the_owner_before() {
    for api in databases() {
        let operations = Operations::new(api.db().clone());
        let fence = operations.begin(NewSaga::new(id(7), id(1), ("resize", 1), "accept", "{}".into(), "one")).await.unwrap();
        let named = |lease: i64, fence: Fence, host: &'static str| {
            operations.under_lease(id(7), lease, move |conn| ownership::hand_over(conn, fence, Some(("cell1", host))))
        };
        named(1, fence, "host1").await.unwrap();
        named(1, fence, "host1").await.unwrap();
        assert_eq!(operations.ownership(id(1)).await.unwrap().unwrap().epoch, 1, "twice is once");
        let late = named(1, fence, "host2").await;
        assert!(matches!(late, Err(DbError::Stale(..))), "it does not know of host1: {late:?}");
        assert!(matches!(operations.take_over(id(7), "one").await.unwrap(), TakeOver::Taken(..)));
        let present = Fence { epoch: 1, ..fence };
        let overtaken = named(1, present, "host2").await;
        assert!(matches!(overtaken, Err(DbError::Conflict(_))), "another life has the saga: {overtaken:?}");
        named(2, present, "host2").await.unwrap();
        let row = operations.ownership(id(1)).await.unwrap().unwrap();
        assert_eq!((row.epoch, row.owner.clone()), (2, Some(("cell1".into(), "host2".into()))));
        let may_run = |host: &str| operations.may_run(id(1), "cell1".into(), host.into());
        assert_eq!(may_run("host2").await.unwrap(), None, "an operation has the server");
        operations.release(id(7), 2).await.unwrap();
        assert_eq!(may_run("host2").await.unwrap(), Some((2, row.attempt)));
        assert_eq!(may_run("host1").await.unwrap(), None, "it is another's now");
        let is_latest = |epoch, attempt| operations.is_latest(Fence { server: id(1), epoch, attempt });
        assert!(is_latest(2, row.attempt).await.unwrap() && is_latest(2, row.attempt + 1).await.unwrap());
        assert!(!is_latest(1, row.attempt).await.unwrap() && !is_latest(2, row.attempt - 1).await.unwrap());
        let unknown = Fence { server: id(9), epoch: 9, attempt: 9 };
        assert!(!operations.is_latest(unknown).await.unwrap(), "nobody starts a server that is gone");
    }
}

#[tokio::test]
async fn an_operation_is_in_flight_until_it_ends() {
    for api in databases() {
        let operations = Operations::new(api.db().clone());
        let in_flight = async || operations.in_flight(id(1)).await.unwrap().map(|saga| saga.id);
        assert_eq!(in_flight().await, None);
        operations.begin(NewSaga::new(id(7), id(1), ("resize", 1), "accept", "{}".into(), "one")).await.unwrap();
        assert_eq!(in_flight().await, Some(id(7)));
        assert_eq!(operations.in_flight(id(2)).await.unwrap(), None, "it is another server's");
        let unwinding = Append { ends: false, ..fixture::end_of(id(7), id(1), SagaState::Unwinding) };
        operations.append(unwinding).await.unwrap();
        assert_eq!(in_flight().await, Some(id(7)));
        operations.append(fixture::end_of(id(7), id(1), SagaState::Unwound)).await.unwrap();
        assert_eq!(in_flight().await, None);
    }
}

#[tokio::test]
async fn a_commit_that_hung_names_no_owner_after_it_was_taken_back() {
    for api in databases() {
        let operations = Operations::new(api.db().clone());
        let first = operations.begin(NewSaga::new(id(7), id(1), ("resize", 1), "accept", "{}".into(), "one")).await.unwrap();
        let named = |fence: Fence, host: &'static str| {
            operations.under_lease(id(7), 1, move |conn| ownership::hand_over(conn, fence, Some(("cell1", host))))
        };
        named(first, "source").await.unwrap();
        let next = || api.db().write(|conn| ownership::take_attempt(conn, id(1)));
        let (hung, undo) = (next().await.unwrap(), next().await.unwrap());
        // The source is still the owner, so this changes nothing and raises no epoch. Only the attempt tells the two commits apart.
        named(undo, "source").await.unwrap();
        let late = named(hung, "target").await;
        assert!(matches!(late, Err(DbError::Stale(..))), "{late:?}");
        assert_eq!(operations.ownership(id(1)).await.unwrap().unwrap().owner, Some(("cell1".into(), "source".into())));
        named(undo, "target").await.unwrap();
    }
}

#[tokio::test]
async fn a_mapping_says_whether_its_delete_was_asked_for() {
    for api in databases() {
        with_cells(&api).await;
        for n in 10..14 {
            api.create_server(fence(id(n), 1), new_server(n, None), QuotaGrant::without_check("a test")).await.unwrap();
        }
        for n in 10..13 {
            api.publish_build(fence(id(n), 1), id(n), id(if n == 12 { 2 } else { 1 })).await.unwrap();
        }
        let servers = api.project_servers("p1", None).await.unwrap();
        assert_eq!((servers.usage.instances, servers.populated, servers.leaving.len()), (4, true, 0));
        assert_eq!(servers.building, [(id(13), flavor("1", "a"))]);
        assert_eq!(api.project_servers("p1", Some("u2")).await.unwrap().usage.instances, 0);
        assert_eq!(api.cells_of_project(Some("p1"), false).await.unwrap(), [id(1), id(2)].into());

        let caller = |name: &str| RequestContext { user_name: name.into(), ..RequestContext::default() };
        assert!(matches!(api.queue_delete(id(99), caller("u")).await, Err(DbError::NotFound(_))));
        for (n, name) in [(12, "first"), (12, "second"), (13, "third")] {
            api.queue_delete(id(n), caller(name)).await.unwrap();
        }
        assert_eq!(api.cells_with_queued_deletes().await.unwrap(), [id(2)], "what no cell has waits for one");
        let waiting = api.queued_deletes(Some(id(2)), None, 10).await.unwrap();
        assert!(
            matches!(&waiting[..], [one] if one.instance_uuid == id(12) && one.delete_request.as_ref().is_some_and(|request| request.caller == caller("first")))
        );
        let queued = |waiting: &[InstanceMapping]| waiting[0].delete_request.clone().map(|request| (request.attempts, request.last_error));
        api.note_queued_delete(id(12), "its source is silent".into()).await.unwrap();
        let (next, early) = (now() + TimeDelta::seconds(60), now() + TimeDelta::seconds(59));
        api.pause_queued_delete(id(12), "busy".into(), next).await.unwrap();
        api.pause_queued_delete(id(99), "busy".into(), next).await.unwrap_err();
        let waiting = api.queued_deletes(Some(id(2)), None, 10).await.unwrap();
        let request = waiting[0].delete_request.clone().unwrap();
        assert!(request.is_due(next) && !request.is_due(early), "{request:?}");
        assert_eq!(queued(&waiting), Some((1, Some("busy".to_owned()))));
        let everywhere = api.queued_deletes(None, None, 10).await.unwrap();
        assert_eq!(everywhere.iter().map(|mapping| mapping.instance_uuid).collect::<Vec<_>>(), [id(12), id(13)]);
        assert!(api.queued_deletes(Some(id(2)), Some(id(12)), 10).await.unwrap().is_empty());
        assert_eq!(api.count_queued_deletes().await.unwrap(), 2);
        let servers = api.project_servers("p1", None).await.unwrap();
        assert_eq!((servers.usage.instances, servers.leaving, servers.building.len()), (2, [id(12), id(13)].into(), 0));
        assert_eq!(api.cells_of_project(Some("p1"), false).await.unwrap(), [id(1)].into());
        assert_eq!(api.cells_of_project(None, true).await.unwrap(), [id(1), id(2)].into());

        // A server without a delete flag is living for lists, but makes the count untrusted for quotas.
        let in_cell1 = |limit| MappingFilter {
            cell: Some(Some(id(1))),
            project_id: Some("p1".into()),
            living: true,
            limit,
            ..MappingFilter::default()
        };
        api.db().write(|conn| Ok(conn.batch_execute("UPDATE instance_mappings SET queued_for_delete = NULL WHERE id = 1")?)).await.unwrap();
        let listed = |mappings: Vec<InstanceMapping>| mappings.into_iter().map(|one| one.instance_uuid).collect::<Vec<_>>();
        assert_eq!(listed(api.instance_mappings(in_cell1(None)).await.unwrap()), [id(11), id(10)]);
        assert_eq!(listed(api.instance_mappings(in_cell1(Some(1))).await.unwrap()), [id(11)]);
        let servers = api.project_servers("p1", None).await.unwrap();
        assert_eq!((servers.usage.instances, servers.populated), (1, false));
        assert_eq!(api.mappings_without_flag(Some(id(1)), None, 10).await.unwrap(), [id(10)]);
        assert!(api.mappings_without_flag(Some(id(1)), Some(id(10)), 10).await.unwrap().is_empty());
        assert_eq!(api.fill_in_flags(vec![id(10), id(11)], [id(11)].into()).await.unwrap(), 1, "what is known stays");
        assert!(api.project_servers("p1", None).await.unwrap().populated);

        api.withdraw_delete(id(13)).await.unwrap();
        api.settle_delete(id(12)).await.unwrap();
        assert_eq!(api.count_queued_deletes().await.unwrap(), 0);
        assert_eq!(api.instance_mapping(id(12)).await.unwrap().queued_for_delete, Some(true));
        assert_eq!(api.instance_mapping(id(13)).await.unwrap().queued_for_delete, Some(false));
        assert_eq!(api.project_servers("p1", None).await.unwrap().usage.instances, 3);
    }
}

#[tokio::test]
async fn the_last_room_is_taken_once() {
    for api in databases() {
        with_cells(&api).await;
        let room = |instances: i64, cores: i64| CountedRoom {
            limits: [("instances".to_owned(), instances), ("cores".to_owned(), cores)].into(),
            used: ServerUsage { instances: 1, cores: 1, ram: 0 },
            newest: 0,
            of_user: None,
        };
        let take = |n: u128, room: CountedRoom| api.create_server_within(fence(id(n), 1), new_server(n, None), room);
        let all = futures::future::join_all((10..20).map(|n| take(n, room(4, -1)))).await;
        let refusals: Vec<String> = all.into_iter().filter_map(|answer| answer.unwrap().err()).collect();
        assert_eq!(refusals.len(), 7, "three find room beside the one that was counted");
        assert!(refusals.iter().all(|why| why == "Quota exceeded for instances: Requested 1, but already used 4 of 4 instances"));
        let servers = api.project_servers("p1", None).await.unwrap();
        assert_eq!((servers.usage.instances, servers.building.len()), (3, 3), "nothing is left of the others");
        // After a new count the new server is among the used; a server whose delete was asked for returns its room.
        let counted = CountedRoom { used: ServerUsage { instances: 3, cores: 3, ram: 0 }, newest: servers.newest, ..room(9, 3) };
        let refused = take(20, counted.clone()).await.unwrap().unwrap_err();
        assert_eq!(refused, "Quota exceeded for cores: Requested 1, but already used 3 of 3 cores");
        assert!(take(20, CountedRoom { limits: room(9, 4).limits, ..counted }).await.unwrap().is_ok());
        assert!(matches!(take(20, room(100, -1)).await, Err(DbError::Conflict(_))), "it is there already");
    }
}

#[tokio::test]
async fn request_specs_of_an_older_release_get_their_amounts() {
    const AMOUNTS: &str = "2026-11-23-000301_request_spec_amounts";
    for api in databases() {
        with_cells(&api).await;
        for n in 10..12 {
            api.create_server(fence(id(n), 1), new_server(n, None), QuotaGrant::without_check("a test")).await.unwrap();
        }
        let usage = api.project_servers("p1", None).await.unwrap().usage;
        assert_eq!(usage, ServerUsage { instances: 2, cores: 2, ram: 128 });
        api.db().write(|conn| fixture::run_down(conn, Schema::Api, AMOUNTS)).await.unwrap();
        api.db().write(|conn| fixture::run_up(conn, Schema::Api, AMOUNTS)).await.unwrap();
        assert_eq!(api.project_servers("p1", None).await.unwrap().usage, usage);
    }
}
