//! Tests of a cell's records on both databases: they are written, read back, moved to another cell and back, changed under compare-and-swap
//! and fence, and listed in order.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use uuid::Uuid;

use super::actions::EventResult;
use super::fixture::register_host;
use super::{CellDb, CellTxn};
use crate::db::{DbError, Schema, fixture};
use crate::domain::action::{ActionFilter, ActionHistory, ActionKey};
use crate::domain::block_device::{BlockDevice, BlockDeviceChange};
use crate::domain::compute_node::ComputeNode;
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::{InstanceBundle, UserFields};
use crate::domain::instance_change::{Expected, InstanceChange};
use crate::domain::instance_fault::InstanceFault;
use crate::domain::instance_filter::{Deleted, InstanceFilter, TextPattern, states_of_status};
use crate::domain::instance_sort::{Direction, SortKey, SortSpec};
use crate::domain::migration::{Migration, MigrationChange, MigrationContext, MigrationFilter, MigrationStatus, MigrationType};
use crate::domain::network_info::{NetworkInfo, Vif, VifAddress};
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::domain::service::{Service, ServiceChange};
use crate::domain::virtual_interface::VirtualInterface;

pub(super) fn cells() -> Vec<CellDb> {
    fixture::databases(Schema::Cell).into_iter().map(CellDb::new).collect()
}

/// Makes the filter's pattern of a regular expression.
pub(super) fn pattern(text: &str) -> Option<TextPattern> {
    let expression = regex::Regex::new(text).unwrap();
    Some(TextPattern::new(text, move |searched| expression.is_match(searched)))
}

pub(super) fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub(super) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(1_000_000 + seconds) + TimeDelta::microseconds(123_456)
}

pub(super) fn fence(server: Uuid, attempt: i64) -> Fence {
    Fence { server, epoch: 1, attempt }
}

fn small() -> Flavor {
    Flavor {
        id: "1".into(),
        name: "small".into(),
        vcpus: 2,
        memory_mb: 512,
        root_gb: 3,
        ephemeral_gb: 1,
        swap_mb: 1025,
        ..Flavor::default()
    }
}

pub(super) fn server(n: u128) -> Instance {
    Instance::new(id(n), "p1", "u1", &format!("server-{n}"), small(), at(n as i64))
}

fn migration(server: Uuid, n: u128) -> Migration {
    Migration {
        source_compute: "h1".into(),
        source_node: "h1".into(),
        old_flavor_id: "1".into(),
        new_flavor_id: "2".into(),
        old_instance_type_id: 11,
        new_instance_type_id: 12,
        cross_cell_move: true,
        user_id: "u1".into(),
        project_id: "p1".into(),
        ..Migration::new(id(n), server, MigrationType::Resize, at(n as i64))
    }
}

/// Makes a server with a value in each field and a row of each kind.
pub(super) fn full(n: u128) -> InstanceBundle {
    let mut instance = server(n);
    instance.updated_at = Some(at(60));
    instance.display_description = Some("a server".into());
    instance.hostname = Some("guest".into());
    instance.host = Some("h1".into());
    instance.node = Some("h1".into());
    instance.availability_zone = Some("cell1".into());
    (instance.vm_state, instance.task_state, instance.power_state) = (VmState::Active, Some(TaskState::ResizePrep), PowerState::Running);
    (instance.old_flavor, instance.new_flavor, instance.old_vm_state) = (Some(small()), Some(small()), Some(VmState::Active));
    instance.image_ref = id(900).to_string();
    (instance.key_name, instance.key_data) = (Some("key".into()), Some("ssh-rsa".into()));
    (instance.locked, instance.locked_by, instance.locked_reason) = (true, Some("admin".into()), Some("why".into()));
    instance.launched_at = Some(at(5));
    instance.injected_files = json!([{"path": "/etc/motd", "contents": "aGk="}]);
    instance.system_metadata.insert("image_os".into(), "linux".into());
    instance.security_groups = vec!["default".to_owned()];
    instance.trusted_certs = Some(vec!["cert".to_owned()]);
    instance.keypair = Some(json!({"name": "key"}));
    let uuid = instance.uuid;
    let mut bundle = InstanceBundle::new(instance);
    bundle.metadata.insert("role".into(), "web".into());
    bundle.tags = vec!["a".into(), "b".into()];
    bundle.info_cache = Some(network("10.0.0.7"));
    let mut volume = BlockDevice::volume(id(n + 1000), uuid, id(700), at(1));
    (volume.attachment_id, volume.connection_info, volume.tag) = (Some(id(701)), Some(json!({"path": "/x"})), Some("data".into()));
    bundle.block_devices = vec![volume, BlockDevice::local(id(n + 2000), uuid, at(1))];
    bundle.virtual_interfaces = vec![VirtualInterface {
        port_id: id(800),
        instance_uuid: uuid,
        created_at: at(1),
        address: "fa:16:3e:00:00:01".into(),
        network_id: id(801),
        tag: Some("nic".into()),
    }];
    bundle.migrations = vec![migration(uuid, n + 3000)];
    bundle.migration_context = Some(MigrationContext { migration_uuid: id(n + 3000), context: json!({"claim": 1}) });
    bundle.faults =
        vec![InstanceFault { instance_uuid: uuid, created_at: at(2), code: 500, message: "no".into(), details: None, host: None }];
    bundle
}

