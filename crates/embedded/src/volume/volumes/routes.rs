//! Lists, makes, shows, changes and deletes volumes.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use cellshift_web::microversion::ApiVersion;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::bodies as view;
use crate::routes::request_bodies::{RequestBody, of_type};
use crate::volume::fields::{self, given};
use crate::volume::paging::{self, Listed, Page, Query, SortValue};
use crate::volume::routes::{bad_request, failed, require, time, volume_id};
use crate::volume::snapshots::routes::snapshot_id;
use crate::volume::{
    DEFAULT_OF_PROJECT, EmbeddedVolume, MULTIATTACH_TYPE, NewVolume, Volume, VolumeService, VolumeSource, VolumeUpdate, ZONE,
};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/volumes").route(web::get().to(list)).route(web::post().to(create)));
    cfg.service(web::resource("/volumes/detail").route(web::get().to(list_details)));
    cfg.service(web::resource("/volumes/summary").route(web::get().to(sum_up)));
    let one = web::resource("/volumes/{id}").route(web::get().to(show)).route(web::put().to(update));
    cfg.service(one.route(web::delete().to(delete)));
}

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] =
    &[("volume POST /volumes", of_type::<CreateBody>), ("volume PUT /volumes/{}", of_type::<UpdateBody>)];

#[derive(Deserialize, JsonSchema)]
struct CreateBody {
    volume: NewFields,
    #[serde(rename = "OS-SCH-HNT:scheduler_hints", alias = "scheduler_hints")]
    hints: Option<Hints>,
}

/// Hints about the host of a volume. All volumes are on one host.
#[derive(Deserialize, JsonSchema)]
struct Hints {
    different_host: Option<Value>,
    #[serde(rename = "same_host")]
    _same_host: Option<Value>,
    #[serde(rename = "local_to_instance")]
    _local_to_instance: Option<Value>,
}

#[derive(Deserialize, JsonSchema)]
struct NewFields {
    /// A number, or digits in a string. A snapshot or a volume as source has a size of its own.
    size: Option<Value>,
    #[serde(alias = "display_name")]
    name: Option<String>,
    #[serde(alias = "display_description")]
    description: Option<String>,
    #[serde(rename = "imageRef", alias = "image_id")]
    image: Option<String>,
    volume_type: Option<String>,
    availability_zone: Option<String>,
    metadata: Option<BTreeMap<String, String>>,
    /// Obsolete: the volume's type says whether several servers may share it.
    multiattach: Option<Value>,
    snapshot_id: Option<String>,
    source_volid: Option<String>,
    backup_id: Option<String>,
    group_id: Option<String>,
    consistencygroup_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct UpdateBody {
    volume: ChangedFields,
}

#[derive(Deserialize, JsonSchema)]
struct ChangedFields {
    #[serde(default, alias = "display_name", deserialize_with = "given")]
    name: Option<Option<String>>,
    #[serde(default, alias = "display_description", deserialize_with = "given")]
    description: Option<Option<String>>,
    metadata: Option<BTreeMap<String, String>>,
}

impl Listed for Volume {
    const COLLECTION: &'static str = "volumes";
    const KIND: &'static str = "Volume";

    fn id(&self) -> Uuid {
        self.id
    }

