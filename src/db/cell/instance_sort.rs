//! The order of server lists: the API's sort keys, a server's position, and the order both in SQL and in memory, so that the pages of
//! several cells can be merged. Each order ends with the uuid, so it is total. Null sorts as the least value. Text is ordered by its bytes
//! on both databases.

use std::cmp::Ordering;

use chrono::{DateTime, Utc};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Text};
use serde::{Deserialize, Serialize};

use super::instance_row;
use super::schema::instances;
use crate::db::columns::{Moment, Multi, Sql};
use crate::domain::instance::Instance;
use crate::domain::server::named_states;

named_states! {
    /// A sort key of server lists.
    SortKey {
        /// `created_at`.
        CreatedAt = "created_at",
        /// `updated_at`.
        UpdatedAt = "updated_at",
        /// `launched_at`.
        LaunchedAt = "launched_at",
        /// `terminated_at`.
        TerminatedAt = "terminated_at",
        /// The name.
        DisplayName = "display_name",
        /// The description.
        DisplayDescription = "display_description",
        /// The host name inside the guest.
        Hostname = "hostname",
        /// The compute host.
        Host = "host",
        /// The hypervisor.
        Node = "node",
        /// The availability zone.
        AvailabilityZone = "availability_zone",
        /// The VM state.
        VmState = "vm_state",
        /// The task state.
        TaskState = "task_state",
        /// The power state's number.
        PowerState = "power_state",
        /// The progress.
        Progress = "progress",
        /// The image.
        ImageRef = "image_ref",
        /// The flavor's public id.
        InstanceTypeId = "instance_type_id",
        /// The key pair's name.
        KeyName = "key_name",
        /// Whether the server has a config drive.
        ConfigDrive = "config_drive",
        /// Whether the server is locked.
        Locked = "locked",
        /// The role that locked the server.
        LockedBy = "locked_by",
        /// The index in the request that created the server.
        LaunchIndex = "launch_index",
        /// The root device.
        RootDeviceName = "root_device_name",
        /// The IPv4 access address.
        AccessIpV4 = "access_ip_v4",
        /// The IPv6 access address.
        AccessIpV6 = "access_ip_v6",
        /// Whether the disk configuration is AUTO.
        AutoDiskConfig = "auto_disk_config",
        /// The project.
        ProjectId = "project_id",
        /// The user.
        UserId = "user_id",
        /// The id.
        Uuid = "uuid",
    }
}

/// The direction of a sort key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Least first.
    Asc,
    /// Greatest first.
    Desc,
}

/// A total order of servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SortSpec {
    keys: Vec<(SortKey, Direction)>,
}

/// A server's value under a sort key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum SortValue {
    /// Text; null reads as the empty text.
    Text(String),
    /// A number or a flag.
    Number(i64),
    /// A time; null reads as the beginning of 1970.
    Time(DateTime<Utc>),
}

/// An SQL condition on a server's row.
pub(super) type Condition = Box<dyn BoxableExpression<instances::table, Multi, SqlType = Bool>>;

impl Default for SortSpec {
    /// Newest first.
    fn default() -> SortSpec {
        SortSpec::new(vec![(SortKey::CreatedAt, Direction::Desc)])
    }
}

impl SortSpec {
    /// Orders by these keys. Adds the uuid in the last key's direction if it is missing; drops keys after the uuid.
    pub fn new(mut keys: Vec<(SortKey, Direction)>) -> SortSpec {
        if keys.is_empty() {
            keys.push((SortKey::CreatedAt, Direction::Desc));
        }
        match keys.iter().position(|(key, _)| *key == SortKey::Uuid) {
            Some(last) => keys.truncate(last + 1),
            None => keys.push((SortKey::Uuid, keys[keys.len() - 1].1)),
        }
        SortSpec { keys }
    }

    /// Returns a server's position in this order. [`super::CellDb::list_instances`] can continue after it in any cell.
    pub fn position(&self, instance: &Instance) -> Vec<SortValue> {
        self.keys.iter().map(|(key, _)| value(*key, instance)).collect()
    }

    /// Compares two positions.
    pub fn compare(&self, a: &[SortValue], b: &[SortValue]) -> Ordering {
        let ordered = self.keys.iter().zip(a.iter().zip(b)).map(|((_, direction), (a, b))| match direction {
            Direction::Asc => a.cmp(b),
            Direction::Desc => b.cmp(a),
        });
        ordered.fold(Ordering::Equal, Ordering::then)
    }

    /// Returns the terms of `ORDER BY`.
    pub(super) fn order_by(&self) -> String {
        let terms = self.keys.iter().map(|(key, direction)| {
            let word = if *direction == Direction::Asc { "ASC" } else { "DESC" };
            format!("{} {word}", column(*key))
        });
        terms.collect::<Vec<_>>().join(", ")
    }

    /// Selects the servers after `position`: greater by one key and equal by all keys before it. The extra bound on the first key lets the
    /// database use an index.
    pub(super) fn after(&self, position: &[SortValue]) -> Option<Condition> {
        let mut any: Option<Condition> = None;
        for last in 0..self.keys.len().min(position.len()) {
            let (key, direction) = self.keys[last];
            let mut all = compared(key, beyond(direction), &position[last]);
            for (index, (key, _)) in self.keys.iter().enumerate().take(last) {
                all = Box::new(compared(*key, "=", &position[index]).and(all));
            }
            any = Some(match any {
                Some(any) => Box::new(any.or(all)),
                None => all,
            });
        }
        let (key, direction) = self.keys[0];
        let at_least = if direction == Direction::Asc { ">=" } else { "<=" };
        any.map(|any| -> Condition { Box::new(compared(key, at_least, &position[0]).and(any)) })
    }
}

