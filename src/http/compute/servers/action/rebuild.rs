//! Rebuild: a fresh root disk for a server that keeps its name and addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::HttpResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

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
use crate::http::compute::body::rules::{UuidText, rules};
use crate::http::compute::body::{Body, Flag, SecretText, nullable};
use crate::http::compute::quota_usage::Holder;
use crate::http::compute::servers::create::body::File;
use crate::http::compute::servers::create::networks::service_error;
use crate::http::compute::servers::create::{image, password, system_metadata};
use crate::http::compute::servers::rules::{MAX_ENTRIES, MetadataMap, TrustedCertificates, WordOrNull, user_data};
use crate::http::compute::servers::update::OwnFields;
use crate::http::compute::servers::view::Purpose;
use crate::http::compute::servers::{access, quota};
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::saga::context::{RebuildRequest, Request};
use crate::services::image::Image;
use crate::services::volume::Volume;

pub(super) static REBUILD: Body<Rebuild> = Body::within("rebuild", &[1, 19, 54, 57, 63, 90, 94]);

rules! {
    /// New user data of the guest. Null removes them.
    UserDataOrNull = json!({"oneOf": [user_data(), {"type": "null"}]});
}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(super) struct Rebuild {
    #[serde(flatten)]
    own: OwnFields,
    #[serde(rename = "imageRef")]
    #[schemars(with = "UuidText")]
    image: String,
    #[serde(default, rename = "adminPass")]
    #[schemars(with = "String")]
    admin_pass: Option<SecretText>,
    #[serde(default)]
    #[schemars(with = "MetadataMap")]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    preserve_ephemeral: Flag,
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "WordOrNull", extend("since" = 54))]
    key_name: Option<Option<String>>,
    #[serde(default)]
    #[schemars(extend("until" = 57, "maxItems" = MAX_ENTRIES))]
    personality: Vec<File>,
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "UserDataOrNull", extend("since" = 57))]
    user_data: Option<Option<SecretText>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "TrustedCertificates", extend("since" = 63))]
    trusted_image_certificates: Option<Option<Vec<String>>>,
}

pub(super) async fn rebuild(action: &ActionRequest<'_>) -> Answer {
    let mut body = action.read(&REBUILD).await?;
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:servers:rebuild").await?;
    if body.preserve_ephemeral.0 {
        return Err(bad_request("preserve_ephemeral is not supported: a rebuild makes the ephemeral disks of a server anew."));
    }
    if body.trusted_image_certificates.is_some() {
        let rule = "os_compute_api:servers:rebuild:trusted_certs";
        action.api.policy.authorize(rule, action.caller, &access::target(&located.instance))?;
    }
    access::require_no_task(&located.instance, "rebuild")?;
    let files: Vec<InjectedFile> = std::mem::take(&mut body.personality).into_iter().map(InjectedFile::from).collect();
    let items = body.metadata.as_ref().map_or(0, BTreeMap::len);
    quota::check_rebuild(action.catalog, Holder::of_writer(action.caller, &located.instance), items, &files).await?;
    let before = action.api.load(action.caller, action.id, "os_compute_api:servers:rebuild").await?;
    let root = root_volume(action, &before).await?;
    let image = usable_image(action, &located.instance, root.as_ref(), &body.image).await?;
    let reimages_root_volume = root.is_some() && reimages(action.version);
    let key = key_pair(action, body.key_name.as_ref()).await?;
    let admin_pass = body.admin_pass.take().map_or_else(|| Secret::new(password(action.api.env.uuid())), |text| text.0);
    // A null removes the guest's user data, as an empty text does.
    let user_data = body.user_data.clone().map(|text| text.unwrap_or_default().0);
    let sealed = sealed(action, GuestSecrets { admin_pass: Some(admin_pass.clone()), user_data, files }).await;
    quota::check_first_boot(body.metadata.as_ref().unwrap_or(&before.metadata), &sealed)?;
    let request = RebuildRequest { sealed: Some(sealed), reimages_root_volume, ..rebuild_request(&before, &body, &image, key.as_ref()) };
    action.api.begin(action.caller, &located.instance, Request::Rebuild(Box::new(request))).await?;
    let new_image = (root.is_none() || reimages_root_volume).then_some(&image);
    keep_rest(action, &located, body, new_image, key).await?;
    let mut server = action.api.load(action.caller, action.id, "os_compute_api:servers:rebuild").await?;
    if !server.instance.is_volume_backed() {
        // The answer shows the new image now; the record gets it when the disk is made.
        Arc::make_mut(&mut server).instance.image_ref = image.id.to_string();
    }
    let mut view = action.api.view(action.caller, &action.base, action.version, Purpose::Rebuild, &server).await?;
    if action.api.options.enable_instance_password {
        view["adminPass"] = json!(admin_pass.expose());
    }
    let location = format!("{}/compute/v2.1/servers/{}", action.base, server.instance.uuid);
    Ok(HttpResponse::Accepted().insert_header(("Location", location)).json(json!({"server": view})))
}

