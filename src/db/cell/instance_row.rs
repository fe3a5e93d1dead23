//! The row of a server, between the table `instances` and the domain's [`Instance`].

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::schema::instances;
use crate::db::columns::{NullIsFalse, Sql, StringMap};
use crate::db::merged::Merged;
use crate::db::row::Stored;
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::server::{PowerState, TaskState, VmState};

/// A row of `instances`. It has the fields of [`Instance`], some of them in `details`.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = instances)]
pub(in crate::db) struct InstanceRow {
    #[diesel(skip_insertion)]
    id: i32,
    #[diesel(serialize_as = Sql<Uuid>)]
    uuid: Uuid,
    #[diesel(serialize_as = Sql<DateTime<Utc>>)]
    created_at: DateTime<Utc>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    updated_at: Option<DateTime<Utc>>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    deleted_at: Option<DateTime<Utc>>,
    deleted: bool,
    #[diesel(deserialize_as = NullIsFalse)]
    hidden: bool,
    project_id: String,
    user_id: String,
    display_name: String,
    display_description: Option<String>,
    hostname: Option<String>,
    host: Option<String>,
    node: Option<String>,
    availability_zone: Option<String>,
    #[diesel(serialize_as = Sql<VmState>)]
    vm_state: VmState,
    #[diesel(serialize_as = Sql<Option<TaskState>>)]
    task_state: Option<TaskState>,
    #[diesel(serialize_as = Sql<PowerState>)]
    power_state: PowerState,
    progress: i32,
    #[diesel(serialize_as = Sql<Flavor>)]
    flavor: Flavor,
    image_ref: String,
    key_name: Option<String>,
    locked: bool,
    locked_by: Option<String>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    launched_at: Option<DateTime<Utc>>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    terminated_at: Option<DateTime<Utc>>,
    root_device_name: Option<String>,
    access_ip_v4: Option<String>,
    access_ip_v6: Option<String>,
    user_data: Option<String>,
    details: Details,
}

/// The values of a server that lists seldom look at, in one column: diesel takes three times as long to compile for tables of more than 32
/// columns. A field that is added has `#[serde(default)]`, because rows that are stored lack it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(in crate::db) struct Details {
    key_data: Option<String>,
    locked_reason: Option<String>,
    reservation_id: Option<String>,
    launch_index: i32,
    config_drive: bool,
    auto_disk_config: bool,
    old_flavor: Option<Flavor>,
    new_flavor: Option<Flavor>,
    old_vm_state: Option<VmState>,
    injected_files: Value,
    system_metadata: StringMap,
    security_groups: Vec<String>,
    trusted_certs: Option<Vec<String>>,
    keypair: Option<Value>,
}

cellshift_store::json_column!(Object: Details);

/// The SQL of the values in `details` by which lists filter or sort.
pub(super) const RESERVATION_ID: &str = "(instances.details ->> 'reservation_id')";
pub(super) const LAUNCH_INDEX: &str = "CAST(instances.details ->> 'launch_index' AS INTEGER)";
pub(super) const CONFIG_DRIVE: &str = "CASE WHEN CAST(instances.details ->> 'config_drive' AS BOOLEAN) THEN 1 ELSE 0 END";
pub(super) const AUTO_DISK_CONFIG: &str = "CASE WHEN CAST(instances.details ->> 'auto_disk_config' AS BOOLEAN) THEN 1 ELSE 0 END";

/// Makes the conversions between a row and its record, from the names of their fields.
macro_rules! converts {
    (columns: $($column:ident)+; details: $($detail:ident)+) => {
        impl From<InstanceRow> for Instance {
            fn from(row: InstanceRow) -> Instance {
                Instance { $($column: row.$column,)+ $($detail: row.details.$detail),+ }
            }
        }

        impl From<Instance> for InstanceRow {
            fn from(instance: Instance) -> InstanceRow {
                InstanceRow { $($column: instance.$column,)+ details: Details { $($detail: instance.$detail),+ } }
            }
        }
    };
}

