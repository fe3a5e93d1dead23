//! `GET /servers/{id}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::web;
use uuid::Uuid;

use super::view::{self, Extras, Frame, Purpose};
use super::{ComputeApi, access, partial};
use crate::cell_registry::{LastKnown, LookupError, ServerRecord, SilentServer};
use crate::db::DbError;
use crate::domain::context::RequestContext;
use crate::domain::policy::Target;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, ok};
use crate::http::compute::query::Query;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// Answers `GET /servers/{id}`.
pub async fn show(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>) -> Answer {
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    let uuid = Uuid::parse_str(&id).map_err(|_| access::no_such_server(&id))?;
    let base = base_url::of(&request);
    let view = match api.registry.server_and_group(uuid).await {
        Err(LookupError::Silent(silent)) if partial::takes_last_known(&request) && api.remembers(&silent) => {
            api.last_known_view(&caller, &base, version, *silent).await?
        }
        Err(LookupError::Silent(silent)) if version.at_least(69) => api.partial_view(&caller, &base, version, &silent).await?,
        answer => {
            let (lookup, group) = match answer {
                Ok((server, group)) => (Ok(server), group),
                Err(error) => (Err(error), None),
            };
            let server = api.may_see(&caller, &id, RULE, lookup)?;
            api.view_in_group(&caller, &base, version, (Purpose::Show, &server), group).await?
        }
    };
    ok(&BTreeMap::from([("server", view)]))
}

const RULE: &str = "os_compute_api:servers:show";

impl ComputeApi {
    fn remembers(&self, silent: &SilentServer) -> bool {
        self.registry.last_known(&silent.cell, &silent.mapping).is_some()
    }

    /// Shows the last known server. 404 if it is being deleted.
    async fn last_known_view(
        &self,
        caller: &RequestContext,
        base: &str,
        version: ApiVersion,
        silent: SilentServer,
    ) -> Result<serde_json::Value, ApiError> {
        let id = silent.mapping.instance_uuid.to_string();
        let last = self.registry.last_known(&silent.cell, &silent.mapping).filter(|_| !silent.is_gone());
        let LastKnown { record, at } = last.ok_or_else(|| access::no_such_server(&id))?;
        let record = self.may_see(caller, &id, RULE, Ok(record))?;
        let view = self.view(caller, base, version, Purpose::Show, &record).await?;
        Ok(partial::dated(view, at, self.env.now()))
    }

    /// Shows a partial entry of a silent cell's server. 404 if too little is known, or the server is being deleted.
    async fn partial_view(
        &self,
        caller: &RequestContext,
        base: &str,
        version: ApiVersion,
        silent: &SilentServer,
    ) -> Result<serde_json::Value, ApiError> {
        let mapping = &silent.mapping;
        let unknown = || access::no_such_server(&mapping.instance_uuid.to_string());
        if silent.is_gone() || !access::knows_project(caller, &mapping.project_id) {
            return Err(unknown());
        }
        let target = Target { project_id: &mapping.project_id, user_id: mapping.user_id.as_deref().unwrap_or_default() };
        self.policy.authorize(RULE, caller, &target)?;
        let spec = self.registry.api().request_spec(mapping.instance_uuid).await.map_err(|error| match error {
            DbError::NotFound(_) => unknown(),
            other => other.into(),
        })?;
        let group = self.registry.api().server_group_of(mapping.instance_uuid).await?;
        let frame = Frame { base, version, visible: self.visible(caller, &target), purpose: Purpose::Show };
        Ok(partial::shown(frame, mapping, &spec, &Vec::from_iter(group)))
    }

    /// Returns a full server, with the additional records for this microversion and caller.
    pub async fn view(
        &self,
        caller: &RequestContext,
        base: &str,
        version: ApiVersion,
        purpose: Purpose,
        server: &Arc<ServerRecord>,
    ) -> Result<serde_json::Value, ApiError> {
        let group = match version.at_least(71) {
            true => self.registry.api().server_group_of(server.instance.uuid).await?,
            false => None,
        };
        self.view_in_group(caller, base, version, (purpose, server), group).await
    }

    /// As [`ComputeApi::view`], for a server whose group is known.
    async fn view_in_group(
        &self,
        caller: &RequestContext,
        base: &str,
        version: ApiVersion,
        (purpose, server): (Purpose, &Arc<ServerRecord>),
        group: Option<Uuid>,
    ) -> Result<serde_json::Value, ApiError> {
        let visible = self.visible(caller, &access::target(&server.instance));
        let frame = Frame { base, version, visible, purpose };
        let uuid = server.instance.uuid;
        let request_spec = async {
            match version.at_least(96) {
                true => self.registry.api().request_spec(uuid).await.map(Some),
                false => Ok(None),
            }
        };
        let host_status = async {
            let shown = version.at_least(16) && (visible.host_status || visible.host_status_unknown);
            if shown { Some(self.registry.host_status(server).await) } else { None }
        };
        let floating_ips = self.floating_ips(std::slice::from_ref(server));
        let (floating_ips, request_spec, host_status) = futures::join!(floating_ips, request_spec, host_status);
        let request_spec = match request_spec {
            // A deleted server may have no request spec any more.
            Err(DbError::NotFound(_)) => None,
            spec => spec?,
        };
        let extras = Extras { request_spec, server_groups: Vec::from_iter(group), host_status, floating_ips };
        Ok(view::detailed(frame, server, &extras).into())
    }
}
