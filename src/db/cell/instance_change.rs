//! Changes of an instance's row, with compare-and-swap on its states.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::schema::instances;
use super::{CellDb, CellTxn, instance_row, instances as rows};
use crate::db::columns::{Sql, StringMap};
use crate::db::merged::Merged;
use crate::db::{Conn, DbError};
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::env::guard::{Guard, stands};

/// A change of a server's row. `None` leaves a field unchanged; `Some(None)` clears a nullable field.
#[derive(Clone, PartialEq, Debug, Default, AsChangeset)]
#[diesel(table_name = instances)]
pub struct InstanceChange {
    pub hidden: Option<bool>,
    pub display_name: Option<String>,
    pub display_description: Option<Option<String>>,
    pub hostname: Option<Option<String>>,
    pub host: Option<Option<String>>,
    pub node: Option<Option<String>>,
    pub availability_zone: Option<Option<String>>,
    #[diesel(serialize_as = Sql<VmState>)]
    pub vm_state: Option<VmState>,
    #[diesel(serialize_as = Sql<Option<TaskState>>)]
    pub task_state: Option<Option<TaskState>>,
    #[diesel(serialize_as = Sql<PowerState>)]
    pub power_state: Option<PowerState>,
    pub progress: Option<i32>,
    #[diesel(serialize_as = Sql<Flavor>)]
    pub flavor: Option<Flavor>,
    #[diesel(skip_update)]
    pub old_flavor: Option<Option<Flavor>>,
    #[diesel(skip_update)]
    pub new_flavor: Option<Option<Flavor>>,
    #[diesel(skip_update)]
    pub old_vm_state: Option<Option<VmState>>,
    pub image_ref: Option<String>,
    pub key_name: Option<Option<String>>,
    #[diesel(skip_update)]
    pub key_data: Option<Option<String>>,
    #[diesel(skip_update)]
    pub config_drive: Option<bool>,
    pub locked: Option<bool>,
    pub locked_by: Option<Option<String>>,
    #[diesel(skip_update)]
    pub locked_reason: Option<Option<String>>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub deleted_at: Option<Option<DateTime<Utc>>>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub launched_at: Option<Option<DateTime<Utc>>>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub terminated_at: Option<Option<DateTime<Utc>>>,
    pub root_device_name: Option<Option<String>>,
    pub access_ip_v4: Option<Option<String>>,
    pub access_ip_v6: Option<Option<String>>,
    pub user_data: Option<Option<String>>,
    #[diesel(skip_update)]
    pub injected_files: Option<serde_json::Value>,
    #[diesel(skip_update)]
    pub system_metadata: Option<StringMap>,
    #[diesel(skip_update)]
    pub security_groups: Option<Vec<String>>,
    #[diesel(skip_update)]
    pub trusted_certs: Option<Option<Vec<String>>>,
    #[diesel(skip_update)]
    pub keypair: Option<Option<serde_json::Value>>,
    #[diesel(skip_update)]
    pub auto_disk_config: Option<bool>,
}

impl InstanceChange {
    /// Changes the task state only.
    pub fn task(task_state: Option<TaskState>) -> InstanceChange {
        InstanceChange { task_state: Some(task_state), ..InstanceChange::default() }
    }

    /// Changes both states.
    pub fn states(vm_state: VmState, task_state: Option<TaskState>) -> InstanceChange {
        InstanceChange { vm_state: Some(vm_state), ..InstanceChange::task(task_state) }
    }

    /// Returns the change of the column `details`; none if it stays.
    fn of_details(&self) -> Option<Merged> {
        macro_rules! values {
            ($($field:ident)+) => { [$((stringify!($field), self.$field.as_ref().map(|value| json!(value)))),+] };
        }
        let values = values! {
            key_data locked_reason config_drive auto_disk_config old_flavor new_flavor old_vm_state injected_files system_metadata
            security_groups trusted_certs keypair
        };
        let values: Vec<_> = values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        (!values.is_empty()).then(|| instance_row::changed_details(values))
    }
}

/// The states from which a change is allowed. An empty list allows any state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expected {
    pub vm_states: Vec<VmState>,
    pub task_states: Vec<Option<TaskState>>,
}

impl Expected {
    /// Allows any state.
    pub fn any() -> Expected {
        Expected::default()
    }

    /// Allows these states, without a task.
    pub fn at_rest(vm_states: &[VmState]) -> Expected {
        Expected { vm_states: vm_states.to_vec(), task_states: vec![None] }
    }

    /// Allows these tasks.
    pub fn tasks(task_states: &[Option<TaskState>]) -> Expected {
        Expected { vm_states: Vec::new(), task_states: task_states.to_vec() }
    }

    fn allows(&self, vm_state: VmState, task_state: Option<TaskState>) -> bool {
        let is_expected = (self.vm_states.is_empty() || self.vm_states.contains(&vm_state))
            && (self.task_states.is_empty() || self.task_states.contains(&task_state));
        let is_refused = stands(Guard::ExpectedState) && !is_expected;
        !is_refused
    }
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

impl CellDb {
    /// Commits [`CellTxn::instance_change`] alone.
    pub async fn update_instance(&self, fence: Fence, uuid: Uuid, change: InstanceChange) -> Result<(), DbError> {
        self.apply(fence, CellTxn::new().instance_change(uuid, change)).await
    }
}

pub(super) fn update(conn: &mut Conn, uuid: Uuid, expected: &Expected, change: InstanceChange, now: DateTime<Utc>) -> Result<(), DbError> {
    let row = instances::table.filter(instances::uuid.eq(Sql(uuid))).filter(instances::deleted.eq(false));
    let found: Option<(VmState, Option<TaskState>)> = row.select((instances::vm_state, instances::task_state)).first(conn).optional()?;
    let (vm_state, task_state) = found.ok_or_else(|| rows::not_found(uuid))?;
    if !expected.allows(vm_state, task_state) {
        return Err(DbError::WrongState { server: uuid, vm_state, task_state });
    }
    if change.user_data.is_some() {
        conn.note_erasure();
    }
    let flavor_id = change.flavor.as_ref().map(|flavor| instances::flavor_id.eq(flavor.id.clone()));
    let details = change.of_details().map(|details| instances::details.eq(details));
    let set = (change, flavor_id, details, instances::updated_at.eq(Sql(Some(now))));
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