fn network(address: &str) -> NetworkInfo {
    NetworkInfo(vec![Vif {
        port_id: id(800),
        network_id: id(801),
        network_name: "private".into(),
        mac_address: "fa:16:3e:00:00:01".into(),
        fixed_ips: vec![VifAddress { subnet_id: id(802), address: address.into() }],
        created_for_server: true,
        tag: None,
    }])
}

fn key(server: Uuid) -> ActionKey {
    ActionKey { instance: server, request_id: "req-1".into(), action: "resize".into() }
}

/// Removes the ids that differ between cells.
fn bare(mut bundle: InstanceBundle) -> InstanceBundle {
    bundle.instance.id = 0;
    bundle.migrations.iter_mut().for_each(|migration| (migration.id, migration.first_id) = (0, None));
    bundle
}

#[tokio::test]
async fn a_server_goes_whole_to_another_cell_and_back() {
    for (source, target) in cells().into_iter().zip(cells()) {
        let bundle = full(1);
        let uuid = bundle.instance.uuid;
        source.apply(fence(uuid, 1), CellTxn::new().create_instance(bundle.clone())).await.unwrap();
        let started =
            CellTxn::new().action_started(key(uuid), "u1".into(), "p1".into()).event_started(key(uuid), "cold_migrate".into(), None);
        source.apply(fence(uuid, 1), started).await.unwrap();
        let exported = source.export_bundle(uuid).await.unwrap();
        assert_eq!(bare(InstanceBundle { actions: Vec::new(), ..exported.clone() }), bare(bundle));
        assert_eq!(exported.actions[0].events[0].event, "cold_migrate");
        // The journal stores the bundle as JSON.
        let exported: InstanceBundle = serde_json::from_value(serde_json::to_value(&exported).unwrap()).unwrap();

        // Rows of other servers make the target's ids differ.
        target.apply(fence(id(50), 1), CellTxn::new().create_instance(full(50))).await.unwrap();
        target.apply(fence(uuid, 2), CellTxn::new().import_bundle(exported.clone(), true)).await.unwrap();
        target.apply(fence(uuid, 2), CellTxn::new().import_bundle(exported.clone(), true)).await.unwrap();
        let copy = target.export_bundle(uuid).await.unwrap();
        assert!(copy.instance.hidden);
        assert_ne!(copy.instance.id, exported.instance.id);
        let mut shown = copy.clone();
        shown.instance.hidden = false;
        assert_eq!(bare(shown), bare(exported));

        target.apply(fence(uuid, 3), CellTxn::new().hidden(uuid, false)).await.unwrap();
        assert!(matches!(target.apply(fence(uuid, 3), CellTxn::new().import_bundle(copy.clone(), true)).await, Err(DbError::Conflict(_))));
        source.apply(fence(uuid, 3), CellTxn::new().hard_delete_instance(uuid)).await.unwrap();
        source.apply(fence(uuid, 3), CellTxn::new().hard_delete_instance(uuid)).await.unwrap();
        assert!(matches!(source.instance_even_deleted(uuid).await, Err(DbError::NotFound(_))));
        source.apply(fence(uuid, 4), CellTxn::new().import_bundle(copy, false)).await.unwrap();
        // A row of the server that was deleted here earlier does not prevent the import.
        target.apply(fence(uuid, 5), CellTxn::new().soft_delete_instance(uuid, at(99))).await.unwrap();
        let back = source.export_bundle(uuid).await.unwrap();
        target.apply(fence(uuid, 6), CellTxn::new().import_bundle(back, true)).await.unwrap();
    }
}

