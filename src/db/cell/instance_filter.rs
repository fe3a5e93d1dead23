//! Filters of server lists. `conditions` holds the conditions that SQL can check, and `patterns` those of text, which SQL cannot.

mod conditions;
mod patterns;
#[cfg(test)]
mod tests;

use diesel::prelude::*;

use self::conditions::CONDITIONS;
use self::patterns::PATTERNS;
use super::schema::instances;
use crate::db::columns::Multi;
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::instance_filter::InstanceFilter;
use crate::domain::network_info::NetworkInfo;
use crate::env::guard::{Guard, stands};

type Query<'a> = instances::BoxedQuery<'a, Multi>;

/// Checks all conditions on a record in memory: a build request, which is in no cell.
pub fn admits(filter: &InstanceFilter, bundle: &InstanceBundle) -> bool {
    CONDITIONS.iter().all(|condition| (condition.in_memory)(filter, bundle))
        && patterns_match(filter, &bundle.instance, bundle.info_cache.as_ref())
}

/// Builds the query with the conditions that SQL can check.
pub(super) fn query<'a>(filter: &InstanceFilter) -> Query<'a> {
    CONDITIONS.iter().fold(visible(filter), |query, condition| (condition.in_sql)(filter, query))
}

/// True if SQL cannot check all conditions, so that [`patterns_match`] must check the rest.
pub(super) fn looks_at_records(filter: &InstanceFilter) -> bool {
    PATTERNS.iter().any(|pattern| (pattern.text_of)(filter).is_some())
}

/// True if [`patterns_match`] needs the info cache.
pub(super) fn looks_at_addresses(filter: &InstanceFilter) -> bool {
    PATTERNS.iter().any(|pattern| pattern.searches_addresses() && (pattern.text_of)(filter).is_some())
}

/// Checks the conditions that SQL cannot check.
pub(super) fn patterns_match(filter: &InstanceFilter, instance: &Instance, network: Option<&NetworkInfo>) -> bool {
    PATTERNS.iter().all(|pattern| (pattern.text_of)(filter).is_none_or(|text_pattern| pattern.finds(text_pattern, instance, network)))
}

/// Leaves out hidden copies. Build requests have none, so memory has no such condition.
fn visible<'a>(filter: &InstanceFilter) -> Query<'a> {
    let query = instances::table.into_boxed();
    if stands(Guard::HiddenFilter) && !filter.with_hidden {
        query.filter(instances::hidden.is_null().or(instances::hidden.eq(false)))
    } else {
        query
    }
}