impl Stored for Instance {
    type Row = InstanceRow;
}

converts! {
    columns:
        id uuid created_at updated_at deleted_at deleted hidden project_id user_id display_name display_description hostname host node
        availability_zone vm_state task_state power_state progress flavor image_ref key_name locked locked_by launched_at terminated_at
        root_device_name access_ip_v4 access_ip_v6 user_data;
    details:
        key_data locked_reason reservation_id launch_index config_drive auto_disk_config old_flavor new_flavor old_vm_state
        injected_files system_metadata security_groups trusted_certs keypair
}

/// Makes the change of these values in `details`, named as in [`Instance`].
pub(super) fn changed_details(values: impl IntoIterator<Item = (&'static str, Value)>) -> Merged {
    Merged::new("instances.details", values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::db::cell::CellTxn;
    use crate::db::cell::tests::{cells, fence, full, id, server};
    use crate::db::fixture::{run_down, run_up};
    use crate::db::{Conn, Schema};
    use crate::domain::instance_bundle::InstanceBundle;
    use crate::domain::instance_change::InstanceChange;

    /// The migration that makes the column.
    const DETAILS: &str = "2026-11-29-000101_instance_details";

    type Edit = (fn(&mut InstanceChange), fn(&mut Instance));

    /// Makes a change of each of these fields, and the same on a record.
    macro_rules! edits {
        ($($field:ident: $value:expr),+ $(,)?) => { [$((|change| change.$field = Some($value), |record| record.$field = $value)),+] };
    }

    #[tokio::test]
    async fn a_change_of_one_detail_leaves_the_others() {
        let edits: [Edit; 12] = edits! {
            key_data: None,
            locked_reason: Some("it's \"done\"".into()),
            config_drive: true,
            auto_disk_config: true,
            old_flavor: Some(Flavor { id: "7".into(), ..Flavor::default() }),
            new_flavor: None,
            old_vm_state: Some(VmState::Stopped),
            injected_files: json!([]),
            system_metadata: StringMap::from([("other".into(), "value".into())]),
            security_groups: vec!["b".into(), "a".into()],
            trusted_certs: None,
            keypair: Some(json!({"type": "ssh"})),
        };
        for cell in cells() {
            let uuid = id(1);
            cell.apply(fence(uuid, 1), CellTxn::new().create_instance(full(1))).await.unwrap();
            let mut expected = cell.instance(uuid).await.unwrap();
            for (edit_change, edit_record) in edits {
                let mut change = InstanceChange::default();
                edit_change(&mut change);
                edit_record(&mut expected);
                cell.apply(fence(uuid, 1), CellTxn::new().instance_change(uuid, change)).await.unwrap();
                let changed = cell.instance(uuid).await.unwrap();
                expected.updated_at = changed.updated_at;
                assert_eq!(changed, expected);
            }
        }
    }

    #[tokio::test]
    async fn rows_without_details_keep_their_values_and_numbers() {
        for cell in cells() {
            for (n, bundle) in [(1, full(1)), (2, InstanceBundle::new(server(2))), (3, InstanceBundle::new(server(3)))] {
                cell.apply(fence(id(n), 1), CellTxn::new().create_instance(bundle)).await.unwrap();
            }
            cell.apply(fence(id(3), 1), CellTxn::new().hard_delete_instance(id(3))).await.unwrap();
            let before = [cell.instance(id(1)).await.unwrap(), cell.instance(id(2)).await.unwrap()];
            let there_and_back = |conn: &mut Conn| {
                run_down(conn, Schema::Cell, DETAILS)?;
                run_up(conn, Schema::Cell, DETAILS)
            };
            cell.db().write(there_and_back).await.unwrap();
            assert_eq!([cell.instance(id(1)).await.unwrap(), cell.instance(id(2)).await.unwrap()], before);
            cell.apply(fence(id(4), 1), CellTxn::new().create_instance(InstanceBundle::new(server(4)))).await.unwrap();
            assert_eq!(cell.instance(id(4)).await.unwrap().id, 4);
        }
    }
}