#[tokio::test]
async fn a_change_happens_only_from_an_expected_state() {
    for cell in cells() {
        let uuid = id(1);
        cell.apply(fence(uuid, 1), CellTxn::new().create_instance(full(1))).await.unwrap();
        let change =
            InstanceChange { flavor: Some(Flavor { id: "9".into(), ..small() }), old_flavor: Some(None), ..InstanceChange::task(None) };
        let from = Expected::tasks(&[Some(TaskState::ResizePrep)]);
        cell.apply(fence(uuid, 1), CellTxn::new().instance_change_if(uuid, from.clone(), change.clone())).await.unwrap();
        let now = cell.instance(uuid).await.unwrap();
        assert_eq!((now.task_state, now.flavor.id.as_str(), &now.old_flavor, now.display_name.as_str()), (None, "9", &None, "server-1"));
        let instances = cell
            .list_instances(InstanceFilter { flavor_id: Some("9".into()), ..Default::default() }, SortSpec::default(), None, 9)
            .await
            .unwrap();
        assert_eq!(instances.len(), 1);

        match cell.apply(fence(uuid, 1), CellTxn::new().instance_change_if(uuid, from, change)).await {
            Err(DbError::WrongState { vm_state: VmState::Active, task_state: None, .. }) => {}
            other => panic!("{other:?}"),
        }
        let begin = InstanceChange::task(Some(TaskState::PoweringOff));
        cell.apply(fence(uuid, 1), CellTxn::new().instance_change_if(uuid, Expected::at_rest(&[VmState::Active]), begin)).await.unwrap();
        assert!(matches!(
            cell.apply(fence(uuid, 1), CellTxn::new().instance_change(id(77), InstanceChange::task(None))).await,
            Err(DbError::NotFound(_))
        ));
    }
}

#[tokio::test]
async fn late_and_refused_transactions_change_nothing() {
    for cell in cells() {
        let uuid = id(1);
        cell.apply(fence(uuid, 4), CellTxn::new().create_instance(full(1))).await.unwrap();
        let late = cell.apply(fence(uuid, 3), CellTxn::new().instance_change(uuid, InstanceChange::task(None))).await;
        assert!(matches!(late, Err(DbError::Stale(1, 3, _))));
        let half = CellTxn::new()
            .instance_change(uuid, InstanceChange::task(None))
            .replace_tags(uuid, vec!["c".into()])
            .migration_status(id(12345), MigrationStatus::Error);
        assert!(matches!(cell.apply(fence(uuid, 4), half).await, Err(DbError::NotFound(_))));
        assert_eq!(cell.instance(uuid).await.unwrap().task_state, Some(TaskState::ResizePrep));
        assert_eq!(cell.tags(uuid).await.unwrap(), ["a", "b"]);
    }
}

#[tokio::test]
async fn the_history_of_two_cells_becomes_one() {
    for (source, target) in cells().into_iter().zip(cells()) {
        let uuid = id(1);
        source.apply(fence(uuid, 1), CellTxn::new().create_instance(full(1))).await.unwrap();
        let begun =
            CellTxn::new().action_started(key(uuid), "u1".into(), "p1".into()).event_started(key(uuid), "cold_migrate".into(), None);
        source.apply(fence(uuid, 1), begun).await.unwrap();
        let copy = source.export_bundle(uuid).await.unwrap();
        target.apply(fence(uuid, 2), CellTxn::new().import_bundle(copy, true)).await.unwrap();
        let there = || CellTxn::new().event_finished(key(uuid), "finish".into(), Some("h2".into()), EventResult::Success);
        target.apply(fence(uuid, 2), there().then(there())).await.unwrap();
        let failed = EventResult::Error { details: "why".into(), traceback: Some("trace".into()) };
        let end = CellTxn::new()
            .event_finished(key(uuid), "cold_migrate".into(), None, failed)
            .event_finished(key(uuid), "cold_migrate".into(), None, EventResult::Success)
            .action_finished(key(uuid), None);
        source.apply(fence(uuid, 2), end).await.unwrap();

        let theirs = source.history(uuid).await.unwrap();
        target.apply(fence(uuid, 3), CellTxn::new().merge_actions(uuid, theirs.clone())).await.unwrap();
        target.apply(fence(uuid, 3), CellTxn::new().merge_actions(uuid, theirs)).await.unwrap();
        let merged = target.action(uuid, "req-1").await.unwrap();
        let results: BTreeSet<_> = merged.events.iter().map(|e| (e.event.as_str(), e.result.as_deref())).collect();
        assert_eq!(results, BTreeSet::from([("cold_migrate", Some("Error")), ("finish", Some("Success"))]));
        assert_eq!(merged.events.len(), 2);
        assert_eq!(merged.action.message.as_deref(), Some("Error"));
        assert!(merged.action.finish_time.is_some());
        assert_eq!(target.actions(uuid, ActionFilter::default()).await.unwrap().len(), 1);
        assert!(matches!(target.action(uuid, "req-2").await, Err(DbError::NotFound(_))));
    }
}

