//! The reasons why servers of a drain have not moved, or what is to be known of those that have: each with the number of its servers.

use diesel::dsl::count_star;
use diesel::prelude::*;
use uuid::Uuid;

use super::drain_servers;
use crate::db::DbError;
use crate::db::api::operations::Operations;
use crate::domain::drain::{DrainReason, DrainServerState};

impl Operations {
    /// Returns the reasons of a drain's servers, that of the most servers first.
    pub async fn drain_reasons(&self, drain: Uuid) -> Result<Vec<DrainReason>, DbError> {
        self.db()
            .read(move |conn| {
                let grouped = drain_servers::table
                    .filter(drain_servers::drain_id.eq(drain.to_string()))
                    .filter(drain_servers::reason.is_not_null())
                    .group_by((drain_servers::state, drain_servers::reason))
                    .select((drain_servers::state, drain_servers::reason, count_star()));
                let rows: Vec<(String, Option<String>, i64)> = grouped.load(conn)?;
                let mut reasons = Vec::new();
                for (state, reason, servers) in rows {
                    let state = DrainServerState::parse(&state).ok_or_else(|| DbError::unreadable("a drain's state", &state))?;
                    reasons.extend(reason.map(|reason| DrainReason { state, reason, servers }));
                }
                reasons.sort_by(|one, other| (other.servers, &one.reason).cmp(&(one.servers, &other.reason)));
                Ok(reasons)
            })
            .await
    }
}
