//! Tests that SQL and memory agree on each condition.

use chrono::{SubsecRound, TimeDelta};

use super::admits;
use crate::db::cell::CellTxn;
use crate::db::cell::tests::{at, cells, fence, full, id, pattern, server};
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::instance_filter::{InstanceFilter, states_of_status};
use crate::domain::instance_sort::SortSpec;
use crate::domain::server::{PowerState, TaskState, VmState};

/// Each function sets one condition that [`chosen`] meets and a plain server does not.
const CONDITIONS: &[fn(&mut InstanceFilter)] = &[
    |filter| filter.project_id = Some("p2".into()),
    |filter| filter.user_id = Some("u2".into()),
    |filter| filter.uuids = Some(vec![id(1), id(3)]),
    |filter| filter.reservation_id = Some("r-1".into()),
    |filter| filter.host = Some("h1".into()),
    |filter| filter.node = Some("h1".into()),
    |filter| filter.availability_zone = Some("cell1".into()),
    |filter| filter.flavor_id = Some("9".into()),
    |filter| filter.image_ref = Some(id(900).to_string()),
    |filter| filter.key_name = Some("key".into()),
    |filter| filter.locked = Some(true),
    |filter| filter.locked_by = Some("admin".into()),
    |filter| filter.config_drive = Some(true),
    |filter| filter.auto_disk_config = Some(true),
    |filter| filter.launch_index = Some(3),
    |filter| filter.progress = Some(50),
    |filter| filter.root_device_name = Some("/dev/vda".into()),
    |filter| filter.access_ip_v4 = Some("10.1.1.1".into()),
    |filter| filter.access_ip_v6 = Some("fe80::1".into()),
    |filter| filter.power_state = Some(PowerState::Running),
    |filter| filter.vm_states = Some(vec![VmState::Active, VmState::Error]),
    |filter| filter.task_states = Some(vec![None, Some(TaskState::ResizePrep)]),
    |filter| filter.states = Some(states_of_status(&["RESIZE"])),
    |filter| filter.created_at = Some(at(1)),
    |filter| filter.launched_at = Some(at(5)),
    |filter| filter.terminated_at = Some(at(6)),
    |filter| filter.changes_since = Some(at(60)),
    |filter| filter.tags = vec!["a".into(), "b".into()],
    |filter| filter.tags_any = vec!["b".into(), "z".into()],
    |filter| filter.metadata = vec![("role".into(), "web".into())],
    |filter| filter.name = pattern("-1$"),
    |filter| filter.description = pattern("^a "),
    |filter| filter.hostname = pattern("gu"),
    |filter| filter.ip = pattern("^10"),
];

/// Each function sets one condition that a plain server meets and [`chosen`] does not.
const OPPOSITES: &[fn(&mut InstanceFilter)] = &[
    |filter| filter.locked = Some(false),
    |filter| filter.task_states = Some(vec![Some(TaskState::Scheduling)]),
    |filter| filter.states = Some(states_of_status(&["BUILD"])),
    |filter| filter.changes_before = Some(at(59)),
    |filter| filter.not_tags = vec!["a".into(), "b".into()],
    |filter| filter.not_tags_any = vec!["a".into(), "z".into()],
    |filter| filter.description = pattern("^$"),
];

/// Makes a server with a value in each field that a condition compares.
fn chosen() -> InstanceBundle {
    let mut bundle = full(1);
    let instance = &mut bundle.instance;
    (instance.project_id, instance.user_id, instance.flavor.id) = ("p2".into(), "u2".into(), "9".into());
    (instance.reservation_id, instance.root_device_name) = (Some("r-1".into()), Some("/dev/vda".into()));
    (instance.access_ip_v4, instance.access_ip_v6) = (Some("10.1.1.1".into()), Some("fe80::1".into()));
    (instance.config_drive, instance.auto_disk_config) = (true, true);
    (instance.launch_index, instance.progress, instance.terminated_at) = (3, 50, Some(at(6)));
    bundle
}

#[tokio::test]
async fn sql_and_memory_admit_the_same_servers() {
    for cell in cells() {
        for bundle in [chosen(), InstanceBundle::new(server(2))] {
            cell.apply(fence(bundle.instance.uuid, 1), CellTxn::new().create_instance(bundle)).await.unwrap();
        }
        let stored = [cell.export_bundle(id(1)).await.unwrap(), cell.export_bundle(id(2)).await.unwrap()];
        let cases = CONDITIONS.iter().map(|set| (set, id(1))).chain(OPPOSITES.iter().map(|set| (set, id(2))));
        for (set, expected) in cases {
            let mut filter = InstanceFilter::default();
            set(&mut filter);
            let in_memory: Vec<_> = stored.iter().filter(|bundle| admits(&filter, bundle)).map(|bundle| bundle.instance.uuid).collect();
            assert_eq!(in_memory, [expected], "in memory: {filter:?}");
            let listed = cell.list_instances(filter.clone(), SortSpec::default(), None, 10).await.unwrap();
            let in_sql: Vec<_> = listed.iter().map(|instance| instance.uuid).collect();
            assert_eq!(in_sql, [expected], "in SQL: {filter:?}");
        }
    }
}

#[tokio::test]
async fn a_change_within_the_named_second_is_not_after_it() {
    for cell in cells() {
        let bundle = chosen();
        let changed = bundle.instance.updated_at.expect("it was changed");
        let shown = changed.trunc_subsecs(0);
        assert!(shown < changed, "users see less of it");
        cell.apply(fence(bundle.instance.uuid, 1), CellTxn::new().create_instance(bundle)).await.unwrap();
        let stored = cell.export_bundle(id(1)).await.unwrap();
        for (before, admitted) in [(shown, true), (shown - TimeDelta::microseconds(1), false)] {
            let filter =
                InstanceFilter { changes_before: Some(before), changes_since: Some(shown - TimeDelta::days(1)), ..Default::default() };
            assert_eq!(admits(&filter, &stored), admitted, "in memory: {before}");
            let listed = cell.list_instances(filter, SortSpec::default(), None, 10).await.unwrap();
            assert_eq!(listed.len(), usize::from(admitted), "in SQL: {before}");
        }
    }
}
