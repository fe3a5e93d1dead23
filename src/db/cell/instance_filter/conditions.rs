//! The conditions of a filter that SQL can check, one row each: as SQL for the cells, and in memory for build requests, which no cell
//! has. A filter that does not set a condition admits each server.

use std::convert::identity;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use diesel::dsl::{exists, not, sql};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Integer, Nullable, Text};

use super::Query;
use crate::db::cell::instance_row;
use crate::db::cell::instance_sort::Condition as SqlCondition;
use crate::db::cell::schema::{instance_metadata, instances, tags};
use crate::db::columns::Sql;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::instance_filter::{Deleted, InstanceFilter};
use crate::domain::server::{TaskState, VmState};

/// A condition in its two forms.
pub(super) struct Condition {
    /// Adds the condition to a query.
    pub(super) in_sql: for<'a> fn(&InstanceFilter, Query<'a>) -> Query<'a>,
    /// Checks the condition on a record.
    pub(super) in_memory: fn(&InstanceFilter, &InstanceBundle) -> bool,
}

/// Makes the condition that a column equals the filter's value: `equal!(column, field of the record, conversion for SQL)`. For a value in
/// the column `details`: `equal!(field, SQL: its type, conversion)`.
macro_rules! equal {
    ($column:ident) => {
        equal!($column, $column, identity)
    };
    ($column:ident, $($field:ident).+, $convert:path) => {
        equal!(@ $column, instances::$column, $($field).+, $convert)
    };
    ($field:ident, $sql:ident: $type:ty, $convert:path) => {
        equal!(@ $field, sql::<$type>(instance_row::$sql), $field, $convert)
    };
    (@ $criterion:ident, $stored:expr, $($field:ident).+, $convert:path) => {
        Condition {
            in_sql: |filter, query| match filter.$criterion.clone() {
                Some(value) => query.filter($stored.eq($convert(value))),
                None => query,
            },
            in_memory: |filter, bundle| filter.$criterion.as_ref().is_none_or(|value| bundle.instance.$($field).+.holds(value)),
        }
    };
}

