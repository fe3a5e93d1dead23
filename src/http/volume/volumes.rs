//! Lists, makes, shows, changes and deletes volumes.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::view::{self, Page};
use super::{bad_request, failed, fields, not_found, require, volume_id};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::http::microversion::ApiVersion;
use crate::services::volume::NewVolume;
use crate::services::volume::embedded::{DEFAULT_TYPE, EmbeddedVolume, MULTIATTACH_TYPE, VolumeUpdate, ZONE, type_named};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/volumes").route(web::get().to(list)).route(web::post().to(create)));
    cfg.service(web::resource("/volumes/detail").route(web::get().to(list_details)));
    let one = web::resource("/volumes/{id}").route(web::get().to(show)).route(web::put().to(update));
    cfg.service(one.route(web::delete().to(delete)));
}

/// The maximum number of volumes in one answer.
const LARGEST_PAGE: usize = 1000;

#[derive(Deserialize)]
struct CreateBody {
    volume: NewFields,
}

#[derive(Deserialize)]
struct NewFields {
    /// A number, or digits in a string.
    size: Value,
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
}

#[derive(Deserialize)]
struct UpdateBody {
    volume: ChangedFields,
}

#[derive(Deserialize)]
struct ChangedFields {
    #[serde(default, alias = "display_name", deserialize_with = "given")]
    name: Option<Option<String>>,
    #[serde(default, alias = "display_description", deserialize_with = "given")]
    description: Option<Option<String>>,
    metadata: Option<BTreeMap<String, String>>,
}

/// Parses a present field, which may be null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

async fn list(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let page = page(&volumes, &caller, &query).await?;
    let shown = page.volumes.iter().map(|volume| view::summary(&request, volume)).collect();
    Ok(HttpResponse::Ok().json(view::list(&request, version, &page, shown)))
}

async fn list_details(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let page = page(&volumes, &caller, &query).await?;
    let shown = page.volumes.iter().map(|volume| view::whole(&request, version, &caller, volume)).collect();
    Ok(HttpResponse::Ok().json(view::list(&request, version, &page, shown)))
}

/// Returns one page of the matching volumes that the caller may see.
async fn page(volumes: &EmbeddedVolume, caller: &Caller, query: &BTreeMap<String, String>) -> Result<Page, ApiError> {
    let all = caller.0.is_admin() && query.get("all_tenants").is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"));
    let project = query.get("project_id").filter(|_| all).map(String::as_str);
    let scope = if all { project } else { Some(caller.0.project_id.as_str()) };
    let mut known = volumes.list(scope).await.map_err(failed)?;
    known.retain(|volume| {
        query.get("name").or(query.get("display_name")).is_none_or(|name| volume.name.as_ref() == Some(name))
            && query.get("status").is_none_or(|status| *status == volume.status)
            && query.get("bootable").is_none_or(|bootable| bootable.eq_ignore_ascii_case("true") == volume.bootable)
            && query.get("availability_zone").is_none_or(|zone| *zone == volume.availability_zone)
    });
    let count = known.len();
    if let Some(marker) = query.get("marker") {
        let at = known.iter().position(|volume| volume.id.to_string() == *marker);
        known.drain(..=at.ok_or_else(|| not_found("Volume", marker))?);
    }
    let number = |key: &str| query.get(key).map(|text| text.parse::<usize>().map_err(|_| bad_request(format!("{key} must be a number."))));
    let offset = number("offset").transpose()?.unwrap_or(0).min(known.len());
    known.drain(..offset);
    let limit = number("limit").transpose()?.unwrap_or(LARGEST_PAGE).min(LARGEST_PAGE);
    let more = known.len() > limit;
    known.truncate(limit);
    let with_count = query.get("with_count").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    Ok(Page { volumes: known, more, count: with_count.then_some(count) })
}

async fn create(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    env: web::Data<crate::env::Env>,
    caller: Caller,
    Json(CreateBody { volume: wanted }): Json<CreateBody>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let description = fields::text("description", wanted.description.clone())?;
    let metadata = wanted.metadata.clone().unwrap_or_default();
    fields::check_metadata(&metadata)?;
    let new = read_new(wanted, &caller, env.uuid())?;
    let volume = volumes.create(new.clone(), description, metadata).await.map_err(failed)?;
    let body = json!({"volume": view::detail(&request, version, &caller, &volume)});
    // The bytes follow later: the client waits for the status available or error, which `make` sets.
    actix_web::rt::spawn(async move { volumes.make(&new).await });
    Ok(HttpResponse::Accepted().json(body))
}

fn read_new(wanted: NewFields, caller: &Caller, id: uuid::Uuid) -> Result<NewVolume, ApiError> {
    for (source, what) in [(&wanted.snapshot_id, "Snapshot"), (&wanted.source_volid, "Source volume"), (&wanted.backup_id, "Backup")] {
        if let Some(source) = source {
            return Err(bad_request(format!("{what} {source} cannot be the source of a volume: only an image can.")));
        }
    }
    if wanted.availability_zone.as_deref().is_some_and(|zone| zone != ZONE) {
        return Err(bad_request(format!("Availability zone '{}' is invalid.", wanted.availability_zone.unwrap_or_default())));
    }
    if let Some(asked) = &wanted.multiattach
        && fields::flag("multiattach", asked)?
    {
        return Err(bad_request(format!("A volume that several servers may share has a type that says so: {MULTIATTACH_TYPE}.")));
    }
    let (name, size_gb) = (fields::text("name", wanted.name)?, fields::size("size", &wanted.size)?);
    let image_id = match wanted.image.filter(|image| !image.is_empty()) {
        Some(image) => Some(uuid::Uuid::parse_str(&image).map_err(|_| bad_request(format!("Invalid image identifier {image}.")))?),
        None => None,
    };
    let volume_type = wanted.volume_type.as_deref().filter(|name| !name.is_empty()).unwrap_or(DEFAULT_TYPE);
    let volume_type = Some(type_named(volume_type).map_err(failed)?.to_owned());
    Ok(NewVolume { id, name, caller: caller.0.clone(), size_gb, image_id, volume_type })
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
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let force = query.get("force").is_some_and(|value| value.eq_ignore_ascii_case("true")) && caller.0.is_admin();
    volumes.delete_own(&caller.0, volume_id(&id)?, force).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}
