//! Servers that were shelved for long leave their hosts, as the operator wants it.

use std::time::Duration;

use chrono::TimeDelta;

use super::{PeriodicParts, begin_due, owner_of};
use crate::domain::instance::Instance;
use crate::saga::context::Request;
use crate::saga::steps::shelf;

/// When shelved servers leave their hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OffloadOptions {
    /// The time since the shelving; zero for never, because what leaves at once needs no look.
    pub after: Duration,
    /// The pause between two looks.
    pub interval: Duration,
}

/// Lets the servers of a cell leave whose time has come.
pub async fn offload_due(parts: &PeriodicParts, name: &str) {
    let Some(cell) = parts.world.cells.get(name) else { return };
    let Ok(after) = TimeDelta::from_std(parts.options.offload.after) else { return };
    let latest = parts.world.env.now() - after;
    match cell.db.shelved_on_hosts().await {
        Ok(shelved) => {
            // A record without a time is of an operation that broke off; an operator may offload its server.
            let is_due = |server: &Instance| shelf::shelved_at(&server.system_metadata).is_some_and(|at| at <= latest);
            for server in shelved.into_iter().filter(is_due) {
                offload(parts, server).await;
            }
        }
        Err(error) => log::warn!(cell = name; "shelved servers are looked at later: {error}"),
    }
}

async fn offload(parts: &PeriodicParts, server: Instance) {
    let words = ["a server that was shelved for long leaves its host", "a shelved server does not leave its host yet"];
    begin_due(parts, owner_of(&parts.world, &server), server.uuid, Request::ShelveOffload, words).await;
}