pub(super) const CONDITIONS: &[Condition] = &[
    Condition { in_sql: deleted_in_sql, in_memory: deleted_in_memory },
    equal!(project_id),
    equal!(user_id),
    equal!(reservation_id, RESERVATION_ID: Nullable<Text>, identity),
    equal!(host),
    equal!(node),
    equal!(availability_zone),
    equal!(flavor_id, flavor.id, identity),
    equal!(image_ref),
    equal!(key_name),
    equal!(locked),
    equal!(locked_by),
    equal!(config_drive, CONFIG_DRIVE: Integer, i32::from),
    equal!(auto_disk_config, AUTO_DISK_CONFIG: Integer, i32::from),
    equal!(launch_index, LAUNCH_INDEX: Integer, identity),
    equal!(progress),
    equal!(root_device_name),
    equal!(access_ip_v4),
    equal!(access_ip_v6),
    equal!(power_state, power_state, Sql),
    Condition {
        in_sql: |filter, query| match &filter.uuids {
            Some(uuids) => query.filter(instances::uuid.eq_any(uuids.iter().copied().map(Sql))),
            None => query,
        },
        in_memory: |filter, bundle| filter.uuids.as_ref().is_none_or(|uuids| uuids.contains(&bundle.instance.uuid)),
    },
    equal!(created_at, created_at, Sql),
    equal!(launched_at, launched_at, nullable),
    equal!(terminated_at, terminated_at, nullable),
    Condition { in_sql: changed_since, in_memory: |filter, bundle| filter.changes_since.is_none_or(|since| changed_at(bundle) >= since) },
    Condition {
        in_sql: changed_before,
        in_memory: |filter, bundle| filter.changes_before.is_none_or(|before| changed_at(bundle) <= whole_second(before)),
    },
    Condition {
        in_sql: |filter, query| match &filter.vm_states {
            Some(states) => query.filter(instances::vm_state.eq_any(states.iter().copied().map(Sql))),
            None => query,
        },
        in_memory: |filter, bundle| filter.vm_states.as_ref().is_none_or(|states| states.contains(&bundle.instance.vm_state)),
    },
    Condition {
        in_sql: task_states,
        in_memory: |filter, bundle| filter.task_states.as_ref().is_none_or(|states| states.contains(&bundle.instance.task_state)),
    },
    Condition {
        in_sql: states,
        in_memory: |filter, bundle| {
            let states = (bundle.instance.vm_state, bundle.instance.task_state);
            filter.states.as_ref().is_none_or(|pairs| pairs.contains(&states))
        },
    },
    Condition {
        in_sql: |filter, query| filter.tags.iter().fold(query, |query, tag| query.filter(tagged(tag))),
        in_memory: |filter, bundle| filter.tags.iter().all(|tag| bundle.tags.contains(tag)),
    },
    Condition {
        in_sql: |filter, query| filter.not_tags_any.iter().fold(query, |query, tag| query.filter(not(tagged(tag)))),
        in_memory: |filter, bundle| !filter.not_tags_any.iter().any(|tag| bundle.tags.contains(tag)),
    },
    Condition {
        in_sql: tags_any,
        in_memory: |filter, bundle| filter.tags_any.is_empty() || filter.tags_any.iter().any(|tag| bundle.tags.contains(tag)),
    },
    Condition {
        in_sql: not_tags,
        in_memory: |filter, bundle| filter.not_tags.is_empty() || !filter.not_tags.iter().all(|tag| bundle.tags.contains(tag)),
    },
    Condition {
        in_sql: metadata,
        in_memory: |filter, bundle| filter.metadata.iter().all(|(key, value)| bundle.metadata.get(key) == Some(value)),
    },
];

/// Compares a field with the value of a filter. A null field equals no value, as in SQL.
trait Holds<T> {
    fn holds(&self, value: &T) -> bool;
}

impl<T: PartialEq> Holds<T> for T {
    fn holds(&self, value: &T) -> bool {
        self == value
    }
}

impl<T: PartialEq> Holds<T> for Option<T> {
    fn holds(&self, value: &T) -> bool {
        self.as_ref() == Some(value)
    }
}

fn nullable(at: DateTime<Utc>) -> Sql<Option<DateTime<Utc>>> {
    Sql(Some(at))
}

fn deleted_in_sql<'a>(filter: &InstanceFilter, query: Query<'a>) -> Query<'a> {
    match filter.deleted {
        Deleted::Exclude if filter.soft_deleted == Some(true) => query.filter(instances::deleted.eq(false)),
        Deleted::Exclude => query.filter(instances::deleted.eq(false)).filter(instances::vm_state.ne(Sql(VmState::SoftDeleted))),
        Deleted::Only => query.filter(instances::deleted.eq(true).or(instances::vm_state.eq(Sql(VmState::SoftDeleted)))),
        Deleted::Include => query,
    }
}

fn deleted_in_memory(filter: &InstanceFilter, bundle: &InstanceBundle) -> bool {
    let soft_deleted = bundle.instance.vm_state == VmState::SoftDeleted;
    match filter.deleted {
        Deleted::Exclude => !bundle.instance.deleted && (filter.soft_deleted == Some(true) || !soft_deleted),
        Deleted::Only => bundle.instance.deleted || soft_deleted,
        Deleted::Include => true,
    }
}

fn changed_at(bundle: &InstanceBundle) -> DateTime<Utc> {
    bundle.instance.updated_at.unwrap_or(bundle.instance.created_at)
}

/// Returns the last moment of its second. Users see changes to the second, so one within the named second is not after it.
fn whole_second(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(0) + TimeDelta::microseconds(999_999)
}

