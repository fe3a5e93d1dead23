//! Rebuild: a fresh root disk for a server that keeps its name and addresses.

use std::sync::Arc;

use actix_web::HttpResponse;
use serde_json::{Value, json};

use super::ActionRequest;
use crate::cell_registry::{Located, ServerRecord};
use crate::db::DbError;
use crate::domain::config_drive::ConfigDrive;
use crate::domain::guest_secrets::{GuestSecrets, InjectedFile};
use crate::domain::instance::Instance;
use crate::domain::key_pair::KeyPair;
use crate::domain::request_spec::image_demands;
use crate::domain::secret::{Sealed, Secret};
use crate::http::compute::answer::{Answer, bad_request};
use crate::http::compute::quota_usage::Holder;
use crate::http::compute::servers::create::networks::service_error;
use crate::http::compute::servers::create::request::strings;
use crate::http::compute::servers::create::{image, password, system_metadata};
use crate::http::compute::servers::update::change;
use crate::http::compute::servers::view::Purpose;
use crate::http::compute::servers::{access, quota, schemas};
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::http::schema::as_bool;
use crate::saga::context::{RebuildRequest, Request};
use crate::services::image::Image;
use crate::services::volume::Volume;

pub(super) async fn rebuild(asked: &ActionRequest<'_>) -> Answer {
    schemas::REBUILD.check(asked.version, asked.body).await?;
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:servers:rebuild").await?;
    let wanted = &asked.body["rebuild"];
    if as_bool(&wanted["preserve_ephemeral"]) {
        return Err(bad_request("preserve_ephemeral is not supported: a rebuild makes the ephemeral disks of a server anew."));
    }
    if wanted.get("trusted_image_certificates").is_some() {
        let rule = "os_compute_api:servers:rebuild:trusted_certs";
        asked.api.policy.authorize(rule, asked.caller, &access::target(&located.instance))?;
    }
    access::require_no_task(&located.instance, "rebuild")?;
    quota::check_rebuild(asked.catalog, Holder::of_writer(asked.caller, &located.instance), wanted).await?;
    let before = asked.api.load(asked.caller, asked.id, "os_compute_api:servers:rebuild").await?;
    let root = root_volume(asked, &before).await?;
    let image = usable_image(asked, &located.instance, root.as_ref(), wanted).await?;
    let reimages_root_volume = root.is_some() && reimages(asked.version);
    let key = key_pair(asked, wanted).await?;
    let given = wanted["adminPass"].as_str().map(str::to_owned);
    let admin_pass = Secret::new(given.unwrap_or_else(|| password(asked.api.env.uuid())));
    let sealed = Some(sealed(asked, &admin_pass).await);
    let request = RebuildRequest { sealed, reimages_root_volume, ..rebuild_request(&before, wanted, &image, key.as_ref()) };
    asked.api.begin(asked.caller, &located.instance, Request::Rebuild(Box::new(request))).await?;
    let new_image = (root.is_none() || reimages_root_volume).then_some(&image);
    keep_rest(asked, &located, wanted, new_image, key).await?;
    let mut server = asked.api.load(asked.caller, asked.id, "os_compute_api:servers:rebuild").await?;
    if !server.instance.is_volume_backed() {
        // The answer shows the new image now; the record gets it when the disk is made.
        Arc::make_mut(&mut server).instance.image_ref = image.id.to_string();
    }
    let mut view = asked.api.view(asked.caller, &asked.base, asked.version, Purpose::Rebuild, &server).await?;
    if asked.api.options.enable_instance_password {
        view["adminPass"] = json!(admin_pass.expose());
    }
    let location = format!("{}/compute/v2.1/servers/{}", asked.base, server.instance.uuid);
    Ok(HttpResponse::Accepted().insert_header(("Location", location)).json(json!({"server": view})))
}

async fn sealed(asked: &ActionRequest<'_>, admin_pass: &Secret<String>) -> Sealed {
    let (env, admin_pass) = (asked.api.env.clone(), Some(admin_pass.clone()));
    let seal = move |body: &Value| {
        let wanted = &body["rebuild"];
        // A null removes the guest's user data, as an empty text does.
        let user_data = wanted.get("user_data").map(|text| Secret::new(text.as_str().unwrap_or_default().to_owned()));
        let secrets = GuestSecrets { admin_pass, user_data, files: InjectedFile::list(&wanted["personality"]) };
        secrets.sealed(|bytes| env.seal(bytes))
    };
    asked.body.judge(seal).await
}

/// True if a rebuild fills the root volume again: from 2.93 on. Before, it keeps the volume's bytes.
fn reimages(version: ApiVersion) -> bool {
    version.at_least(93)
}

