//! A server with everything that belongs to it in a cell, as one value. A cross-cell move copies this value (INVARIANTS D6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::action::ActionHistory;
use crate::block_device::BlockDevice;
use crate::instance::Instance;
use crate::instance_fault::InstanceFault;
use crate::migration::{Migration, MigrationContext};
use crate::network_info::NetworkInfo;
use crate::virtual_interface::VirtualInterface;

/// A server's whole record. The target cell gives rows new ids, so references inside the bundle use uuids.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InstanceBundle {
    pub instance: Instance,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub info_cache: Option<NetworkInfo>,
    #[serde(default)]
    pub block_devices: Vec<BlockDevice>,
    #[serde(default)]
    pub virtual_interfaces: Vec<VirtualInterface>,
    #[serde(default)]
    pub actions: Vec<ActionHistory>,
    #[serde(default)]
    pub migrations: Vec<Migration>,
    #[serde(default)]
    pub faults: Vec<InstanceFault>,
    #[serde(default)]
    pub migration_context: Option<MigrationContext>,
}

impl InstanceBundle {
    /// Makes a bundle that has only the instance.
    pub fn new(instance: Instance) -> InstanceBundle {
        InstanceBundle {
            instance,
            metadata: BTreeMap::new(),
            tags: Vec::new(),
            info_cache: None,
            block_devices: Vec::new(),
            virtual_interfaces: Vec::new(),
            actions: Vec::new(),
            migrations: Vec::new(),
            faults: Vec::new(),
            migration_context: None,
        }
    }
}

/// The fields that a user can change while a server waits for confirm or revert. A revert copies them back (NOVA-DIFFERENCES L23).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UserFields {
    pub display_name: String,
    pub display_description: Option<String>,
    pub hostname: Option<String>,
    pub locked: bool,
    pub locked_by: Option<String>,
    pub locked_reason: Option<String>,
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
    pub auto_disk_config: bool,
    pub metadata: BTreeMap<String, String>,
    pub tags: Vec<String>,
}

impl From<&InstanceBundle> for UserFields {
    fn from(bundle: &InstanceBundle) -> UserFields {
        let instance = bundle.instance.clone();
        UserFields {
            display_name: instance.display_name,
            display_description: instance.display_description,
            hostname: instance.hostname,
            locked: instance.locked,
            locked_by: instance.locked_by,
            locked_reason: instance.locked_reason,
            access_ip_v4: instance.access_ip_v4,
            access_ip_v6: instance.access_ip_v6,
            auto_disk_config: instance.auto_disk_config,
            metadata: bundle.metadata.clone(),
            tags: bundle.tags.clone(),
        }
    }
}
