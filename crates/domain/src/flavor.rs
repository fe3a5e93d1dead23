//! Flavors and the resources that they require.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// A flavor. Each server keeps its own copy, so deleting a flavor changes no server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Flavor {
    /// The public id (`flavorid`).
    pub id: String,
    /// The name. No two flavors share a name.
    pub name: String,
    /// Virtual CPUs.
    pub vcpus: i32,
    /// Memory in MiB.
    pub memory_mb: i32,
    /// Root disk in GiB; 0 means "as large as the image".
    pub root_gb: i32,
    /// Ephemeral disk in GiB.
    pub ephemeral_gb: i32,
    /// Swap disk in MiB.
    pub swap_mb: i32,
    /// Extra specs, for example `aggregate_instance_extra_specs:generation = 1`.
    pub extra_specs: BTreeMap<String, String>,
    /// True if all projects may use it.
    pub is_public: bool,
    /// True if new servers and resizes may not use it.
    pub disabled: bool,
    /// Free text (microversion 2.55).
    pub description: Option<String>,
}

/// The amounts of resource classes that a server takes from a compute node's provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Resources {
    /// `VCPU`.
    pub vcpu: i64,
    /// `MEMORY_MB`.
    pub memory_mb: i64,
    /// `DISK_GB`, without the root disk of a volume-backed server (INVARIANTS D4).
    pub disk_gb: i64,
}

impl Resources {
    /// The names of the classes, in the order of the fields.
    pub const CLASSES: [&str; 3] = ["VCPU", "MEMORY_MB", "DISK_GB"];
}

impl Flavor {
    /// Returns the resources of a server with this flavor. A volume-backed server's root disk is not on the host; swap counts in GiB,
    /// rounded up.
    pub fn resources(&self, volume_backed: bool) -> Resources {
        let root = if volume_backed { 0 } else { i64::from(self.root_gb) };
        Resources {
            vcpu: i64::from(self.vcpus),
            memory_mb: i64::from(self.memory_mb),
            disk_gb: root + i64::from(self.ephemeral_gb) + (i64::from(self.swap_mb) + 1023) / 1024,
        }
    }
}

impl Flavor {
    /// True if extra specs override the amounts of its sizes (`resources:VCPU=…`).
    pub fn overrides_amounts(&self) -> bool {
        self.extra_specs.keys().any(|key| key.starts_with("resources"))
    }
}

impl std::iter::Sum for Resources {
    fn sum<I: Iterator<Item = Resources>>(amounts: I) -> Resources {
        amounts.fold(Resources::default(), |sum, one| Resources {
            vcpu: sum.vcpu.saturating_add(one.vcpu),
            memory_mb: sum.memory_mb.saturating_add(one.memory_mb),
            disk_gb: sum.disk_gb.saturating_add(one.disk_gb),
        })
    }
}

impl Resources {
    /// Returns the name and amount of each class with a positive amount.
    pub fn by_class(&self) -> BTreeMap<String, i64> {
        [("VCPU", self.vcpu), ("MEMORY_MB", self.memory_mb), ("DISK_GB", self.disk_gb)]
            .into_iter()
            .filter(|(_, amount)| *amount > 0)
            .map(|(class, amount)| (class.to_owned(), amount))
            .collect()
    }
}

/// A flavor with its numeric id, which migrations refer to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlavorRecord {
    /// Unique in this database.
    pub id: i32,
    pub created_at: DateTime<Utc>,
    pub updated_at: Option<DateTime<Utc>>,
    pub flavor: Flavor,
    /// `rxtx_factor`, which only old clients read.
    pub rxtx_factor: f64,
}

/// Selects the flavors to list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum FlavorScope {
    /// All flavors.
    #[default]
    All,
    /// Public flavors, and the private flavors that the project may use.
    OfProject(String),
    /// Public flavors.
    Public,
    /// Private flavors.
    Private,
}