    fn sort_value(key: &str) -> Option<SortValue<Volume>> {
        match key {
            "id" => Some(|one| one.id.to_string()),
            "name" | "display_name" => Some(|one| one.name.clone().unwrap_or_default()),
            "status" => Some(|one| one.status.clone()),
            "size" => Some(|one| paging::sortable(one.size_gb)),
            "bootable" => Some(|one| one.bootable.to_string()),
            "availability_zone" => Some(|one| one.availability_zone.clone()),
            "created_at" => Some(|one| time(one.created_at)),
            "updated_at" => Some(|one| one.updated_at.map(time).unwrap_or_default()),
            _ => None,
        }
    }
}

async fn list(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    let page = page(&volumes, &caller, &query).await?;
    let shown = page.entries.iter().map(|volume| view::summary(&request, volume)).collect();
    Ok(HttpResponse::Ok().json(paging::body(&request, version, &page, shown)))
}

async fn list_details(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    let page = page(&volumes, &caller, &query).await?;
    let shown = page.entries.iter().map(|volume| view::whole(&request, version, &caller, volume)).collect();
    Ok(HttpResponse::Ok().json(paging::body(&request, version, &page, shown)))
}

/// Counts the matching volumes. Before 3.12 the path is a volume's, which does not exist.
async fn sum_up(
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    if !version.at_least(12) {
        volume_id("summary")?;
    }
    let matching = matching(&volumes, &caller, &query).await?;
    let size: i64 = matching.iter().map(|volume| i64::from(volume.size_gb)).sum();
    let mut summary = json!({"total_size": size, "total_count": matching.len()});
    if version.at_least(36) {
        let mut metadata: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (key, value) in matching.iter().flat_map(|volume| &volume.metadata) {
            metadata.entry(key).or_default().insert(value);
        }
        summary["metadata"] = json!(metadata);
    }
    Ok(HttpResponse::Ok().json(json!({"volume-summary": summary})))
}

/// Returns one page of the matching volumes that the caller may see.
async fn page(volumes: &EmbeddedVolume, caller: &Caller, query: &Query) -> Result<Page<Volume>, ApiError> {
    paging::page(matching(volumes, caller, query).await?, query)
}

/// Returns the matching volumes that the caller may see.
async fn matching(volumes: &EmbeddedVolume, caller: &Caller, query: &Query) -> Result<Vec<Volume>, ApiError> {
    let mut known = volumes.list(paging::project(caller, query)).await.map_err(failed)?;
    known.retain(|volume| {
        let name = volume.name.as_deref().unwrap_or_default();
        paging::is(query, "name", name)
            && paging::is(query, "display_name", name)
            && paging::is(query, "status", &volume.status)
            && paging::is(query, "availability_zone", &volume.availability_zone)
            && query.get("bootable").is_none_or(|bootable| bootable.eq_ignore_ascii_case("true") == volume.bootable)
    });
    Ok(known)
}

async fn create(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    env: web::Data<cellshift_env::Env>,
    caller: Caller,
    Json(CreateBody { volume: wanted, hints }): Json<CreateBody>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let description = fields::text("description", wanted.description.clone())?;
    let metadata = wanted.metadata.clone().unwrap_or_default();
    fields::check_metadata(&metadata)?;
    refuse_unknown_places(&wanted, hints.as_ref())?;
    let new = read_new(&volumes, wanted, &caller, env.uuid()).await?;
    let volume = volumes.create(new.clone(), description, metadata).await.map_err(failed)?;
    let body = json!({"volume": view::detail(&request, version, &caller, &volume)});
    // The bytes follow later: the client waits for the status available or error, which `make` sets.
    actix_web::rt::spawn(async move { volumes.make(&new).await });
    Ok(HttpResponse::Accepted().json(body))
}

/// Refuses groups of volumes, which this service lacks, and the hint to keep away from the only host.
fn refuse_unknown_places(wanted: &NewFields, hints: Option<&Hints>) -> Result<(), ApiError> {
    let group = wanted.group_id.as_ref().or(wanted.consistencygroup_id.as_ref());
    if let Some(group) = group.filter(|group| !group.is_empty()) {
        return Err(bad_request(format!("Invalid group {group:.64}: this service has no groups of volumes.")));
    }
    let volumes = hints.and_then(|hints| hints.different_host.as_ref());
    let names_some = |volumes: &Value| !volumes.is_null() && *volumes != json!([]) && *volumes != json!("");
    match volumes.is_some_and(names_some) {
        true => Err(bad_request("Invalid hint different_host: all volumes are on one host.")),
        false => Ok(()),
    }
}

async fn read_new(volumes: &EmbeddedVolume, wanted: NewFields, caller: &Caller, id: Uuid) -> Result<NewVolume, ApiError> {
    if let Some(backup) = &wanted.backup_id {
        return Err(bad_request(format!("Backup {backup:.64} is made a volume by its restore: POST /backups/{{id}}/restore.")));
    }
    if wanted.availability_zone.as_deref().is_some_and(|zone| zone != ZONE) {
        return Err(bad_request(format!("Availability zone '{}' is invalid.", wanted.availability_zone.unwrap_or_default())));
    }
    if let Some(asked) = &wanted.multiattach
        && fields::flag("multiattach", asked)?
    {
        return Err(bad_request(format!("A volume that several servers may share has a type that says so: {MULTIATTACH_TYPE}.")));
    }
    let name = fields::text("name", wanted.name.clone())?;
    let source = read_source(&wanted)?;
    let (smallest, type_of_source) = described(volumes, caller, source).await?;
    let size_gb = match &wanted.size {
        None | Some(Value::Null) if smallest.is_some() => smallest.unwrap_or_default(),
        size => fields::size("size", size.as_ref().unwrap_or(&Value::Null))?,
    };
    let volume_type =
        wanted.volume_type.filter(|name| !name.is_empty()).or(type_of_source).unwrap_or_else(|| DEFAULT_OF_PROJECT.to_owned());
    let volume_type = Some(volumes.usable_type(&caller.0, &volume_type).await.map_err(failed)?.name);
    Ok(NewVolume { id, name, caller: caller.0.clone(), size_gb, source, volume_type })
}

/// Returns the only source that the body names.
fn read_source(wanted: &NewFields) -> Result<VolumeSource, ApiError> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    match (given(&wanted.image), given(&wanted.snapshot_id), given(&wanted.source_volid)) {
        (None, None, None) => Ok(VolumeSource::Blank),
        (Some(image), None, None) => {
            let image = Uuid::parse_str(&image).map_err(|_| bad_request(format!("Invalid image identifier {image}.")))?;
            Ok(VolumeSource::Image(image))
        }
        (None, Some(snapshot), None) => Ok(VolumeSource::Snapshot(snapshot_id(&snapshot)?)),
        (None, None, Some(volume)) => Ok(VolumeSource::Volume(volume_id(&volume)?)),
        _ => Err(bad_request("Invalid input received: a volume has one source: an image, a snapshot or a volume.")),
    }
}

