//! `GET /servers/{id}`.

use actix_web::{HttpRequest, web};
use serde_json::json;

use super::view::{self, Extras, Frame, Purpose};
use super::{ComputeApi, access};
use crate::actors::cell_registry::ServerRecord;
use crate::db::DbError;
use crate::domain::context::RequestContext;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::compute::answer::{Answer, ok};
use crate::http::compute::query::Query;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// The handler.
pub async fn show(
    request: HttpRequest,
    api: web::Data<ComputeApi>,
    Caller(caller): Caller,
    version: ApiVersion,
    id: web::Path<String>,
) -> Answer {
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    let server = api.load(&caller, &id, "os_compute_api:servers:show").await?;
    let base = base_url::of(&request);
    ok(&json!({"server": api.view(&caller, &base, version, Purpose::Show, &server).await?}))
}

impl ComputeApi {
    /// One server in full, with what this microversion and this caller need beside it.
    pub async fn view(
        &self,
        caller: &RequestContext,
        base: &str,
        version: ApiVersion,
        purpose: Purpose,
        server: &ServerRecord,
    ) -> Result<serde_json::Value, ApiError> {
        let visible = self.visible(caller, &access::target(&server.instance));
        let frame = Frame { base, version, visible, purpose };
        let mut extras = Extras::default();
        let uuid = server.instance.uuid;
        if version.at_least(96) {
            extras.request_spec = match self.registry.api().request_spec(uuid).await {
                Ok(spec) => Some(spec),
                // A deleted server may have none left.
                Err(DbError::NotFound(_)) => None,
                Err(error) => return Err(error.into()),
            };
        }
        if version.at_least(71) {
            extras.server_groups = self.registry.api().server_group_of(uuid).await?.map(|group| group.uuid).into_iter().collect();
        }
        if version.at_least(16) && (visible.host_status || visible.host_status_unknown) {
            extras.host_status = Some(self.registry.host_status(server).await);
        }
        Ok(view::detailed(frame, server, &extras))
    }
}
