//! The order of server lists as SQL, equal to the order of [`SortSpec`] in memory. Text is ordered by its bytes on both databases.

use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Text};

use super::instance_row;
use super::schema::instances;
use crate::db::columns::{Moment, Multi, Sql};
use crate::domain::instance_sort::{Direction, SortKey, SortSpec, SortValue};

/// An SQL condition on a server's row.
pub(super) type Condition = Box<dyn BoxableExpression<instances::table, Multi, SqlType = Bool>>;

/// Returns the terms of `ORDER BY`.
pub(super) fn order_by(sort: &SortSpec) -> String {
    let terms = sort.keys().iter().map(|(key, direction)| {
        let word = if *direction == Direction::Asc { "ASC" } else { "DESC" };
        format!("{} {word}", column(*key))
    });
    terms.collect::<Vec<_>>().join(", ")
}

/// Selects the servers after `position`: greater by one key and equal by all keys before it. The extra bound on the first key lets the
/// database use an index.
pub(super) fn after(sort: &SortSpec, position: &[SortValue]) -> Option<Condition> {
    let keys = sort.keys();
    let mut any: Option<Condition> = None;
    for last in 0..keys.len().min(position.len()) {
        let (key, direction) = keys[last];
        let mut all = compared(key, beyond(direction), &position[last]);
        for (index, (key, _)) in keys.iter().enumerate().take(last) {
            all = Box::new(compared(*key, "=", &position[index]).and(all));
        }
        any = Some(match any {
            Some(any) => Box::new(any.or(all)),
            None => all,
        });
    }
    let (key, direction) = keys[0];
    let at_least = if direction == Direction::Asc { ">=" } else { "<=" };
    any.map(|any| -> Condition { Box::new(compared(key, at_least, &position[0]).and(any)) })
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

/// Returns the key's SQL, equal to a record's [`SortValue`]. Null is replaced by the least value, because the two databases sort null
/// differently.
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
