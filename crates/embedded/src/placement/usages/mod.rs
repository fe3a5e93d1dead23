//! Usages: the sums of what a provider gives, or of what the consumers of a project have.

pub(super) mod routes;

use std::collections::{BTreeMap, BTreeSet};

use super::EmbeddedPlacement;
use super::allocations::records as consumption;
use crate::ServiceError;
use crate::transaction::Transactions;

impl EmbeddedPlacement {
    /// Returns the usage of a project, or of one of its users: by consumer type, the number of consumers and the sums by class.
    pub async fn usages(&self, project: String, user: Option<String>) -> Result<BTreeMap<String, Usage>, ServiceError> {
        self.read(move |conn| {
            let mut usages: BTreeMap<String, Usage> = BTreeMap::new();
            let mut consumers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for row in consumption::of_project(conn, &project)? {
                if user.as_ref().is_some_and(|user| *user != row.user_id) {
                    continue;
                }
                consumers.entry(row.consumer_type.clone()).or_default().insert(row.consumer_uuid);
                let sum = usages.entry(row.consumer_type).or_default().sums.entry(row.resource_class).or_insert(0);
                *sum = sum.saturating_add(row.used);
            }
            for (kind, usage) in &mut usages {
                usage.consumers = consumers.get(kind).map_or(0, BTreeSet::len);
            }
            Ok(usages)
        })
        .await
    }
}

/// The usage of all consumers of one type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub consumers: usize,
    pub sums: BTreeMap<String, i64>,
}
