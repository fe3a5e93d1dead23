//! The order of server lists: the API's sort keys and a server's position, so that the pages of several cells can be merged. Each order ends
//! with the uuid, so it is total. Null sorts as the least value. Text is ordered by its bytes.

use std::cmp::Ordering;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::instance::Instance;
use crate::server::named_states;

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

    /// Returns a server's position in this order. A list can continue after it in any cell.
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

    /// Returns the keys with their directions. There is at least one.
    pub fn keys(&self) -> &[(SortKey, Direction)] {
        &self.keys
    }
}

/// Returns a record's value of the key. The database orders rows by SQL that gives the same values.
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::flavor::Flavor;

    #[test]
    fn an_order_ends_with_the_uuid_in_the_last_direction() {
        let keys = |keys: &[(SortKey, Direction)]| SortSpec::new(keys.to_vec()).keys().to_vec();
        let (name, uuid) = (SortKey::DisplayName, SortKey::Uuid);
        assert_eq!(keys(&[(name, Direction::Asc)]), [(name, Direction::Asc), (uuid, Direction::Asc)]);
        assert_eq!(keys(&[(uuid, Direction::Desc), (name, Direction::Asc)]), [(uuid, Direction::Desc)]);
        assert_eq!(keys(&[]), SortSpec::default().keys());
    }

    #[test]
    fn null_is_the_least_value_in_both_directions() {
        let server = |number: u128, host: Option<&str>| {
            let mut server = Instance::new(Uuid::from_u128(number), "p", "u", "s", Flavor::default(), DateTime::UNIX_EPOCH);
            server.host = host.map(str::to_owned);
            server
        };
        let (nowhere, placed) = (server(2, None), server(1, Some("h1")));
        for (direction, order) in [(Direction::Asc, Ordering::Less), (Direction::Desc, Ordering::Greater)] {
            let sort = SortSpec::new(vec![(SortKey::Host, direction)]);
            assert_eq!(sort.compare(&sort.position(&nowhere), &sort.position(&placed)), order);
        }
    }
}