fn beyond(direction: Direction) -> &'static str {
    match direction {
        Direction::Asc => ">",
        Direction::Desc => "<",
    }
}

fn compared(key: SortKey, operator: &str, value: &SortValue) -> Condition {
    let left = sql::<Bool>(&format!("{} {operator} ", column(key)));
    match value {
        SortValue::Text(text) => Box::new(left.bind::<Text, _>(text.clone())),
        SortValue::Number(number) => Box::new(left.bind::<BigInt, _>(*number)),
        SortValue::Time(time) => Box::new(left.bind::<Moment, _>(Sql(*time))),
    }
}

/// Returns the key's SQL. Null is replaced by the least value, because the two databases sort null differently.
fn column(key: SortKey) -> &'static str {
    match key {
        SortKey::CreatedAt => "instances.created_at",
        SortKey::UpdatedAt => "COALESCE(instances.updated_at, '1970-01-01 00:00:00.000000')",
        SortKey::LaunchedAt => "COALESCE(instances.launched_at, '1970-01-01 00:00:00.000000')",
        SortKey::TerminatedAt => "COALESCE(instances.terminated_at, '1970-01-01 00:00:00.000000')",
        SortKey::DisplayName => "instances.display_name",
        SortKey::DisplayDescription => "COALESCE(instances.display_description, '')",
        SortKey::Hostname => "COALESCE(instances.hostname, '')",
        SortKey::Host => "COALESCE(instances.host, '')",
        SortKey::Node => "COALESCE(instances.node, '')",
        SortKey::AvailabilityZone => "COALESCE(instances.availability_zone, '')",
        SortKey::VmState => "instances.vm_state",
        SortKey::TaskState => "COALESCE(instances.task_state, '')",
        SortKey::PowerState => "instances.power_state",
        SortKey::Progress => "instances.progress",
        SortKey::ImageRef => "instances.image_ref",
        SortKey::InstanceTypeId => "instances.flavor_id",
        SortKey::KeyName => "COALESCE(instances.key_name, '')",
        SortKey::ConfigDrive => instance_row::CONFIG_DRIVE,
        SortKey::Locked => "CASE WHEN instances.locked THEN 1 ELSE 0 END",
        SortKey::LockedBy => "COALESCE(instances.locked_by, '')",
        SortKey::LaunchIndex => instance_row::LAUNCH_INDEX,
        SortKey::RootDeviceName => "COALESCE(instances.root_device_name, '')",
        SortKey::AccessIpV4 => "COALESCE(instances.access_ip_v4, '')",
        SortKey::AccessIpV6 => "COALESCE(instances.access_ip_v6, '')",
        SortKey::AutoDiskConfig => instance_row::AUTO_DISK_CONFIG,
        SortKey::ProjectId => "instances.project_id",
        SortKey::UserId => "instances.user_id",
        SortKey::Uuid => "instances.uuid",
    }
}

/// Returns a record's value of the key, equal to the result of [`column`] for its row.
fn value(key: SortKey, instance: &Instance) -> SortValue {
    let text = |text: &str| SortValue::Text(text.to_owned());
    let maybe = |text: &Option<String>| SortValue::Text(text.clone().unwrap_or_default());
    let flag = |flag: bool| SortValue::Number(i64::from(flag));
    let time = |time: Option<DateTime<Utc>>| SortValue::Time(time.unwrap_or(DateTime::UNIX_EPOCH));
    match key {
        SortKey::CreatedAt => SortValue::Time(instance.created_at),
        SortKey::UpdatedAt => time(instance.updated_at),
        SortKey::LaunchedAt => time(instance.launched_at),
        SortKey::TerminatedAt => time(instance.terminated_at),
        SortKey::DisplayName => text(&instance.display_name),
        SortKey::DisplayDescription => maybe(&instance.display_description),
        SortKey::Hostname => maybe(&instance.hostname),
        SortKey::Host => maybe(&instance.host),
        SortKey::Node => maybe(&instance.node),
        SortKey::AvailabilityZone => maybe(&instance.availability_zone),
        SortKey::VmState => text(instance.vm_state.as_str()),
        SortKey::TaskState => text(instance.task_state.map_or("", |task| task.as_str())),
        SortKey::PowerState => SortValue::Number(i64::from(instance.power_state.code())),
        SortKey::Progress => SortValue::Number(i64::from(instance.progress)),
        SortKey::ImageRef => text(&instance.image_ref),
        SortKey::InstanceTypeId => text(&instance.flavor.id),
        SortKey::KeyName => maybe(&instance.key_name),
        SortKey::ConfigDrive => flag(instance.config_drive),
        SortKey::Locked => flag(instance.locked),
        SortKey::LockedBy => maybe(&instance.locked_by),
        SortKey::LaunchIndex => SortValue::Number(i64::from(instance.launch_index)),
        SortKey::RootDeviceName => maybe(&instance.root_device_name),
        SortKey::AccessIpV4 => maybe(&instance.access_ip_v4),
        SortKey::AccessIpV6 => maybe(&instance.access_ip_v6),
        SortKey::AutoDiskConfig => flag(instance.auto_disk_config),
        SortKey::ProjectId => text(&instance.project_id),
        SortKey::UserId => text(&instance.user_id),
        SortKey::Uuid => text(&instance.uuid.to_string()),
    }
}