#[tokio::test]
async fn an_event_without_a_host_gets_that_of_the_other_cells_record() {
    for (source, target) in cells().into_iter().zip(cells()) {
        let uuid = id(1);
        for cell in [&source, &target] {
            cell.apply(fence(uuid, 1), CellTxn::new().create_instance(full(1))).await.unwrap();
            let begun = CellTxn::new().action_started(key(uuid), "u1".into(), "p1".into()).event_started(key(uuid), "prep".into(), None);
            cell.apply(fence(uuid, 1), begun).await.unwrap();
        }
        let done = CellTxn::new().event_finished(key(uuid), "prep".into(), Some("h2".into()), EventResult::Success);
        let next = ActionKey { request_id: "req-9".into(), action: "reboot".into(), ..key(uuid) };
        let other = CellTxn::new().action_started(next, "u1".into(), "p1".into());
        source.apply(fence(uuid, 2), done.then(other)).await.unwrap();
        let theirs = source.history(uuid).await.unwrap();
        target.apply(fence(uuid, 3), CellTxn::new().merge_actions(uuid, theirs.clone())).await.unwrap();
        let merged = target.history(uuid).await.unwrap();
        let events = |history: &[ActionHistory]| -> Vec<_> {
            history
                .iter()
                .flat_map(|entry| &entry.events)
                .map(|event| (event.event.clone(), event.host.clone(), event.result.clone()))
                .collect()
        };
        assert_eq!(events(&merged), events(&theirs), "one event, at its host");
        assert_eq!(merged.len(), theirs.len(), "with the action that only one cell knew");
    }
}

#[tokio::test]
async fn records_of_a_server_are_changed_in_place() {
    for cell in cells() {
        let uuid = id(1);
        cell.apply(fence(uuid, 1), CellTxn::new().create_instance(full(1))).await.unwrap();
        let change = BlockDeviceChange { attachment_id: Some(Some(id(702))), connection_info: Some(None), ..Default::default() };
        let txn = CellTxn::new()
            .block_device_change(id(1001), change)
            .merge_metadata(uuid, [("role".to_owned(), "db".to_owned()), ("x".to_owned(), "y".to_owned())].into())
            .add_tag(uuid, "a".into())
            .delete_tag(uuid, "b".into())
            .info_cache(uuid, network("10.0.0.8"))
            .fault(InstanceFault { instance_uuid: uuid, created_at: at(9), code: 500, message: "m".repeat(300), details: None, host: None })
            .migration_change(id(3001), MigrationChange::target(Some("h2"), Some("h2"), Some("127.0.0.1")))
            .clear_move_fields(uuid);
        cell.apply(fence(uuid, 1), txn).await.unwrap();
        assert_eq!(cell.instance_view(uuid).await.unwrap().details.fault, None, "users see a fault in ERROR alone");
        let failed = CellTxn::new().instance_change(uuid, InstanceChange::states(VmState::Error, None));
        cell.apply(fence(uuid, 1), failed).await.unwrap();
        let view = cell.instance_view(uuid).await.unwrap();
        let device = &view.details.block_devices[0];
        assert_eq!((device.attachment_id, &device.connection_info, device.volume_id), (Some(id(702)), &None, Some(id(700))));
        assert_eq!(view.details.metadata, [("role".to_owned(), "db".to_owned()), ("x".to_owned(), "y".to_owned())].into());
        assert_eq!(view.details.tags, ["a"]);
        assert_eq!(view.details.network_info, network("10.0.0.8"));
        assert_eq!(view.details.fault.unwrap().message.len(), 255);
        assert_eq!((view.instance.old_flavor, view.instance.old_vm_state), (None, None));
        assert_eq!(cell.migration_context(uuid).await.unwrap(), None);
        assert_eq!(cell.migration(id(3001)).await.unwrap().dest_compute.as_deref(), Some("h2"));

        let mut fields = UserFields::from(&cell.export_bundle(uuid).await.unwrap());
        (fields.display_name, fields.locked, fields.tags) = ("new".into(), false, vec!["z".into()]);
        cell.apply(fence(uuid, 1), CellTxn::new().copy_user_fields(uuid, fields.clone())).await.unwrap();
        assert_eq!(UserFields::from(&cell.export_bundle(uuid).await.unwrap()), fields);
    }
}