/// Seals the guest's secrets, off the worker if they may be large.
async fn sealed(action: &ActionRequest<'_>, secrets: GuestSecrets) -> Sealed {
    let env = action.api.env.clone();
    action.body.judge(move |_| secrets.sealed(|bytes| env.seal(bytes))).await
}

/// True if a rebuild fills the root volume again: from 2.93 on. Before, it keeps the volume's bytes.
fn reimages(version: ApiVersion) -> bool {
    version.at_least(93)
}

async fn usable_image(action: &ActionRequest<'_>, instance: &Instance, root: Option<&Volume>, id: &str) -> Result<Image, ApiError> {
    let image = image::usable(&*action.api.images, action.caller, id, "Cannot find image for rebuild").await?;
    image::check_fits(&image, &instance.flavor, root.is_some())?;
    match root {
        Some(volume) if reimages(action.version) => {
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
async fn root_volume(action: &ActionRequest<'_>, server: &ServerRecord) -> Result<Option<Volume>, ApiError> {
    if !server.instance.is_volume_backed() {
        return Ok(None);
    }
    let root = server.block_devices.iter().find(|device| device.boot_index == Some(0)).and_then(|device| device.volume_id);
    let missing = || bad_request(format!("Server {} has no root volume.", server.instance.uuid));
    Ok(Some(action.api.volumes.volume(root.ok_or_else(missing)?).await.map_err(service_error)?))
}

/// Returns the new key with this name. `Some(None)` removes the key.
async fn key_pair(action: &ActionRequest<'_>, name: Option<&Option<String>>) -> Result<Option<Option<KeyPair>>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let Some(name) = name else { return Ok(Some(None)) };
    match action.api.registry.api().key_pair(&action.caller.user_id, name).await {
        Ok(key) => Ok(Some(Some(key))),
        Err(DbError::NotFound(_)) => Err(bad_request("Invalid key_name provided.")),
        Err(error) => Err(error.into()),
    }
}

fn rebuild_request(before: &ServerRecord, body: &Rebuild, image: &Image, key: Option<&Option<KeyPair>>) -> RebuildRequest {
    let edits = body.own.change();
    let instance = &before.instance;
    let metadata = body.metadata.clone();
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
    action: &ActionRequest<'_>,
    located: &Located,
    body: Rebuild,
    new_image: Option<&Image>,
    key: Option<Option<KeyPair>>,
) -> Result<(), ApiError> {
    let mut edits = body.own.change();
    if let Some(key) = key {
        edits.key_name = Some(key.as_ref().map(|key| key.name.clone()));
        edits.key_data = Some(key.as_ref().map(|key| key.public_key.clone()));
        edits.keypair = Some(key.as_ref().map(|key| json!(key)));
    }
    edits.user_data = body.user_data.map(|text| text.map(|text| text.0.expose().clone()));
    edits.trusted_certs = body.trusted_image_certificates;
    if let Some(image) = new_image {
        let mut metadata = located.instance.system_metadata.clone();
        metadata.retain(|key, _| !key.starts_with("image_"));
        metadata.extend(system_metadata(image));
        edits.system_metadata = Some(metadata);
    }
    Ok(action.api.registry.change_instance_and_metadata(located, edits, body.metadata).await?)
}
