//! `DELETE /servers/{id}`.

use actix_web::http::StatusCode;
use actix_web::web;
use uuid::Uuid;

use super::ComputeApi;
use super::access::{knows_project, no_such_server};
use crate::actors::cell_registry::Located;
use crate::db::DbError;
use crate::domain::context::RequestContext;
use crate::domain::migration::MigrationStatus;
use crate::domain::policy::Target;
use crate::domain::server::VmState;
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, empty};
use crate::http::error::ApiError;
use crate::saga::context::{Kind, Request};

/// The handler.
pub async fn delete(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    api.delete(caller, &id, "os_compute_api:servers:delete").await?;
    empty(StatusCode::NO_CONTENT)
}

impl ComputeApi {
    /// Deletes a server for whom `rule` lets, whatever is being done to it: an operation that has it makes room. What cannot be begun
    /// now because the server's cell does not answer, or the one that a server in VERIFY_RESIZE came from, is queued: it is gone for its
    /// users at once, and deleted as soon as it can be reached.
    pub(super) async fn delete(&self, caller: RequestContext, id: &str, rule: &str) -> Result<(), ApiError> {
        match self.locate_unlocked(&caller, id, rule).await {
            Ok(located) => self.delete_found(caller, &located).await,
            Err(error) if error.status == StatusCode::SERVICE_UNAVAILABLE => self.queue_out_of_sight(caller, id, rule).await,
            Err(error) => Err(error),
        }
    }

    /// Begins the delete of a server whose cell answers, or queues it while the other cell that it ends in does not.
    async fn delete_found(&self, caller: RequestContext, located: &Located) -> Result<(), ApiError> {
        let server = &located.instance;
        if !self.source_is_silent(located).await? {
            match self.begin(&caller, Kind::Delete, server, Request::Delete).await {
                // It may have gone down in between.
                Err(error) if error.status == StatusCode::SERVICE_UNAVAILABLE && self.source_is_silent(located).await? => {}
                begun => return begun.map(drop),
            }
        }
        Ok(self.registry.api().queue_delete(server.uuid, caller).await?)
    }

    /// Whether a server that waits for confirm came from a cell that does not answer: its delete confirms the move on the way.
    async fn source_is_silent(&self, located: &Located) -> Result<bool, ApiError> {
        let (Some(here), VmState::Resized | VmState::Error) = (&located.cell, located.instance.vm_state) else { return Ok(false) };
        let server = located.instance.uuid;
        let latest = self.registry.ask(here, |db| async move { db.latest_migration(server, &MigrationStatus::LIVE).await }).await?;
        let Some(migration) = latest else { return Ok(false) };
        match self.registry.cell_of_host(&migration.source_compute).await? {
            Some(source) if source != *here => {
                let asked = self.registry.ask(&source, |db| async move { db.services().await }).await;
                Ok(asked.is_err_and(|error| error.is_unavailable()))
            }
            _ => Ok(false),
        }
    }

    /// Queues the delete of a server of which only the mapping can be read. Whether it is locked is found out when its cell is back.
    async fn queue_out_of_sight(&self, caller: RequestContext, id: &str, rule: &str) -> Result<(), ApiError> {
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
        Ok(self.registry.api().queue_delete(uuid, caller).await?)
    }
}