async fn usable_image(asked: &ActionRequest<'_>, instance: &Instance, root: Option<&Volume>, wanted: &Value) -> Result<Image, ApiError> {
    let named = wanted["imageRef"].as_str().unwrap_or_default();
    let image = image::usable(&*asked.api.images, asked.caller, named, "Cannot find image for rebuild").await?;
    image::check_fits(&image, &instance.flavor, root.is_some())?;
    match root {
        Some(volume) if reimages(asked.version) => {
            image::check_fits_volume(&image, volume.size_gb)?;
            if volume.multiattach {
                return Err(bad_request("Unable to rebuild a server whose root volume can be attached to several servers."));
            }
        }
        Some(volume) if volume.image_id != Some(image.id) => {
            return Err(bad_request("Unable to rebuild with a different image for a volume-backed server."));
        }
        _ => {}
    }
    Ok(image)
}

/// Returns the server's root volume, if it boots from one.
async fn root_volume(asked: &ActionRequest<'_>, server: &ServerRecord) -> Result<Option<Volume>, ApiError> {
    if !server.instance.is_volume_backed() {
        return Ok(None);
    }
    let root = server.block_devices.iter().find(|device| device.boot_index == Some(0)).and_then(|device| device.volume_id);
    let missing = || bad_request(format!("Server {} has no root volume.", server.instance.uuid));
    Ok(Some(asked.api.volumes.volume(root.ok_or_else(missing)?).await.map_err(service_error)?))
}

/// Returns the new key. `Some(None)` removes the key.
async fn key_pair(asked: &ActionRequest<'_>, wanted: &Value) -> Result<Option<Option<KeyPair>>, ApiError> {
    let Some(name) = wanted.get("key_name") else { return Ok(None) };
    let Some(name) = name.as_str() else { return Ok(Some(None)) };
    match asked.api.registry.api().key_pair(&asked.caller.user_id, name).await {
        Ok(key) => Ok(Some(Some(key))),
        Err(DbError::NotFound(_)) => Err(bad_request("Invalid key_name provided.")),
        Err(error) => Err(error.into()),
    }
}

fn rebuild_request(before: &ServerRecord, wanted: &Value, image: &Image, key: Option<&Option<KeyPair>>) -> RebuildRequest {
    let edits = change(wanted);
    let instance = &before.instance;
    let metadata = wanted.get("metadata").map(strings);
    let config_drive = ConfigDrive {
        uuid: instance.uuid,
        name: edits.display_name.as_deref().unwrap_or(&instance.display_name),
        hostname: edits.hostname.as_ref().and_then(Option::as_deref).or(instance.hostname.as_deref()),
        launch_index: instance.launch_index,
        availability_zone: instance.availability_zone.as_deref(),
        metadata: metadata.as_ref().unwrap_or(&before.metadata),
        key: match key {
            Some(key) => key.as_ref().map(|key| (key.name.as_str(), key.public_key.as_str())),
            None => instance.key_name.as_deref().zip(instance.key_data.as_deref()),
        },
    }
    .to_json();
    RebuildRequest {
        image_id: image.id,
        image_properties: image_demands(&image.properties),
        reimages_root_volume: false,
        name: edits.display_name,
        description: edits.display_description,
        metadata,
        key_name: key.map(|key| key.as_ref().map(|key| key.name.clone())),
        config_drive,
        sealed: None,
    }
}

/// Writes the changes of a rebuild that the operation does not write.
async fn keep_rest(
    asked: &ActionRequest<'_>,
    located: &Located,
    wanted: &Value,
    new_image: Option<&Image>,
    key: Option<Option<KeyPair>>,
) -> Result<(), ApiError> {
    let mut edits = change(wanted);
    if let Some(key) = key {
        edits.key_name = Some(key.as_ref().map(|key| key.name.clone()));
        edits.key_data = Some(key.as_ref().map(|key| key.public_key.clone()));
        edits.keypair = Some(key.as_ref().map(|key| json!(key)));
    }
    edits.user_data = wanted.get("user_data").map(|text| text.as_str().map(str::to_owned));
    edits.trusted_certs = wanted.get("trusted_image_certificates").map(|certs| {
        let names = certs.as_array()?.iter().filter_map(|name| name.as_str().map(str::to_owned));
        Some(names.collect())
    });
    if let Some(image) = new_image {
        let mut kept = located.instance.system_metadata.clone();
        kept.retain(|key, _| !key.starts_with("image_"));
        kept.extend(system_metadata(image));
        edits.system_metadata = Some(kept);
    }
    let metadata = wanted.get("metadata").map(strings);
    Ok(asked.api.registry.change_instance_and_metadata(located, edits, metadata).await?)
}
