//! `DELETE /servers/{id}` (spec cross-cell-resize §2.6, down-cell A1).

use actix_web::http::StatusCode;
use actix_web::web;
use uuid::Uuid;

use super::ComputeApi;
use super::access::{knows_project, no_such_server};
use crate::db::DbError;
use crate::domain::context::RequestContext;
use crate::domain::policy::Target;
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, empty};
use crate::http::error::ApiError;
use crate::saga::context::{Kind, Request};

const RULE: &str = "os_compute_api:servers:delete";

/// The handler. What cannot be begun now because the server's cell does not answer, or because the server is still being made,
/// is queued: it is gone for its users at once, and deleted as soon as it can be reached.
pub async fn delete(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    match api.locate_unlocked(&caller, &id, RULE).await {
        Ok(located) if located.cell.is_none() => api.registry.api().queue_delete(located.instance.uuid, caller).await?,
        Ok(located) => drop(api.begin(&caller, Kind::Delete, &located.instance, Request::Delete).await?),
        Err(error) if error.status == StatusCode::SERVICE_UNAVAILABLE => api.queue_out_of_sight(caller, &id).await?,
        Err(error) => return Err(error),
    }
    empty(StatusCode::NO_CONTENT)
}

impl ComputeApi {
    /// Queues the delete of a server of which only the mapping can be read. Whether it is locked is found out when its cell is back.
    async fn queue_out_of_sight(&self, caller: RequestContext, id: &str) -> Result<(), ApiError> {
        let uuid = Uuid::parse_str(id).map_err(|_| no_such_server(id))?;
        let mapping = match self.registry.api().instance_mapping(uuid).await {
            Ok(mapping) if knows_project(&caller, &mapping.project_id) && mapping.queued_for_delete != Some(true) => mapping,
            Ok(_) | Err(DbError::NotFound(_)) => return Err(no_such_server(id)),
            Err(error) => return Err(error.into()),
        };
        let target = Target { project_id: &mapping.project_id, user_id: mapping.user_id.as_deref().unwrap_or_default() };
        self.policy.authorize(RULE, &caller, &target)?;
        Ok(self.registry.api().queue_delete(uuid, caller).await?)
    }
}
