//! Lists, makes, shows, changes and deletes volumes.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use serde_json::{Value, json};
use uuid::Uuid;

use super::bodies::{self, CreateBody, Hints, NewFields, UpdateBody};
use crate::request_bodies::{RequestBody, bodies};
use crate::resource::{self, Editable, Query, Shown, is};
use crate::volume::paging::{self, id_of, listed};
use crate::volume::routes::{Call, bad_request, failed, require, time};
use crate::volume::{
    DEFAULT_OF_PROJECT, EmbeddedVolume, MULTIATTACH_TYPE, NewVolume, Snapshot, Volume, VolumeService, VolumeSource, VolumeUpdate, ZONE,
    fields,
};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/volumes/summary").route(web::get().to(sum_up)));
    resource::configure_with_details::<Volume>(cfg);
}

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = bodies! {
    "volume POST /volumes" => CreateBody,
    "volume PUT /volumes/{}" => UpdateBody,
};

listed! {
    Volume, "Volume",
    "name" | "display_name" => |one| one.name.clone().unwrap_or_default(),
    "status" => |one| one.status.clone(),
    "size" => |one| paging::sortable(one.size_gb),
    "bootable" => |one| one.bootable.to_string(),
    "availability_zone" => |one| one.availability_zone.clone(),
    "updated_at" => |one| one.updated_at.map(time).unwrap_or_default(),
}

impl Shown for Volume {
    type Service = EmbeddedVolume;

    const NAME: &'static str = "volume";
    const COLLECTION: &'static str = "volumes";

    async fn list(call: &Call, query: &Query) -> Result<Vec<Volume>, ApiError> {
        let mut volumes = call.service.list(paging::project(&call.caller, query)).await.map_err(failed)?;
        volumes.retain(|volume| {
            let name = volume.name.as_deref().unwrap_or_default();
            is(query, "name", name)
                && is(query, "display_name", name)
                && is(query, "status", &volume.status)
                && is(query, "availability_zone", &volume.availability_zone)
                && query.get("bootable").is_none_or(|bootable| bootable.eq_ignore_ascii_case("true") == volume.bootable)
        });
        Ok(volumes)
    }

    async fn show(call: &Call, id: &str) -> Result<Volume, ApiError> {
        call.service.own_volume(&call.caller.0, id_of::<Volume>(id)?).await.map_err(failed)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        require(&call.caller, "member")?;
        let query = call.query();
        let says = |key: &str| query.get(key).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let force = says("force") && call.caller.0.is_admin();
        call.service.delete_own(&call.caller.0, id_of::<Volume>(id)?, force, says("cascade")).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        bodies::summary(&call.request, self)
    }

    fn detail(&self, call: &Call) -> Value {
        bodies::whole(call, self)
    }
}

impl Editable for Volume {
    type New = CreateBody;
    type Change = UpdateBody;
    const CREATED: StatusCode = StatusCode::ACCEPTED;

    async fn create(call: &Call, CreateBody { volume: fields, hints }: CreateBody) -> Result<Volume, ApiError> {
        require(&call.caller, "member")?;
        let description = fields::text("description", fields.description.clone())?;
        let metadata = fields.metadata.clone().unwrap_or_default();
        fields::check_metadata(&metadata)?;
        refuse_unknown_places(&fields, hints.as_ref())?;
        let new = read_new(call, fields, call.service.env.uuid()).await?;
        let volume = call.service.create(new.clone(), description, metadata).await.map_err(failed)?;
        // The bytes follow later: the client waits for the status available or error, which `make` sets.
        let volumes = call.service.clone();
        actix_web::rt::spawn(async move { volumes.make(&new).await });
        Ok(volume)
    }

    async fn update(call: &Call, id: &str, UpdateBody { volume: fields }: UpdateBody) -> Result<Volume, ApiError> {
        require(&call.caller, "member")?;
        if let Some(metadata) = &fields.metadata {
            fields::check_metadata(metadata)?;
        }
        let update = VolumeUpdate {
            name: fields::changed_text("name", fields.name)?,
            description: fields::changed_text("description", fields.description)?,
            metadata: fields.metadata,
            bootable: None,
        };
        call.service.update(&call.caller.0, id_of::<Volume>(id)?, update).await.map_err(failed)
    }

    fn created(&self, call: &Call) -> Value {
        json!({"volume": bodies::detail(call, self)})
    }
}

