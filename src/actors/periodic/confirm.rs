//! Automatic confirm: a resize that has waited for longer than the operator's window is confirmed (NOVA-DIFFERENCES L6).

use chrono::TimeDelta;

use super::PeriodicParts;
use crate::db::cell::migrations::{Migration, MigrationFilter};
use crate::domain::context::RequestContext;
use crate::domain::migration::MigrationStatus;
use crate::saga::context::{ConfirmRequest, Context, Request};
use crate::saga::refusal::Refusal;

/// Confirms the overdue resizes in a cell.
pub(super) async fn confirm_overdue(parts: &PeriodicParts, name: &str) {
    let Some(cell) = parts.world.cells.get(name) else { return };
    let Ok(window) = TimeDelta::from_std(parts.options.resize_confirm_window) else { return };
    if window.is_zero() {
        return;
    }
    let changes_before = Some(parts.world.env.now() - window);
    let filter = MigrationFilter { statuses: vec![MigrationStatus::Finished], changes_before, ..MigrationFilter::default() };
    match cell.db.migrations(filter).await {
        Ok(overdue) => {
            for migration in overdue {
                confirm(parts, &migration).await;
            }
        }
        Err(error) => log::warn!(cell = name; "Error auto-confirming resizes, they are tried later: {error}"),
    }
}

async fn confirm(parts: &PeriodicParts, overdue: &Migration) {
    let server = overdue.instance_uuid;
    let caller = RequestContext {
        request_id: format!("req-{}", parts.world.env.uuid()),
        user_id: overdue.user_id.clone(),
        project_id: overdue.project_id.clone(),
        ..RequestContext::default()
    };
    let request = ConfirmRequest { automatic: true, migration: Some(overdue.uuid) };
    let context = Context::new(parts.world.env.uuid(), caller, server, Request::Confirm(request));
    match parts.conductor.begin(context).await {
        Ok(saga) => log::info!(server:% = server, migration:% = saga; "Automatically confirming a resize"),
        // A stale copy in the source's cell, or a faster user.
        Err(Refusal::Conflict(_) | Refusal::Invalid(_) | Refusal::NotFound(_)) => {}
        Err(refusal) => log::warn!(server:% = server; "Error auto-confirming resize, it is tried later: {refusal}"),
    }
}