#[tokio::test]
async fn pages_in_any_order_are_the_sorted_whole() {
    for cell in cells() {
        let hosts = [None, Some("b"), Some("A"), Some(""), Some("ä")];
        for n in 1..=23u128 {
            let mut bundle = InstanceBundle::new(server(n));
            bundle.instance.created_at = at((n % 4) as i64);
            bundle.instance.host = hosts[(n % 5) as usize].map(str::to_owned);
            bundle.instance.launched_at = (n % 3 == 0).then(|| at((n % 2) as i64));
            bundle.instance.locked = n % 2 == 0;
            cell.apply(fence(id(n), 1), CellTxn::new().create_instance(bundle)).await.unwrap();
        }
        let orders = [
            SortSpec::default(),
            SortSpec::new(vec![(SortKey::Host, Direction::Asc), (SortKey::LaunchedAt, Direction::Desc)]),
            SortSpec::new(vec![(SortKey::Locked, Direction::Desc), (SortKey::CreatedAt, Direction::Asc), (SortKey::Uuid, Direction::Desc)]),
        ];
        for sort in orders {
            let mut expected = cell.list_instances(InstanceFilter::default(), SortSpec::default(), None, 100).await.unwrap();
            expected.sort_by(|a, b| sort.compare(&sort.position(a), &sort.position(b)));
            let mut pages: Vec<Instance> = Vec::new();
            loop {
                let after = pages.last().map(|last| sort.position(last));
                let page = cell.list_instances(InstanceFilter::default(), sort.clone(), after, 4).await.unwrap();
                if page.is_empty() {
                    break;
                }
                pages.extend(page);
            }
            assert_eq!(pages.len(), 23);
            assert_eq!(pages, expected, "{sort:?}");
        }
    }
}

