//! `/os-security-groups`: a project's security groups, with their rules for incoming traffic, which alone the compute API knows.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::web;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Network, is_there, limited, scope_of};
use crate::domain::context::RequestContext;
use crate::domain::reason::ReasonCode;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, empty, forbidden, not_found, ok};
use crate::http::compute::body::rules::ShortText;
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::compute::query::Query;
use crate::http::compute::servers::network_error;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::services::ServiceError;
use crate::services::proxies::{NetworkProxy, SecurityGroup, SecurityGroupRule};

/// Names and projects of groups, by id, for rules that name groups.
pub(super) type Names = BTreeMap<Uuid, Value>;

/// `POST /os-security-groups` and `PUT /os-security-groups/{id}`.
pub(super) static GROUP: Body<GroupBody> = Body::whole(ALWAYS);

/// Fields that are not known are allowed, as in Nova.
#[derive(Deserialize, JsonSchema)]
pub(super) struct GroupBody {
    security_group: GroupFields,
}

#[derive(Deserialize, JsonSchema)]
struct GroupFields {
    #[schemars(with = "ShortText")]
    name: String,
    #[schemars(with = "ShortText")]
    description: String,
}

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config.service(web::resource("/os-security-groups").route(web::get().to(index)).route(web::post().to(create))).service(
        web::resource("/os-security-groups/{id}").route(web::get().to(show)).route(web::put().to(update)).route(web::delete().to(delete)),
    );
}

async fn index(Call { request, api: network, catalog, caller, version }: Call<dyn NetworkProxy>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-security-groups:get")?;
    let query = Query::of(&request)?;
    let everybodys = caller.0.is_admin() && query.get("all_tenants").is_some();
    let groups = visible(&network, &caller.0).await?;
    let names = names_of(&groups);
    let mut shown: Vec<&SecurityGroup> = groups.iter().filter(|group| everybodys || group.project_id == caller.0.project_id).collect();
    shown = limited(shown, &query, catalog.max_limit)?;
    shown.sort_by(|a, b| (&a.project_id, &a.name).cmp(&(&b.project_id, &b.name)));
    ok(&json!({"security_groups": shown.into_iter().map(|group| view(group, &names)).collect::<Vec<_>>()}))
}

async fn show(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-security-groups:show")?;
    let groups = visible(&network, &caller.0).await?;
    let group = find(&groups, uuid(&id)?)?;
    ok(&json!({"security_group": view(group, &names_of(&groups))}))
}

async fn create(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>, body: Document) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-security-groups:create")?;
    let GroupFields { name, description } = GROUP.read(version, &body).await?.security_group;
    let made = network.make_security_group(scope_of(&caller.0), &name, &description).await.map_err(refused)?;
    ok(&json!({"security_group": view(&made, &Names::new())}))
}

async fn update(
    Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-security-groups:update")?;
    let GroupFields { name, description } = GROUP.read(version, &body).await?.security_group;
    let groups = visible(&network, &caller.0).await?;
    let id = find(&groups, uuid(&id)?)?.id;
    let changed = network.rename_security_group(scope_of(&caller.0), id, &name, &description).await.map_err(|error| match error {
        ServiceError::Conflict(why) => bad_request(why),
        other => refused(other),
    })?;
    ok(&json!({"security_group": view(&changed, &names_of(&groups))}))
}

async fn delete(Call { api: network, catalog, caller, version, .. }: Call<dyn NetworkProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-security-groups:delete")?;
    let groups = visible(&network, &caller.0).await?;
    let id = find(&groups, uuid(&id)?)?.id;
    network.remove_security_group(scope_of(&caller.0), id).await.map_err(|error| match error {
        ServiceError::Conflict(why) => bad_request(why),
        other => refused(other),
    })?;
    empty(StatusCode::ACCEPTED)
}

/// Parses an id. The compute API says 400 to every other text.
pub(super) fn uuid(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| bad_request("Security group id should be uuid"))
}

/// Returns the groups that the caller may see.
pub(super) async fn visible(network: &Network, caller: &RequestContext) -> Result<Vec<SecurityGroup>, ApiError> {
    network.visible_security_groups(scope_of(caller)).await.map_err(network_error)
}

/// Finds a group by its id.
pub(super) fn find(groups: &[SecurityGroup], id: Uuid) -> Result<&SecurityGroup, ApiError> {
    let group = groups.iter().find(|group| group.id == id);
    group.ok_or_else(|| not_found(format!("Security group {id} does not exist")))
}

/// Returns the names and projects of these groups.
pub(super) fn names_of(groups: &[SecurityGroup]) -> Names {
    groups.iter().map(|group| (group.id, json!({"name": group.name, "tenant_id": group.project_id}))).collect()
}

/// Converts a refusal of the network service: a quota is 403 here.
pub(super) fn refused(error: ServiceError) -> ApiError {
    match error {
        ServiceError::Conflict(why) if why.code() == Some(ReasonCode::QuotaExceeded) => forbidden(why),
        ServiceError::Conflict(why) => bad_request(why),
        ServiceError::Invalid(why) => bad_request(why),
        other => network_error(other),
    }
}

fn view(group: &SecurityGroup, names: &Names) -> Value {
    json!({
        "id": group.id,
        "name": group.name,
        "description": group.description,
        "tenant_id": group.project_id,
        "rules": group.rules.iter().filter_map(|rule| rule_view(rule, names)).collect::<Vec<_>>(),
    })
}

/// Returns the view of a rule; none if it is for outgoing traffic or names a group that the caller cannot see.
pub(super) fn rule_view(rule: &SecurityGroupRule, names: &Names) -> Option<Value> {
    if !rule.is_ingress {
        return None;
    }
    let all = match rule.protocol.as_deref() {
        None => (None, None),
        Some("tcp" | "udp") => (Some(1), Some(65_535)),
        Some(_) => (Some(-1), Some(-1)),
    };
    let (from, to) = match (rule.port_range_min, rule.port_range_max) {
        (None, None) => all,
        ports => ports,
    };
    let (group, range) = match rule.remote_group_id {
        Some(remote) => (names.get(&remote)?.clone(), json!({})),
        None => (json!({}), json!({"cidr": rule.remote_ip_prefix.as_deref().unwrap_or("0.0.0.0/0")})),
    };
    Some(json!({
        "id": rule.id,
        "parent_group_id": rule.security_group_id,
        "ip_protocol": rule.protocol,
        "from_port": from,
        "to_port": to,
        "group": group,
        "ip_range": range,
    }))
}
