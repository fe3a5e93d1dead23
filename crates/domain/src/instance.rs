//! A server as its cell records it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::flavor::Flavor;
use crate::server::{PowerState, TaskState, VmState};

/// A server's record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Instance {
    /// The id in this cell's database; each cell gives its own.
    pub id: i32,
    /// The server's uuid.
    pub uuid: Uuid,
    /// The moment of the user's request; moves keep it.
    pub created_at: DateTime<Utc>,
    /// The moment of the last change.
    pub updated_at: Option<DateTime<Utc>>,
    /// The moment of the delete.
    pub deleted_at: Option<DateTime<Utc>>,
    /// A deleted record is kept for the history.
    pub deleted: bool,
    /// Marks the hidden copy of a server in a move (INVARIANTS D2).
    pub hidden: bool,
    pub project_id: String,
    pub user_id: String,
    pub display_name: String,
    pub display_description: Option<String>,
    pub hostname: Option<String>,
    /// The compute host.
    pub host: Option<String>,
    /// The host's hypervisor name.
    pub node: Option<String>,
    pub availability_zone: Option<String>,
    pub vm_state: VmState,
    pub task_state: Option<TaskState>,
    pub power_state: PowerState,
    /// Percent of the running task.
    pub progress: i32,
    /// The flavor that the guest runs with.
    pub flavor: Flavor,
    /// The flavor before a move; none at rest.
    pub old_flavor: Option<Flavor>,
    /// The flavor after a move; none at rest.
    pub new_flavor: Option<Flavor>,
    /// The state that a move restores; none at rest.
    pub old_vm_state: Option<VmState>,
    /// The image's id; empty for a volume-backed server.
    pub image_ref: String,
    pub key_name: Option<String>,
    /// The public key.
    pub key_data: Option<String>,
    pub config_drive: bool,
    pub locked: bool,
    /// `owner` or `admin`.
    pub locked_by: Option<String>,
    pub locked_reason: Option<String>,
    pub launched_at: Option<DateTime<Utc>>,
    pub terminated_at: Option<DateTime<Utc>>,
    /// The index in the request that created the server.
    pub launch_index: i32,
    pub reservation_id: Option<String>,
    pub root_device_name: Option<String>,
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
    /// Base64, as the user sent it.
    pub user_data: Option<String>,
    /// `personality`, as the user sent it.
    pub injected_files: serde_json::Value,
    pub system_metadata: BTreeMap<String, String>,
    /// Names, as the user gave them at creation.
    pub security_groups: Vec<String>,
    pub trusted_certs: Option<Vec<String>>,
    /// The key pair as it was at creation.
    pub keypair: Option<serde_json::Value>,
    /// `OS-DCF:diskConfig` AUTO.
    pub auto_disk_config: bool,
}

impl Instance {
    /// Makes a new server's record: no host, `building`/`scheduling`, and empty optional fields.
    pub fn new(uuid: Uuid, project_id: &str, user_id: &str, name: &str, flavor: Flavor, now: DateTime<Utc>) -> Instance {
        Instance {
            id: 0,
            uuid,
            created_at: now,
            updated_at: None,
            deleted_at: None,
            deleted: false,
            hidden: false,
            project_id: project_id.to_owned(),
            user_id: user_id.to_owned(),
            display_name: name.to_owned(),
            display_description: None,
            hostname: None,
            host: None,
            node: None,
            availability_zone: None,
            vm_state: VmState::Building,
            task_state: Some(TaskState::Scheduling),
            power_state: PowerState::NoState,
            progress: 0,
            flavor,
            old_flavor: None,
            new_flavor: None,
            old_vm_state: None,
            image_ref: String::new(),
            key_name: None,
            key_data: None,
            config_drive: false,
            locked: false,
            locked_by: None,
            locked_reason: None,
            launched_at: None,
            terminated_at: None,
            launch_index: 0,
            reservation_id: None,
            root_device_name: None,
            access_ip_v4: None,
            access_ip_v6: None,
            user_data: None,
            injected_files: serde_json::Value::Array(Vec::new()),
            system_metadata: BTreeMap::new(),
            security_groups: Vec::new(),
            trusted_certs: None,
            keypair: None,
            auto_disk_config: false,
        }
    }

    /// Returns the name in the hypervisor, which contains the id in this cell.
    pub fn instance_name(&self) -> String {
        format!("instance-{:08x}", self.id)
    }

    /// True if users see the newest fault.
    pub fn shows_fault(&self) -> bool {
        self.deleted || matches!(self.vm_state, VmState::Error | VmState::Deleted)
    }

    /// True if the root disk is a volume.
    pub fn is_volume_backed(&self) -> bool {
        self.image_ref.is_empty()
    }
}