/// Returns the size and the type that a volume has if the body names none: those of its source.
async fn described(volumes: &EmbeddedVolume, caller: &Caller, source: VolumeSource) -> Result<(Option<i32>, Option<String>), ApiError> {
    let (size_gb, volume) = match source {
        VolumeSource::Blank | VolumeSource::Image(_) | VolumeSource::Backup(_) => return Ok((None, None)),
        VolumeSource::Snapshot(id) => {
            let snapshot = volumes.own_snapshot(&caller.0, id).await.map_err(failed)?;
            (snapshot.size_gb, volumes.volume(snapshot.volume_id).await.map_err(failed)?)
        }
        VolumeSource::Volume(id) => {
            let volume = volumes.own_volume(&caller.0, id).await.map_err(failed)?;
            (volume.size_gb, volume)
        }
    };
    Ok((Some(size_gb), volume.volume_type))
}

async fn show(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let volume = volumes.own_volume(&caller.0, volume_id(&id)?).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"volume": view::whole(&request, version, &caller, &volume)})))
}

async fn update(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    Json(UpdateBody { volume }): Json<UpdateBody>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    if let Some(metadata) = &volume.metadata {
        fields::check_metadata(metadata)?;
    }
    let update = VolumeUpdate {
        name: volume.name.map(|name| fields::text("name", name)).transpose()?,
        description: volume.description.map(|text| fields::text("description", text)).transpose()?,
        metadata: volume.metadata,
        bootable: None,
    };
    let changed = volumes.update(&caller.0, volume_id(&id)?, update).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"volume": view::detail(&request, version, &caller, &changed)})))
}

async fn delete(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let says = |key: &str| query.get(key).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let force = says("force") && caller.0.is_admin();
    volumes.delete_own(&caller.0, volume_id(&id)?, force, says("cascade")).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}
