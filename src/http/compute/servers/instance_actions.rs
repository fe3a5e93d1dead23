//! `/servers/{id}/os-instance-actions`: the actions on a server and their events.

use actix_web::web;
use serde_json::{Value, json};
use uuid::Uuid;

use super::view::host_id;
use super::{ComputeApi, access};
use crate::cell_registry::Located;
use crate::db::DbError;
use crate::domain::action::{Action, ActionFilter, ActionHistory, Event};
use crate::domain::context::RequestContext;
use crate::domain::moment::micros;
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, not_found, ok};
use crate::http::compute::query::Query;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/servers/{id}/os-instance-actions").route(web::get().to(index)))
        .service(web::resource("/servers/{id}/os-instance-actions/{request}").route(web::get().to(show)));
}

/// Returns the server; from 2.21 on also a deleted server, whose history is kept.
async fn find(api: &ComputeApi, caller: &RequestContext, version: ApiVersion, id: &str, rule: &str) -> Result<Located, ApiError> {
    if !version.at_least(21) {
        return api.locate_for(caller, id, rule).await;
    }
    let uuid = Uuid::parse_str(id).map_err(|_| access::no_such_server(id))?;
    let located = access::server_for(caller, id, api.registry.find_even_deleted(uuid).await, |located| &located.instance)?;
    api.policy.authorize(rule, caller, &access::target(&located.instance))?;
    Ok(located)
}

async fn index(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>) -> Answer {
    let query = Query::of(&request)?;
    let located = find(&api, &caller, version, &id, "os_compute_api:os-instance-actions:list").await?;
    let mut filter = ActionFilter::default();
    let page = query.page(api.options.max_limit)?;
    if version.at_least(58) {
        let names: &[&str] = &["limit", "marker", "changes-since", "changes-before"];
        query.only(if version.at_least(66) { names } else { &names[..3] })?;
        filter.changes_since = query.moment("changes-since")?;
        filter.changes_before = query.moment("changes-before")?;
        if filter.changes_since > filter.changes_before.or(filter.changes_since) {
            return Err(bad_request("The value of changes-since must be less than or equal to changes-before."));
        }
        filter.marker = page.marker.clone();
        filter.limit = i64::try_from(page.limit).ok();
    }
    let server = located.instance.uuid;
    let actions = match &located.cell {
        None => Vec::new(),
        Some(cell) => api.registry.ask(cell, |db| async move { db.actions(server, filter).await }).await.map_err(|error| match error {
            DbError::NotFound(_) => bad_request(format!("marker [{}] not found", page.marker.clone().unwrap_or_default())),
            other => other.into(),
        })?,
    };
    let mut body = json!({"instanceActions": actions.iter().map(|action| action_view(action, version)).collect::<Vec<_>>()});
    if version.at_least(58) {
        let last = actions.last().map(|action| action.request_id.clone());
        if let Some(next) = page.next(&request, &query, &format!("servers/{}/os-instance-actions", *id), actions.len(), last) {
            body["links"] = next;
        }
    }
    ok(&body)
}

async fn show(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>, path: web::Path<(String, String)>) -> Answer {
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    let (id, request_id) = path.into_inner();
    let located = find(&api, &caller, version, &id, "os_compute_api:os-instance-actions:show").await?;
    let unknown = || not_found(format!("Action {request_id} not found"));
    let cell = located.cell.as_deref().ok_or_else(unknown)?;
    let (server, action) = (located.instance.uuid, request_id.clone());
    let history = match api.registry.ask(cell, |db| async move { db.action(server, &action).await }).await {
        Ok(history) => history,
        Err(DbError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    ok(&json!({"instanceAction": history_view(&api, &caller, version, &located, &history)}))
}

fn action_view(action: &Action, version: ApiVersion) -> Value {
    let mut view = json!({
        "action": action.action,
        "instance_uuid": action.instance_uuid,
        "request_id": action.request_id,
        "user_id": action.user_id,
        "project_id": action.project_id,
        "start_time": micros(action.start_time),
        "message": action.message,
    });
    if version.at_least(58) {
        view["updated_at"] = json!(micros(action.updated_at));
    }
    view
}

fn history_view(api: &ComputeApi, caller: &RequestContext, version: ApiVersion, located: &Located, history: &ActionHistory) -> Value {
    let target = access::target(&located.instance);
    let all = api.policy.check("os_compute_api:os-instance-actions:events", caller, &target);
    let details = api.policy.check("os_compute_api:os-instance-actions:events:details", caller, &target);
    let mut view = action_view(&history.action, version);
    // Owners see events from 2.51 on, without the fields for operators.
    if all || version.at_least(51) {
        let one = |event: &Event| event_view(event, version, &history.action.project_id, all, details);
        view["events"] = history.events.iter().map(one).collect();
    }
    view
}

fn event_view(event: &Event, version: ApiVersion, project_id: &str, all: bool, details: bool) -> Value {
    let mut view = json!({
        "event": event.event,
        "start_time": micros(event.start_time),
        "finish_time": event.finish_time.map(micros),
        "result": event.result,
    });
    if all {
        view["traceback"] = json!(event.traceback);
    }
    if version.at_least(62) {
        view["hostId"] = json!(host_id(project_id, event.host.as_deref()));
        if all {
            view["host"] = json!(event.host);
        }
    }
    if version.at_least(84) && details {
        view["details"] = json!(event.details);
    }
    view
}