#[tokio::test]
async fn lists_show_what_the_filters_ask_for() {
    for cell in cells() {
        let fails = InstanceFault { instance_uuid: id(3), created_at: at(9), code: 500, message: "boom".into(), details: None, host: None };
        for n in 1..=4u128 {
            let mut bundle = InstanceBundle::new(server(n));
            bundle.instance.project_id = if n == 4 { "p2".into() } else { "p1".into() };
            (bundle.instance.vm_state, bundle.instance.task_state) = (VmState::Active, None);
            bundle.info_cache = Some(network(&format!("10.0.0.{n}")));
            cell.apply(fence(id(n), 1), CellTxn::new().create_instance(bundle)).await.unwrap();
        }
        let txn = CellTxn::new()
            .instance_change(id(2), InstanceChange::task(Some(TaskState::ResizePrep)))
            .replace_tags(id(2), vec!["a".into(), "b".into()]);
        cell.apply(fence(id(2), 1), txn).await.unwrap();
        cell.apply(fence(id(3), 1), CellTxn::new().instance_change(id(3), InstanceChange::states(VmState::Error, None)).fault(fails))
            .await
            .unwrap();
        cell.apply(fence(id(4), 1), CellTxn::new().hidden(id(4), true).merge_metadata(id(1), [("k".into(), "v".into())].into()))
            .await
            .unwrap();

        let list = async |filter: InstanceFilter| -> Vec<u128> {
            let sort = SortSpec::new(vec![(SortKey::Uuid, Direction::Asc)]);
            cell.list_instances(filter, sort, None, 10).await.unwrap().iter().map(|i| i.uuid.as_u128()).collect()
        };
        let status = |statuses: &[&str]| InstanceFilter { states: Some(states_of_status(statuses)), ..Default::default() };
        assert_eq!(list(InstanceFilter::default()).await, [1, 2, 3]);
        assert_eq!(list(InstanceFilter { with_hidden: true, project_id: Some("p2".into()), ..Default::default() }).await, [4]);
        assert_eq!(list(status(&["ACTIVE"])).await, [1]);
        assert_eq!(list(status(&["RESIZE", "ERROR"])).await, [2, 3]);
        assert_eq!(list(status(&["NONSENSE"])).await, [0u128; 0]);
        assert_eq!(list(InstanceFilter { task_states: Some(vec![None]), ..Default::default() }).await, [1, 3]);
        assert_eq!(list(InstanceFilter { tags: vec!["a".into(), "b".into()], ..Default::default() }).await, [2]);
        assert_eq!(list(InstanceFilter { tags_any: vec!["b".into(), "c".into()], ..Default::default() }).await, [2]);
        assert_eq!(list(InstanceFilter { not_tags: vec!["b".into(), "c".into()], ..Default::default() }).await, [1, 2, 3]);
        assert_eq!(list(InstanceFilter { not_tags_any: vec!["b".into(), "c".into()], ..Default::default() }).await, [1, 3]);
        assert_eq!(list(InstanceFilter { metadata: vec![("k".into(), "v".into())], ..Default::default() }).await, [1]);
        assert_eq!(list(InstanceFilter { uuids: Some(vec![id(3), id(1)]), ..Default::default() }).await, [1, 3]);
        assert_eq!(list(InstanceFilter { name: pattern("r-[23]"), ..Default::default() }).await, [2, 3]);
        assert_eq!(list(InstanceFilter { ip: pattern("^10.0.0.2"), ..Default::default() }).await, [2]);
        assert_eq!(list(InstanceFilter { ip6: pattern("^10"), ..Default::default() }).await, [0u128; 0]);

        // `changes_since` finds a deleted server in ERROR, with its fault (NOVA-DIFFERENCES L32).
        let before = cell.db().env().now();
        cell.apply(fence(id(3), 1), CellTxn::new().soft_delete_instance(id(3), before)).await.unwrap();
        let changed = InstanceFilter { changes_since: Some(before), deleted: Deleted::Include, ..Default::default() };
        let views = cell.list_instance_views(changed, SortSpec::default(), None, 10).await.unwrap();
        assert_eq!(views.len(), 1);
        assert_eq!((views[0].instance.uuid, views[0].instance.vm_state), (id(3), VmState::Deleted));
        assert_eq!(views[0].details.fault.as_ref().unwrap().message, "boom");
        assert!(matches!(cell.instance(id(3)).await, Err(DbError::NotFound(_))));
        assert_eq!(cell.flavors_in_use("p1", None).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn migrations_are_listed_page_by_page() {
    for cell in cells() {
        for n in 1..=5u128 {
            let mut one = migration(id(n % 2), n);
            one.created_at = at((n / 2) as i64);
            cell.apply(fence(id(n % 2), 1), CellTxn::new().create_migration(one.clone())).await.unwrap();
            cell.apply(fence(id(n % 2), 1), CellTxn::new().create_migration(one)).await.unwrap();
        }
        cell.apply(fence(id(1), 1), CellTxn::new().migration_change(id(5), MigrationChange::status(MigrationStatus::Finished)))
            .await
            .unwrap();
        let mut filter = MigrationFilter { limit: Some(2), ..Default::default() };
        let mut seen = Vec::new();
        while let page @ [.., last] = cell.migrations(filter.clone()).await.unwrap().as_slice() {
            filter.after = Some((last.created_at, last.uuid));
            seen.extend(page.iter().map(|migration| migration.uuid.as_u128()));
        }
        assert_eq!(seen, [5, 4, 3, 2, 1]);
        let latest = cell.latest_migration(id(1), &[MigrationStatus::PreMigrating]).await.unwrap().unwrap();
        assert_eq!(latest.uuid, id(3));
        let changed = MigrationFilter { changes_since: Some(at(100)), host: Some("h1".into()), ..Default::default() };
        assert_eq!(cell.migrations(changed).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_confirm_that_has_not_begun_may_be_asked_for_again() {
    for cell in cells() {
        for (n, status) in [(1, MigrationStatus::Error), (2, MigrationStatus::Confirming)] {
            cell.apply(fence(id(7), 1), CellTxn::new().create_migration(Migration { status, ..migration(id(7), n) })).await.unwrap();
        }
        cell.apply(
            fence(id(8), 1),
            CellTxn::new().create_migration(Migration { status: MigrationStatus::Reverting, ..migration(id(8), 3) }),
        )
        .await
        .unwrap();
        cell.apply(fence(id(7), 2), CellTxn::new().end_not_begun(id(7))).await.unwrap();
        let mut statuses = Vec::new();
        for n in 1..=3 {
            statuses.push(cell.migration(id(n)).await.unwrap().status);
        }
        assert_eq!(statuses, [MigrationStatus::Error, MigrationStatus::Finished, MigrationStatus::Reverting]);
    }
}

#[tokio::test]
async fn hosts_report_and_their_usage_counts_hidden_servers() {
    for cell in cells() {
        let service = Service { version: 68, ..Service::new(id(1), "h1", "nova-compute", "cell1", at(0)) };
        let node = ComputeNode {
            vcpus: 8,
            memory_mb: 8192,
            local_gb: 100,
            cpu_allocation_ratio: 4.5,
            ..ComputeNode::new(id(2), "h1", id(1), at(0))
        };
        let register = || CellTxn::new().register_service(service.clone()).save_compute_node(node.clone());
        let change = ServiceChange { disabled: Some(true), disabled_reason: Some(Some("why".into())), ..Default::default() };
        cell.apply_unfenced(register().service_change(id(1), change)).await.unwrap();
        cell.apply_unfenced(register()).await.unwrap();
        cell.apply_unfenced(CellTxn::new().services_seen(vec![id(1)])).await.unwrap();
        let stored = cell.service_on("h1", "nova-compute").await.unwrap();
        assert_eq!((stored.disabled, stored.report_count, stored.last_seen_up.is_some()), (true, 1, true));

        cell.apply(fence(id(1), 1), CellTxn::new().create_instance(full(1))).await.unwrap();
        let mut volume_backed = full(2);
        volume_backed.instance.image_ref = String::new();
        cell.apply(fence(id(2), 1), CellTxn::new().create_instance(volume_backed)).await.unwrap();
        cell.apply(fence(id(2), 1), CellTxn::new().hidden(id(2), true)).await.unwrap();
        cell.apply_unfenced(CellTxn::new().recount_usage(["h1".to_owned()].into())).await.unwrap();
        let used = cell.compute_nodes().await.unwrap().remove(0);
        // Swap of 1025 MiB counts as 2 GiB. A volume-backed server's root disk is not on the host.
        assert_eq!((used.vcpus_used, used.memory_mb_used, used.local_gb_used, used.running_vms), (4, 1024, 9, 2));
        assert_eq!(cell.instances_on_host("h1").await.unwrap().len(), 2);

        for server in [id(1), id(2)] {
            cell.apply(fence(server, 1), CellTxn::new().soft_delete_instance(server, at(9))).await.unwrap();
        }
        cell.apply_unfenced(CellTxn::new().recount_usage(["h1".to_owned()].into())).await.unwrap();
        let left = cell.compute_nodes().await.unwrap().remove(0);
        assert_eq!((left.vcpus_used, left.memory_mb_used, left.local_gb_used, left.running_vms), (0, 0, 0, 0));
        cell.apply_unfenced(CellTxn::new().recount_usage(["h1".to_owned()].into())).await.unwrap();
        assert_eq!(cell.compute_nodes().await.unwrap().remove(0).updated_at, left.updated_at, "a host without servers is left alone");
    }
}

#[tokio::test]
async fn a_service_goes_with_its_hosts_nodes_or_not_at_all() {
    for cell in cells() {
        let service = Service::new(id(1), "h1", "nova-compute", "nova", at(0));
        register_host(&cell, service, ComputeNode::new(id(2), "h1", id(1), at(0))).await;

        let refused = cell.remove_service(id(3), "h1").await;
        assert!(matches!(refused, Err(DbError::NotFound(_))), "{refused:?}");
        assert!(cell.compute_node_on("h1").await.unwrap().is_some());

        cell.remove_service(id(1), "h1").await.unwrap();
        assert!(cell.services().await.unwrap().is_empty());
        assert!(cell.compute_node_on("h1").await.unwrap().is_none());
    }
}
