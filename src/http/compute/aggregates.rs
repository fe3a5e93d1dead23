//! `/os-aggregates`: groups of hosts, some of which are availability zones.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, bad_request, conflict, empty, moment, moment_or_null, not_found, ok};
use super::body::rules::{HostName, LooseName, Name, rules};
use super::body::{ALWAYS, Body, nullable};
use super::catalog::Catalog;
use super::query::Query;
use super::schema::Schema;
use super::zones::Zones;
use crate::db::DbError;
use crate::domain::aggregate::{Aggregate, ZONE_KEY};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::services::ServiceError;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-aggregates").route(web::get().to(list)).route(web::post().to(create)))
        .service(
            web::resource("/os-aggregates/{id}").route(web::get().to(show)).route(web::put().to(update)).route(web::delete().to(delete)),
        )
        .service(web::resource("/os-aggregates/{id}/action").route(web::post().to(action)));
}

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[
    ("POST /os-aggregates", &CREATE.schema),
    ("PUT /os-aggregates/{}", &UPDATE.schema),
    ("POST /os-aggregates/{}/action#add_host", &ADD_HOST.schema),
    ("POST /os-aggregates/{}/action#remove_host", &REMOVE_HOST.schema),
    ("POST /os-aggregates/{}/action#set_metadata", &SET_METADATA.schema),
];

static CREATE: Body<NewAggregate> = Body::within("aggregate", ALWAYS);
static UPDATE: Body<AggregateChange> = Body::within("aggregate", ALWAYS);
static ADD_HOST: Body<Member> = Body::within("add_host", ALWAYS);
static REMOVE_HOST: Body<Member> = Body::within("remove_host", ALWAYS);
static SET_METADATA: Body<MetadataChange> = Body::within("set_metadata", ALWAYS);

