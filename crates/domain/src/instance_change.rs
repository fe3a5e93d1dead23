//! Changes of a server's record, and the states from which a change is allowed.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::flavor::Flavor;
use crate::server::{PowerState, TaskState, VmState};

/// A change of a server's record. `None` leaves a field unchanged; `Some(None)` clears a nullable field.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct InstanceChange {
    pub hidden: Option<bool>,
    pub display_name: Option<String>,
    pub display_description: Option<Option<String>>,
    pub hostname: Option<Option<String>>,
    pub host: Option<Option<String>>,
    pub node: Option<Option<String>>,
    pub availability_zone: Option<Option<String>>,
    pub vm_state: Option<VmState>,
    pub task_state: Option<Option<TaskState>>,
    pub power_state: Option<PowerState>,
    pub progress: Option<i32>,
    pub flavor: Option<Flavor>,
    pub old_flavor: Option<Option<Flavor>>,
    pub new_flavor: Option<Option<Flavor>>,
    pub old_vm_state: Option<Option<VmState>>,
    pub image_ref: Option<String>,
    pub key_name: Option<Option<String>>,
    pub key_data: Option<Option<String>>,
    pub config_drive: Option<bool>,
    pub locked: Option<bool>,
    pub locked_by: Option<Option<String>>,
    pub locked_reason: Option<Option<String>>,
    pub deleted_at: Option<Option<DateTime<Utc>>>,
    pub launched_at: Option<Option<DateTime<Utc>>>,
    pub terminated_at: Option<Option<DateTime<Utc>>>,
    pub root_device_name: Option<Option<String>>,
    pub access_ip_v4: Option<Option<String>>,
    pub access_ip_v6: Option<Option<String>>,
    pub user_data: Option<Option<String>>,
    pub injected_files: Option<serde_json::Value>,
    pub system_metadata: Option<BTreeMap<String, String>>,
    pub security_groups: Option<Vec<String>>,
    pub trusted_certs: Option<Option<Vec<String>>>,
    pub keypair: Option<Option<serde_json::Value>>,
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

    /// True if a server in this state may be changed.
    pub fn allows(&self, vm_state: VmState, task_state: Option<TaskState>) -> bool {
        (self.vm_states.is_empty() || self.vm_states.contains(&vm_state))
            && (self.task_states.is_empty() || self.task_states.contains(&task_state))
    }
}