fn changed_since<'a>(filter: &InstanceFilter, query: Query<'a>) -> Query<'a> {
    let Some(since) = filter.changes_since else { return query };
    let unchanged = instances::updated_at.is_null().and(instances::created_at.ge(Sql(since)));
    query.filter(instances::updated_at.ge(Sql(Some(since))).or(unchanged))
}

fn changed_before<'a>(filter: &InstanceFilter, query: Query<'a>) -> Query<'a> {
    let Some(before) = filter.changes_before.map(whole_second) else { return query };
    let unchanged = instances::updated_at.is_null().and(instances::created_at.le(Sql(before)));
    query.filter(instances::updated_at.le(Sql(Some(before))).or(unchanged))
}

fn task_states<'a>(filter: &InstanceFilter, query: Query<'a>) -> Query<'a> {
    let Some(states) = &filter.task_states else { return query };
    let tasks: Vec<TaskState> = states.iter().copied().flatten().collect();
    let at_rest = states.contains(&None);
    let in_task = instances::task_state.is_not_null().and(instances::task_state.assume_not_null().eq_any(tasks.into_iter().map(Sql)));
    query.filter(in_task.or(instances::task_state.is_null().and(at_rest.into_sql::<Bool>())))
}

/// Adds a condition per VM state, with its tasks or without a limit to them, because a condition per pair would make long SQL.
fn states<'a>(filter: &InstanceFilter, query: Query<'a>) -> Query<'a> {
    let Some(pairs) = &filter.states else { return query };
    let mut any: SqlCondition = Box::new(false.into_sql::<Bool>());
    for vm_state in VmState::ALL {
        let tasks: Vec<Option<TaskState>> = pairs.iter().filter(|(vm, _)| vm == vm_state).map(|(_, task)| *task).collect();
        if tasks.len() > TaskState::ALL.len() {
            any = Box::new(any.or(instances::vm_state.eq(Sql(*vm_state))));
            continue;
        }
        if tasks.contains(&None) {
            any = Box::new(any.or(instances::vm_state.eq(Sql(*vm_state)).and(instances::task_state.is_null())));
        }
        let tasks: Vec<TaskState> = tasks.into_iter().flatten().collect();
        if !tasks.is_empty() {
            let busy = instances::task_state.is_not_null().and(instances::task_state.assume_not_null().eq_any(tasks.into_iter().map(Sql)));
            any = Box::new(any.or(instances::vm_state.eq(Sql(*vm_state)).and(busy)));
        }
    }
    query.filter(any)
}

/// Makes the condition that the server has the tag.
fn tagged(tag: &str) -> SqlCondition {
    let rows = tags::table.filter(tags::instance_uuid.eq(instances::uuid));
    Box::new(exists(rows.filter(tags::tag.eq(tag.to_owned()))))
}

fn tags_any<'a>(filter: &InstanceFilter, query: Query<'a>) -> Query<'a> {
    if filter.tags_any.is_empty() {
        return query;
    }
    let rows = tags::table.filter(tags::instance_uuid.eq(instances::uuid));
    query.filter(exists(rows.filter(tags::tag.eq_any(filter.tags_any.clone()))))
}

fn not_tags<'a>(filter: &InstanceFilter, query: Query<'a>) -> Query<'a> {
    if filter.not_tags.is_empty() {
        return query;
    }
    let nothing: SqlCondition = Box::new(false.into_sql::<Bool>());
    query.filter(filter.not_tags.iter().fold(nothing, |lacks_one, tag| Box::new(lacks_one.or(not(tagged(tag))))))
}

fn metadata<'a>(filter: &InstanceFilter, query: Query<'a>) -> Query<'a> {
    filter.metadata.iter().fold(query, |query, (key, value)| {
        let rows = instance_metadata::table.filter(instance_metadata::instance_uuid.eq(instances::uuid));
        query.filter(exists(rows.filter(instance_metadata::key.eq(key.clone())).filter(instance_metadata::value.eq(value.clone()))))
    })
}
