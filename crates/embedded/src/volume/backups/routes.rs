//! Lists, makes, shows, changes, restores and deletes backups of volumes.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_env::Env;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use serde_json::{Map, Value, json};

use super::bodies::{self, CreateBody, RestoreBody, UpdateBody};
use crate::request_bodies::{RequestBody, bodies};
use crate::resource::{self, Editable, Query, Shown, is};
use crate::volume::paging::{self, id_of, listed};
use crate::volume::routes::{Call, NoFields, Status, bad_request, failed, named_action, parameters, require};
use crate::volume::{Backup, BackupUpdate, EmbeddedVolume, NewBackup, RESTORED, RestoreTarget, fields};

/// The container of a backup that names none.
const CONTAINER: &str = "volumebackups";
/// The first microversion in which a backup can be changed.
const UPDATE_SINCE: u16 = 9;

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    resource::configure_with_details::<Backup>(cfg);
    cfg.service(web::resource("/backups/{id}/restore").route(web::post().to(restore)));
    cfg.service(web::resource("/backups/{id}/action").route(web::post().to(act)));
}

listed! {
    Backup, "Backup",
    "name" => |one| one.name.clone().unwrap_or_default(),
    "status" => |one| one.status.clone(),
    "volume_id" => |one| one.volume_id.to_string(),
    "size" => |one| paging::sortable(one.size_gb),
}

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = bodies! {
    "volume POST /backups" => CreateBody,
    "volume PUT /backups/{}" => UpdateBody,
    "volume POST /backups/{}/restore" => RestoreBody,
    "volume POST /backups/{}/action#os-reset_status" => Status,
    "volume POST /backups/{}/action#os-force_delete" => NoFields,
};

impl Shown for Backup {
    type Service = EmbeddedVolume;

    const NAME: &'static str = "backup";
    const COLLECTION: &'static str = "backups";

    async fn list(call: &Call, query: &Query) -> Result<Vec<Backup>, ApiError> {
        let mut backups = call.service.list_backups(paging::project(&call.caller, query)).await.map_err(failed)?;
        backups.retain(|backup| {
            is(query, "name", backup.name.as_deref().unwrap_or_default())
                && is(query, "status", &backup.status)
                && is(query, "volume_id", &backup.volume_id.to_string())
        });
        Ok(backups)
    }

    async fn show(call: &Call, id: &str) -> Result<Backup, ApiError> {
        call.service.own_backup(&call.caller.0, id_of::<Backup>(id)?).await.map_err(failed)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        require(&call.caller, "member")?;
        call.service.delete_backup(&call.caller.0, id_of::<Backup>(id)?, false).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        bodies::summary(&call.request, self)
    }

    fn detail(&self, call: &Call) -> Value {
        bodies::detail(call, self)
    }
}

impl Editable for Backup {
    type New = CreateBody;
    type Change = UpdateBody;
    const CREATED: StatusCode = StatusCode::ACCEPTED;

    async fn create(call: &Call, CreateBody { backup: fields }: CreateBody) -> Result<Backup, ApiError> {
        require(&call.caller, "member")?;
        let flag = |field, value: &Option<Value>| value.as_ref().map_or(Ok(false), |value| fields::flag(field, value));
        if flag("incremental", &fields.incremental)? {
            return Err(bad_request("Invalid backup: each backup here is a full one, so that none depends on another."));
        }
        let metadata = fields.metadata.unwrap_or_default();
        fields::check_metadata(&metadata)?;
        let new = NewBackup {
            id: call.service.env.uuid(),
            volume: fields::id(&fields.volume_id)?,
            snapshot: fields.snapshot_id.as_deref().map(fields::id).transpose()?,
            name: fields::text("name", fields.name)?,
            description: fields::text("description", fields.description)?,
            container: fields::text("container", fields.container)?.filter(|name| !name.is_empty()).unwrap_or_else(|| CONTAINER.to_owned()),
            metadata,
            caller: call.caller.0.clone(),
            force: flag("force", &fields.force)?,
        };
        let backup = call.service.new_backup(new).await.map_err(failed)?;
        // The bytes follow later: the client waits for the status available or error.
        let (volumes, id) = (call.service.clone(), backup.id);
        actix_web::rt::spawn(async move { volumes.fill_backup(id).await });
        Ok(backup)
    }

    async fn update(call: &Call, id: &str, UpdateBody { backup: fields }: UpdateBody) -> Result<Backup, ApiError> {
        if !call.version.at_least(UPDATE_SINCE) {
            return Err(ApiError::new(ErrorForm::Compute, StatusCode::NOT_FOUND, "The resource could not be found."));
        }
        require(&call.caller, "member")?;
        if let Some(metadata) = &fields.metadata {
            fields::check_metadata(metadata)?;
        }
        let update = BackupUpdate {
            name: fields::changed_text("name", fields.name)?,
            description: fields::changed_text("description", fields.description)?,
            metadata: fields.metadata,
        };
        call.service.update_backup(&call.caller.0, id_of::<Backup>(id)?, update).await.map_err(failed)
    }

    fn created(&self, call: &Call) -> Value {
        json!({"backup": self.view(call)})
    }
}

async fn restore(
    call: Call,
    env: web::Data<Env>,
    id: web::Path<String>,
    Json(RestoreBody { restore: fields }): Json<RestoreBody>,
) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "member")?;
    let id = id_of::<Backup>(&id)?;
    let target = match fields.volume_id {
        Some(volume) => RestoreTarget::Volume(fields::id(&volume)?),
        None => {
            let name = fields::text("name", fields.name)?.filter(|name| !name.is_empty());
            RestoreTarget::New { id: env.uuid(), name: name.unwrap_or_else(|| format!("{RESTORED}{id}")) }
        }
    };
    let restore = call.service.begin_restore(&call.caller.0, id, target).await.map_err(failed)?;
    let answer = json!({"backup_id": id, "volume_id": restore.volume.id, "volume_name": restore.volume.name});
    actix_web::rt::spawn(async move { call.service.finish_restore(restore).await });
    Ok(HttpResponse::Accepted().json(json!({"restore": answer})))
}

async fn act(call: Call, id: web::Path<String>, Json(body): Json<Map<String, Value>>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "admin")?;
    let id = Backup::show(&call, &id).await?.id;
    let (name, value) = named_action(body)?;
    match name.as_str() {
        "os-reset_status" => {
            let Status { status } = parameters(&name, value)?;
            call.service.reset_backup_status(id, &status).await.map_err(failed)?;
        }
        "os-force_delete" => call.service.delete_backup(&call.caller.0, id, true).await.map_err(failed)?,
        other => return Err(bad_request(format!("There is no such action: {other}"))),
    }
    Ok(HttpResponse::Accepted().finish())
}
