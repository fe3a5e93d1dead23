//! `DELETE /servers/{id}`.

use actix_web::http::StatusCode;
use actix_web::web;
use uuid::Uuid;

use super::ComputeApi;
use super::access::{knows_project, no_such_server};
use crate::cell_registry::Located;
use crate::db::DbError;
use crate::domain::context::RequestContext;
use crate::domain::migration::MigrationStatus;
use crate::domain::policy::Target;
use crate::domain::server::VmState;
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, empty};
use crate::http::error::ApiError;
use crate::saga::context::Request;

/// Answers `DELETE /servers/{id}`.
pub async fn delete(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    let deferred = api.options.reclaims_later;
    api.delete(caller, &id, "os_compute_api:servers:delete", deferred).await?;
    empty(StatusCode::NO_CONTENT)
}

impl ComputeApi {
    /// Deletes a server, if `rule` allows it, in any state: an operation that holds it makes room. If the server's cell, or the source cell
    /// of a server in VERIFY_RESIZE, does not answer, the delete is queued: users no longer see the server, and it is deleted once the cell
    /// answers. A deferred delete is a soft delete, if the server can be restored.
    pub(super) async fn delete(&self, caller: RequestContext, id: &str, rule: &str, deferred: bool) -> Result<(), ApiError> {
        match self.locate_unlocked(&caller, id, rule).await {
            Ok(located) => self.delete_or_queue(caller, &located, deferred).await,
            Err(error) if error.status == StatusCode::SERVICE_UNAVAILABLE => self.queue_out_of_sight(caller, id, rule, deferred).await,
            Err(error) => Err(error),
        }
    }

    /// Begins the delete of a server whose cell answers, or queues it while the move's other cell does not answer.
    async fn delete_or_queue(&self, caller: RequestContext, located: &Located, deferred: bool) -> Result<(), ApiError> {
        let server = &located.instance;
        if !self.source_is_silent(located).await? {
            let request = if deferred { Request::SoftDelete } else { Request::Delete };
            match self.begin(&caller, server, request).await {
                // The cell may have gone down meanwhile.
                Err(error) if error.status == StatusCode::SERVICE_UNAVAILABLE && self.source_is_silent(located).await? => {}
                begun => return begun.map(drop),
            }
        }
        self.queue(server.uuid, caller, deferred).await
    }

    /// True if the server waits for confirm and its source cell does not answer. Its delete must confirm the move, which needs that cell.
    async fn source_is_silent(&self, located: &Located) -> Result<bool, ApiError> {
        let (Some(here), VmState::Resized | VmState::Error) = (&located.cell, located.instance.vm_state) else { return Ok(false) };
        let server = located.instance.uuid;
        let latest = self.registry.ask(here, |db| async move { db.latest_migration(server, &MigrationStatus::LIVE).await }).await?;
        let Some(migration) = latest else { return Ok(false) };
        match self.registry.cell_of_host(&migration.source_compute).await? {
            Some(source) if source != *here => {
                let look = self.registry.ask(&source, |db| async move { db.look().await }).await;
                Ok(look.is_err_and(|error| error.is_unavailable()))
            }
            _ => Ok(false),
        }
    }

    /// Queues the delete of a server whose cell is silent. Its lock is checked once the cell answers.
    async fn queue_out_of_sight(&self, caller: RequestContext, id: &str, rule: &str, deferred: bool) -> Result<(), ApiError> {
        let uuid = Uuid::parse_str(id).map_err(|_| no_such_server(id))?;
        let mapping = match self.registry.api().instance_mapping(uuid).await {
            Ok(mapping)
                if knows_project(&caller, &mapping.project_id) && (mapping.is_leaving() || mapping.queued_for_delete != Some(true)) =>
            {
                mapping
            }
            Ok(_) | Err(DbError::NotFound(_)) => return Err(no_such_server(id)),
            Err(error) => return Err(error.into()),
        };
        let target = Target { project_id: &mapping.project_id, user_id: mapping.user_id.as_deref().unwrap_or_default() };
        self.policy.authorize(rule, &caller, &target)?;
        if mapping.is_leaving() {
            return Ok(());
        }
        self.queue(uuid, caller, deferred).await
    }

    async fn queue(&self, server: Uuid, caller: RequestContext, deferred: bool) -> Result<(), ApiError> {
        let api = self.registry.api();
        Ok(if deferred { api.queue_soft_delete(server, caller).await } else { api.queue_delete(server, caller).await }?)
    }
}