/// Counts the matching volumes. Before 3.12 the path is a volume's, which does not exist.
async fn sum_up(call: Call, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    if !call.version.at_least(12) {
        id_of::<Volume>("summary")?;
    }
    let matching = Volume::list(&call, &query).await?;
    let size: i64 = matching.iter().map(|volume| i64::from(volume.size_gb)).sum();
    let mut summary = json!({"total_size": size, "total_count": matching.len()});
    if call.version.at_least(36) {
        let mut metadata: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (key, value) in matching.iter().flat_map(|volume| &volume.metadata) {
            metadata.entry(key).or_default().insert(value);
        }
        summary["metadata"] = json!(metadata);
    }
    Ok(HttpResponse::Ok().json(json!({"volume-summary": summary})))
}

/// Refuses groups of volumes, which this service lacks, and the hint to keep away from the only host.
fn refuse_unknown_places(fields: &NewFields, hints: Option<&Hints>) -> Result<(), ApiError> {
    let group = fields.group_id.as_ref().or(fields.consistencygroup_id.as_ref());
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

async fn read_new(call: &Call, fields: NewFields, id: Uuid) -> Result<NewVolume, ApiError> {
    if let Some(backup) = &fields.backup_id {
        return Err(bad_request(format!("Backup {backup:.64} is made a volume by its restore: POST /backups/{{id}}/restore.")));
    }
    if fields.availability_zone.as_deref().is_some_and(|zone| zone != ZONE) {
        return Err(bad_request(format!("Availability zone '{}' is invalid.", fields.availability_zone.unwrap_or_default())));
    }
    if let Some(flag) = &fields.multiattach
        && fields::flag("multiattach", flag)?
    {
        return Err(bad_request(format!("A volume that several servers may share has a type that says so: {MULTIATTACH_TYPE}.")));
    }
    let name = fields::text("name", fields.name.clone())?;
    let source = read_source(&fields)?;
    let (smallest, type_of_source) = described(call, source).await?;
    let size_gb = match &fields.size {
        None | Some(Value::Null) if smallest.is_some() => smallest.unwrap_or_default(),
        size => fields::size("size", size.as_ref().unwrap_or(&Value::Null))?,
    };
    let volume_type =
        fields.volume_type.filter(|name| !name.is_empty()).or(type_of_source).unwrap_or_else(|| DEFAULT_OF_PROJECT.to_owned());
    let volume_type = Some(call.service.usable_type(&call.caller.0, &volume_type).await.map_err(failed)?.name);
    Ok(NewVolume { id, name, caller: call.caller.0.clone(), size_gb, source, volume_type })
}

/// Returns the only source that the body names.
fn read_source(fields: &NewFields) -> Result<VolumeSource, ApiError> {
    let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    match (non_empty(&fields.image), non_empty(&fields.snapshot_id), non_empty(&fields.source_volid)) {
        (None, None, None) => Ok(VolumeSource::Blank),
        (Some(image), None, None) => {
            let image = Uuid::parse_str(&image).map_err(|_| bad_request(format!("Invalid image identifier {image}.")))?;
            Ok(VolumeSource::Image(image))
        }
        (None, Some(snapshot), None) => Ok(VolumeSource::Snapshot(id_of::<Snapshot>(&snapshot)?)),
        (None, None, Some(volume)) => Ok(VolumeSource::Volume(id_of::<Volume>(&volume)?)),
        _ => Err(bad_request("Invalid input received: a volume has one source: an image, a snapshot or a volume.")),
    }
}

/// Returns the size and the type that a volume has if the body names none: those of its source.
async fn described(call: &Call, source: VolumeSource) -> Result<(Option<i32>, Option<String>), ApiError> {
    let (size_gb, volume) = match source {
        VolumeSource::Blank | VolumeSource::Image(_) | VolumeSource::Backup(_) => return Ok((None, None)),
        VolumeSource::Snapshot(id) => {
            let snapshot = call.service.own_snapshot(&call.caller.0, id).await.map_err(failed)?;
            (snapshot.size_gb, call.service.volume(snapshot.volume_id).await.map_err(failed)?)
        }
        VolumeSource::Volume(id) => {
            let volume = call.service.own_volume(&call.caller.0, id).await.map_err(failed)?;
            (volume.size_gb, volume)
        }
    };
    Ok((Some(size_gb), volume.volume_type))
}
