//! The row of a server, between the table `instances` and the domain's [`Instance`].

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::query_dsl::LoadQuery;
use uuid::Uuid;

use super::schema::instances;
use crate::db::columns::{NullIsFalse, Sql, StringList, StringMap};
use crate::db::{Conn, DbError};
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::server::{PowerState, TaskState, VmState};

/// A row of `instances`. Its fields are those of [`Instance`].
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = instances)]
pub(super) struct InstanceRow {
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
    #[diesel(serialize_as = Sql<Option<Flavor>>)]
    old_flavor: Option<Flavor>,
    #[diesel(serialize_as = Sql<Option<Flavor>>)]
    new_flavor: Option<Flavor>,
    #[diesel(serialize_as = Sql<Option<VmState>>)]
    old_vm_state: Option<VmState>,
    key_data: Option<String>,
    config_drive: bool,
    locked_reason: Option<String>,
    launch_index: i32,
    reservation_id: Option<String>,
    #[diesel(serialize_as = Sql<serde_json::Value>)]
    injected_files: serde_json::Value,
    #[diesel(serialize_as = Sql<StringMap>)]
    system_metadata: StringMap,
    security_groups: StringList,
    trusted_certs: Option<StringList>,
    #[diesel(serialize_as = Sql<Option<serde_json::Value>>)]
    keypair: Option<serde_json::Value>,
    auto_disk_config: bool,
}

/// Makes the conversions between a row and its record, from the names of the fields that hold the same in both.
macro_rules! converts {
    ($($field:ident)+) => {
        impl From<InstanceRow> for Instance {
            fn from(row: InstanceRow) -> Instance {
                let (security_groups, trusted_certs) = (row.security_groups.0, row.trusted_certs.map(|names| names.0));
                Instance { $($field: row.$field,)+ security_groups, trusted_certs }
            }
        }

        impl From<Instance> for InstanceRow {
            fn from(instance: Instance) -> InstanceRow {
                let (security_groups, trusted_certs) = (StringList(instance.security_groups), instance.trusted_certs.map(StringList));
                InstanceRow { $($field: instance.$field,)+ security_groups, trusted_certs }
            }
        }
    };
}

converts! {
    id uuid created_at updated_at deleted_at deleted hidden project_id user_id display_name display_description hostname host node
    availability_zone vm_state task_state power_state progress flavor image_ref key_name locked locked_by launched_at terminated_at
    root_device_name access_ip_v4 access_ip_v6 user_data old_flavor new_flavor old_vm_state key_data config_drive locked_reason
    launch_index reservation_id injected_files system_metadata keypair auto_disk_config
}

/// Reads the servers that a query of rows selects.
pub(super) fn load<'query>(conn: &mut Conn, query: impl LoadQuery<'query, Conn, InstanceRow>) -> Result<Vec<Instance>, DbError> {
    Ok(query.load::<InstanceRow>(conn)?.into_iter().map(Instance::from).collect())
}
