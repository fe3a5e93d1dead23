//! `/os-server-groups`: servers to keep together or apart.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::{Answer, bad_request, empty, forbidden, not_found, ok};
use super::body::rules::{Name, rules};
use super::body::{Body, Integer};
use super::catalog::Catalog;
use super::query::Query;
use super::quota_usage::Holder;
use super::schema::Schema;
use crate::domain::quota::within;
use crate::domain::quota_grant::QuotaGrant;
use crate::domain::server_group::{GroupPolicy, ServerGroupRecord};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-server-groups").route(web::get().to(list)).route(web::post().to(create)))
        .service(web::resource("/os-server-groups/{id}").route(web::get().to(show)).route(web::delete().to(delete)));
}

const HARD: &[&str] = &["anti-affinity", "affinity"];
const ALL: &[&str] = &["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"];

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[("POST /os-server-groups", &CREATE.schema)];

static CREATE: Body<NewGroup> = Body::within("server_group", &[1, 15, 64]);

rules! {
    /// The policy of a group.
    Policy = json!({"enum": ALL});
    /// A list with the policy alone. The soft ones came with 2.15.
    OnlyPolicy = json!({"type": "array", "items": {"versions": [[1, {"enum": HARD}], [15, {"enum": ALL}]]}, "minItems": 1, "maxItems": 1});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewGroup {
    #[schemars(with = "Name")]
    name: String,
    #[serde(default)]
    #[schemars(with = "OnlyPolicy", extend("until" = 64, "required_since" = 1))]
    policies: Vec<String>,
    #[serde(default)]
    #[schemars(with = "Policy", extend("since" = 64, "required_since" = 64))]
    policy: Option<String>,
    #[serde(default)]
    #[schemars(extend("since" = 64))]
    rules: GroupRules,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GroupRules {
    #[serde(default)]
    #[schemars(with = "Integer<1>")]
    max_server_per_host: Option<Integer<1>>,
}

async fn create(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, body: Document) -> Answer {
    api.allow(&caller, "os_compute_api:os-server-groups:create")?;
    let new = CREATE.read(version, &body).await?;
    let project = caller.0.project_id.clone();
    let limits = Holder::from(&caller.0).limits(&api).await?;
    let groups = api.api.server_groups(Some(&project)).await?;
    let of_user = groups.iter().filter(|group| group.user_id == caller.0.user_id).count() as i64;
    let [most, most_of_user] = [&limits.project, &limits.own].map(|limits| limits.get("server_groups").copied().unwrap_or(-1));
    let granted = QuotaGrant::within(most, groups.len() as i64, 1).filter(|_| within(most_of_user, of_user, 1)).ok_or_else(no_room)?;
    let (policy, rules) = new.policy()?;
    let group = ServerGroupRecord {
        uuid: api.env.uuid(),
        created_at: api.env.now(),
        updated_at: None,
        project_id: project,
        user_id: caller.0.user_id.clone(),
        name: new.name,
        policy,
        rules,
        members: Vec::new(),
    };
    let again = api.counting.recheck && (most >= 0 || most_of_user >= 0);
    if !again {
        api.api.create_server_group(group.clone(), granted).await?;
    } else if !api.api.create_server_group_within(group.clone(), most, most_of_user).await? {
        return Err(no_room());
    }
    ok(&json!({"server_group": view(&group, version, &BTreeSet::new())}))
}

fn no_room() -> ApiError {
    forbidden("Quota exceeded, too many server groups.")
}

impl NewGroup {
    /// Returns the policy and its rules. Below 2.64 the policy is the only one of a list.
    fn policy(&self) -> Result<(GroupPolicy, Value), ApiError> {
        let name = self.policy.as_deref().or(self.policies.first().map(String::as_str));
        let policy = name.and_then(GroupPolicy::parse).ok_or_else(|| bad_request("Invalid input for field/attribute policy."))?;
        let Some(most) = &self.rules.max_server_per_host else { return Ok((policy, json!({}))) };
        if policy != GroupPolicy::AntiAffinity {
            return Err(bad_request("Only anti-affinity policy supports rules."));
        }
        Ok((policy, json!({"max_server_per_host": most.stored("max_server_per_host")?})))
    }
}

async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:os-server-groups:index")?;
    let query = Query::of(&request)?;
    if version.at_least(75) {
        query.only(&["all_projects", "limit", "offset"])?;
    }
    let all = query.get("all_projects").is_some() && api.is_admin(&caller);
    if all {
        api.allow(&caller, "os_compute_api:os-server-groups:index:all_projects")?;
    }
    let limit = query.limit(api.max_limit)?;
    let groups = api.api.server_groups(if all { None } else { Some(&caller.0.project_id) }).await?;
    let groups: Vec<ServerGroupRecord> = groups.into_iter().skip(query.number("offset")?.unwrap_or(0)).take(limit).collect();
    let living = living(&api, groups.iter().flat_map(|group| group.members.iter().copied()).collect()).await?;
    let views: Vec<Value> = groups.iter().map(|group| view(group, version, &living)).collect();
    ok(&json!({"server_groups": views}))
}

async fn show(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, id: web::Path<String>) -> Answer {
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    let group = find(&api, &id).await?;
    api.allow_on_project(&caller, "os_compute_api:os-server-groups:show", &group.project_id)?;
    let living = living(&api, group.members.clone()).await?;
    ok(&json!({"server_group": view(&group, version, &living)}))
}

async fn delete(caller: Caller, api: web::Data<Catalog>, id: web::Path<String>) -> Answer {
    let group = find(&api, &id).await?;
    api.allow_on_project(&caller, "os_compute_api:os-server-groups:delete", &group.project_id)?;
    api.api.delete_server_group(group.uuid).await?;
    empty(StatusCode::NO_CONTENT)
}

async fn find(api: &Catalog, id: &str) -> Result<ServerGroupRecord, ApiError> {
    let uuid = Uuid::parse_str(id).map_err(|_| not_found(format!("Instance group {id} could not be found.")))?;
    Ok(api.api.server_group(uuid).await?)
}

/// Returns the servers that are neither deleted nor queued for delete.
async fn living(api: &Catalog, members: Vec<Uuid>) -> Result<BTreeSet<Uuid>, ApiError> {
    let mappings = api.api.instance_mappings_of(members).await?;
    Ok(mappings.into_iter().filter(|mapping| mapping.queued_for_delete != Some(true)).map(|mapping| mapping.instance_uuid).collect())
}

fn view(group: &ServerGroupRecord, version: ApiVersion, living: &BTreeSet<Uuid>) -> Value {
    let members: Vec<Uuid> = group.members.iter().filter(|member| living.contains(member)).copied().collect();
    let mut view = json!({"id": group.uuid, "name": group.name, "members": members});
    if version.at_least(64) {
        view["policy"] = json!(group.policy.as_str());
        view["rules"] = group.rules.clone();
    } else {
        view["policies"] = json!([group.policy.as_str()]);
        view["metadata"] = json!({});
    }
    if version.at_least(13) {
        view["project_id"] = json!(group.project_id);
        view["user_id"] = json!(group.user_id);
    }
    view
}
