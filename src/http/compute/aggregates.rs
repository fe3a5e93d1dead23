//! `/os-aggregates`: groups of hosts, some of which are availability zones.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use serde_json::{Value, json};

use super::answer::{Answer, bad_request, conflict, empty, moment, moment_or_null, not_found, ok};
use super::catalog::Catalog;
use super::query::Query;
use super::schema::{self, Schema};
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
    ("POST /os-aggregates", &CREATE),
    ("PUT /os-aggregates/{}", &UPDATE),
    ("POST /os-aggregates/{}/action#add_host", &ADD_HOST),
    ("POST /os-aggregates/{}/action#remove_host", &REMOVE_HOST),
    ("POST /os-aggregates/{}/action#set_metadata", &SET_METADATA),
];

static CREATE: Schema = Schema::fixed(|_| {
    let aggregate = json!({"name": schema::name(), "availability_zone": zone_name()});
    schema::wrapped("aggregate", &schema::object(&aggregate, &["name"]))
});
static UPDATE: Schema = Schema::fixed(|_| {
    let mut aggregate = schema::object(&json!({"name": schema::loose_name(), "availability_zone": zone_name()}), &[]);
    aggregate["minProperties"] = json!(1);
    schema::wrapped("aggregate", &aggregate)
});
static ADD_HOST: Schema = Schema::fixed(|_| schema::wrapped("add_host", &schema::wrapped("host", &schema::host())));
static REMOVE_HOST: Schema = Schema::fixed(|_| schema::wrapped("remove_host", &schema::wrapped("host", &schema::host())));
static SET_METADATA: Schema = Schema::fixed(|_| {
    let metadata = json!({
        "type": "object",
        "patternProperties": {"^[a-zA-Z0-9-_:. ]{1,255}$": {"type": ["string", "null"], "maxLength": 255}},
        "additionalProperties": false,
    });
    schema::wrapped("set_metadata", &schema::wrapped("metadata", &metadata))
});

fn zone_name() -> Value {
    json!({"type": ["string", "null"], "minLength": 1, "maxLength": 255, "pattern": r"^[^\s\p{C}:](?:[^\p{C}:]*[^\s\p{C}:])?$"})
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
    CREATE.check(version, &body).await?;
    let asked = &body["aggregate"];
    let name = asked["name"].as_str().unwrap_or_default();
    let aggregate = api.api.create_aggregate(api.env.uuid(), name, asked["availability_zone"].as_str()).await?;
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
    UPDATE.check(version, &body).await?;
    let mut aggregate = api.api.aggregate(number(&id)?).await?;
    if let Some(zone) = body["aggregate"].get("availability_zone") {
        let zone = zone.as_str().map(str::to_owned);
        rezone(&api, &aggregate, zone.as_deref()).await?;
        let values = BTreeMap::from([(ZONE_KEY.to_owned(), zone)]);
        aggregate = api.api.set_aggregate_metadata(aggregate.id, values).await.map_err(invalid_action)?;
    }
    if let Some(name) = body["aggregate"]["name"].as_str() {
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
    let aggregate = if body.get("add_host").is_some() {
        api.allow(&caller, "os_compute_api:os-aggregates:add_host")?;
        ADD_HOST.check(version, &body).await?;
        add_host(&api, number(&id)?, body["add_host"]["host"].as_str().unwrap_or_default()).await?
    } else if body.get("remove_host").is_some() {
        api.allow(&caller, "os_compute_api:os-aggregates:remove_host")?;
        REMOVE_HOST.check(version, &body).await?;
        remove_host(&api, number(&id)?, body["remove_host"]["host"].as_str().unwrap_or_default()).await?
    } else if body.get("set_metadata").is_some() {
        api.allow(&caller, "os_compute_api:os-aggregates:set_metadata")?;
        SET_METADATA.check(version, &body).await?;
        set_metadata(&api, number(&id)?, &body["set_metadata"]["metadata"]).await?
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

async fn set_metadata(api: &Catalog, id: i32, metadata: &Value) -> Result<Aggregate, ApiError> {
    let aggregate = api.api.aggregate(id).await?;
    let given = metadata.as_object().cloned().unwrap_or_default();
    let values: BTreeMap<String, Option<String>> = given.into_iter().map(|(key, value)| (key, value.as_str().map(str::to_owned))).collect();
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