rules! {
    /// The name of a zone, or null.
    ZoneName = json!({"type": ["string", "null"], "minLength": 1, "maxLength": 255, "pattern": r"^[^\s\p{C}:](?:[^\p{C}:]*[^\s\p{C}:])?$"});
    /// New values of metadata. Null removes a key.
    NewMetadata = json!({
        "type": "object",
        "patternProperties": {"^[a-zA-Z0-9-_:. ]{1,255}$": {"type": ["string", "null"], "maxLength": 255}},
        "additionalProperties": false,
    });
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewAggregate {
    #[schemars(with = "Name")]
    name: String,
    #[serde(default)]
    #[schemars(with = "ZoneName")]
    availability_zone: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
struct AggregateChange {
    #[serde(default)]
    #[schemars(with = "LooseName")]
    name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "ZoneName")]
    availability_zone: Option<Option<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Member {
    #[schemars(with = "HostName")]
    host: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MetadataChange {
    #[schemars(with = "NewMetadata")]
    metadata: BTreeMap<String, Option<String>>,
}

async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:os-aggregates:index")?;
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    let views: Vec<Value> = api.api.aggregates().await?.iter().map(|aggregate| view(aggregate, version)).collect();
    ok(&json!({"aggregates": views}))
}

async fn create(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, body: Document) -> Answer {
    api.allow(&caller, "os_compute_api:os-aggregates:create")?;
    let new = CREATE.read(version, &body).await?;
    let aggregate = api.api.create_aggregate(api.env.uuid(), &new.name, new.availability_zone.as_deref()).await?;
    let mut view = view(&aggregate, version);
    if let Some(fields) = view.as_object_mut() {
        fields.remove("hosts");
        fields.remove("metadata");
    }
    ok(&json!({"aggregate": view}))
}

async fn show(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, id: web::Path<String>) -> Answer {
    api.allow(&caller, "os_compute_api:os-aggregates:show")?;
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    answer(&api.api.aggregate(number(&id)?).await?, version)
}

async fn update(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, id: web::Path<String>, body: Document) -> Answer {
    api.allow(&caller, "os_compute_api:os-aggregates:update")?;
    let change = UPDATE.read(version, &body).await?;
    let mut aggregate = api.api.aggregate(number(&id)?).await?;
    if let Some(zone) = change.availability_zone {
        rezone(&api, &aggregate, zone.as_deref()).await?;
        let values = BTreeMap::from([(ZONE_KEY.to_owned(), zone)]);
        aggregate = api.api.set_aggregate_metadata(aggregate.id, values).await.map_err(invalid_action)?;
    }
    if let Some(name) = change.name {
        aggregate = api.api.rename_aggregate(aggregate.id, name.trim()).await?;
    }
    answer(&aggregate, version)
}

async fn delete(caller: Caller, api: web::Data<Catalog>, id: web::Path<String>) -> Answer {
    api.allow(&caller, "os_compute_api:os-aggregates:delete")?;
    api.api.delete_aggregate(number(&id)?).await.map_err(invalid_action)?;
    empty(StatusCode::OK)
}

async fn action(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, id: web::Path<String>, body: Document) -> Answer {
    let aggregate = if ADD_HOST.is_named_in(&body) {
        api.allow(&caller, "os_compute_api:os-aggregates:add_host")?;
        let member = ADD_HOST.read(version, &body).await?;
        add_host(&api, number(&id)?, &member.host).await?
    } else if REMOVE_HOST.is_named_in(&body) {
        api.allow(&caller, "os_compute_api:os-aggregates:remove_host")?;
        let member = REMOVE_HOST.read(version, &body).await?;
        remove_host(&api, number(&id)?, &member.host).await?
    } else if SET_METADATA.is_named_in(&body) {
        api.allow(&caller, "os_compute_api:os-aggregates:set_metadata")?;
        let change = SET_METADATA.read(version, &body).await?;
        set_metadata(&api, number(&id)?, change.metadata).await?
    } else {
        return Err(bad_request("There is no such action."));
    };
    answer(&aggregate, version)
}

async fn add_host(api: &Catalog, id: i32, host: &str) -> Result<Aggregate, ApiError> {
    let aggregate = api.api.aggregate(id).await?;
    api.api.host_mapping(host).await.map_err(|error| match error {
        DbError::NotFound(_) => not_found(format!("Compute host {host} could not be found.")),
        other => other.into(),
    })?;
    if let Some(zone) = aggregate.availability_zone() {
        let zones = Zones::read(api).await?;
        if zones.of_host(host) != zone && has_servers(api, host).await? {
            return Err(conflict(format!("Cannot add host {host} to aggregate {id}: its servers would change their availability zone.")));
        }
    }
    let changed = api.api.add_aggregate_host(id, host).await?;
    // The host is in the aggregate, whatever Placement answers: a repeated request would be refused.
    if let Err(error) = api.placement.set_member(host, aggregate.uuid, true).await {
        log::warn!(host = host; "placement does not have the host in the aggregate {}: {error}. Add it with cellshift sync-aggregates.", aggregate.uuid);
    }
    Ok(changed)
}

async fn remove_host(api: &Catalog, id: i32, host: &str) -> Result<Aggregate, ApiError> {
    let aggregate = api.api.aggregate(id).await?;
    if !aggregate.hosts.contains(host) {
        return Err(not_found(format!("Cannot remove host {host} in aggregate {id}")));
    }
    let zones = Zones::read(api).await?;
    if aggregate.availability_zone().is_some() && zones.of_host_without(host, id) != zones.of_host(host) && has_servers(api, host).await? {
        return Err(conflict(format!("Cannot remove host {host} from aggregate {id}: its servers would change their availability zone.")));
    }
    leave_in_placement(api, &aggregate, host).await?;
    Ok(api.api.remove_aggregate_host(id, host).await?)
}

/// Takes the host's provider out of the aggregate. Comes before the change of the records, so that a request that fails can be repeated.
pub(super) async fn leave_in_placement(api: &Catalog, aggregate: &Aggregate, host: &str) -> Result<(), ApiError> {
    match api.placement.set_member(host, aggregate.uuid, false).await {
        Ok(()) | Err(ServiceError::NotFound(_)) => Ok(()),
        Err(error) => Err(ApiError::from_service(ErrorForm::Compute, error)),
    }
}

async fn set_metadata(api: &Catalog, id: i32, values: BTreeMap<String, Option<String>>) -> Result<Aggregate, ApiError> {
    let aggregate = api.api.aggregate(id).await?;
    if let Some(zone) = values.get(ZONE_KEY) {
        if zone.as_deref().is_some_and(|zone| zone.trim().is_empty() || zone.contains(':')) {
            return Err(bad_request(format!("Cannot update metadata of aggregate {id}: an availability zone has a name without colons.")));
        }
        rezone(api, &aggregate, zone.as_deref()).await?;
    }
    api.api.set_aggregate_metadata(id, values).await.map_err(invalid_action)
}

/// Answers 400 if hosts of the aggregate have servers, because their zone would change.
async fn rezone(api: &Catalog, aggregate: &Aggregate, zone: Option<&str>) -> Result<(), ApiError> {
    if aggregate.availability_zone() == zone {
        return Ok(());
    }
    for host in &aggregate.hosts {
        if has_servers(api, host).await? {
            return Err(bad_request(format!(
                "Cannot change the availability zone of aggregate {}: host {host} has servers.",
                aggregate.id
            )));
        }
    }
    Ok(())
}

async fn has_servers(api: &Catalog, host: &str) -> Result<bool, ApiError> {
    for heard in api.ask_cells(|cell| cell.instances_on_host(host)).await {
        if !heard.answer?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Answers 400 for an invalid action, which the records report as a conflict.
fn invalid_action(error: DbError) -> ApiError {
    match error {
        DbError::Conflict(why) => bad_request(why),
        other => other.into(),
    }
}

/// Parses an aggregate's id. A name is answered as an unknown aggregate.
fn number(id: &str) -> Result<i32, ApiError> {
    id.parse().map_err(|_| not_found(format!("Aggregate {id} could not be found.")))
}

fn answer(aggregate: &Aggregate, version: ApiVersion) -> Answer {
    ok(&json!({"aggregate": view(aggregate, version)}))
}

fn view(aggregate: &Aggregate, version: ApiVersion) -> Value {
    let mut view = json!({
        "id": aggregate.id,
        "name": aggregate.name,
        "availability_zone": aggregate.availability_zone(),
        "hosts": aggregate.hosts,
        "metadata": aggregate.metadata,
        "created_at": moment(aggregate.created_at),
        "updated_at": moment_or_null(aggregate.updated_at),
        "deleted": false,
        "deleted_at": null,
    });
    if version.at_least(41) {
        view["uuid"] = json!(aggregate.uuid);
    }
    view
}
