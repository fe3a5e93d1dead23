//! Changes of an instance's row, with compare-and-swap on its states.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::schema::instances;
use super::{CellTxn, instance_row, instances as rows};
use crate::db::columns::Sql;
use crate::db::merged::Merged;
use crate::db::{Conn, DbError};
use crate::domain::flavor::Flavor;
use crate::domain::instance_change::{Expected, InstanceChange};
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::env::guard::{Guard, stands};

/// The columns that a change sets, without `details`.
#[derive(AsChangeset)]
#[diesel(table_name = instances)]
struct InstanceColumns {
    hidden: Option<bool>,
    display_name: Option<String>,
    display_description: Option<Option<String>>,
    hostname: Option<Option<String>>,
    host: Option<Option<String>>,
    node: Option<Option<String>>,
    availability_zone: Option<Option<String>>,
    #[diesel(serialize_as = Sql<VmState>)]
    vm_state: Option<VmState>,
    #[diesel(serialize_as = Sql<Option<TaskState>>)]
    task_state: Option<Option<TaskState>>,
    #[diesel(serialize_as = Sql<PowerState>)]
    power_state: Option<PowerState>,
    progress: Option<i32>,
    #[diesel(serialize_as = Sql<Flavor>)]
    flavor: Option<Flavor>,
    image_ref: Option<String>,
    key_name: Option<Option<String>>,
    locked: Option<bool>,
    locked_by: Option<Option<String>>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    deleted_at: Option<Option<DateTime<Utc>>>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    launched_at: Option<Option<DateTime<Utc>>>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    terminated_at: Option<Option<DateTime<Utc>>>,
    root_device_name: Option<Option<String>>,
    access_ip_v4: Option<Option<String>>,
    access_ip_v6: Option<Option<String>>,
    user_data: Option<Option<String>>,
}

/// Makes the function that separates a change, from the names of its fields. A field in neither list does not compile.
macro_rules! separates {
    (columns: $($column:ident)+; details: $($detail:ident)+) => {
        /// Separates the change of columns from that of the column `details`, which is none if `details` stays.
        fn separate(change: InstanceChange) -> (InstanceColumns, Option<Merged>) {
            let InstanceChange { $($column,)+ $($detail,)+ } = change;
            let values = [$((stringify!($detail), $detail.map(|value| json!(value)))),+];
            let values: Vec<_> = values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            (InstanceColumns { $($column),+ }, (!values.is_empty()).then(|| instance_row::changed_details(values)))
        }
    };
}

separates! {
    columns:
        hidden display_name display_description hostname host node availability_zone vm_state task_state power_state progress flavor
        image_ref key_name locked locked_by deleted_at launched_at terminated_at root_device_name access_ip_v4 access_ip_v6 user_data;
    details:
        key_data locked_reason config_drive auto_disk_config old_flavor new_flavor old_vm_state injected_files system_metadata
        security_groups trusted_certs keypair
}

impl CellTxn {
    /// Changes an undeleted server. [`DbError::NotFound`] if there is none.
    pub fn instance_change(self, uuid: Uuid, change: InstanceChange) -> CellTxn {
        self.instance_change_if(uuid, Expected::any(), change)
    }

    /// Changes an undeleted server that is in an expected state. Otherwise [`DbError::WrongState`] with its present states.
    pub fn instance_change_if(self, uuid: Uuid, expected: Expected, change: InstanceChange) -> CellTxn {
        self.with(move |conn, now| update(conn, uuid, &expected, change, now))
    }
}

pub(super) fn update(conn: &mut Conn, uuid: Uuid, expected: &Expected, change: InstanceChange, now: DateTime<Utc>) -> Result<(), DbError> {
    let row = instances::table.filter(instances::uuid.eq(Sql(uuid))).filter(instances::deleted.eq(false));
    let states: Option<(VmState, Option<TaskState>)> = row.select((instances::vm_state, instances::task_state)).first(conn).optional()?;
    let (vm_state, task_state) = states.ok_or_else(|| rows::not_found(uuid))?;
    let is_refused = stands(Guard::ExpectedState) && !expected.allows(vm_state, task_state);
    if is_refused {
        return Err(DbError::WrongState { server: uuid, vm_state, task_state });
    }
    if change.user_data.is_some() {
        conn.note_erasure();
    }
    let flavor_id = change.flavor.as_ref().map(|flavor| instances::flavor_id.eq(flavor.id.clone()));
    let (columns, details) = separate(change);
    let set = (columns, flavor_id, details.map(|details| instances::details.eq(details)), instances::updated_at.eq(Sql(Some(now))));
    if *expected == Expected::any() {
        diesel::update(row).set(set).execute(conn)?;
        return Ok(());
    }
    // Compare-and-swap: on PostgreSQL another writer may have changed the states since this transaction read them.
    let same = row.filter(instances::vm_state.eq(Sql(vm_state)));
    let changed = match task_state {
        Some(task) => diesel::update(same.filter(instances::task_state.eq(Sql(Some(task))))).set(set).execute(conn)?,
        None => diesel::update(same.filter(instances::task_state.is_null())).set(set).execute(conn)?,
    };
    if changed == 0 {
        let now_in = rows::get(conn, uuid)?;
        return Err(DbError::WrongState { server: uuid, vm_state: now_in.vm_state, task_state: now_in.task_state });
    }
    Ok(())
}
