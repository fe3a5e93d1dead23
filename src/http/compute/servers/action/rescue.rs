//! Rescue and unrescue: a server boots from another image beside its own disks, so that its user can mend those.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::ActionRequest;
use super::evacuate::config_drive;
use crate::cell_registry::ServerRecord;
use crate::domain::guest_secrets::GuestSecrets;
use crate::domain::secret::Secret;
use crate::http::compute::answer::{Answer, bad_request, empty};
use crate::http::compute::body::rules::UuidText;
use crate::http::compute::body::{ALWAYS, Anything, Body, Lenient, SecretText};
use crate::http::compute::servers::create::{image, password};
use crate::http::compute::servers::{access, quota};
use crate::http::error::ApiError;
use crate::saga::context::{Request, RescueRequest};
use crate::services::image::Image;

const RULE: &str = "os_compute_api:os-rescue";

pub(super) static RESCUE: Body<Lenient<Rescue>> = Body::within("rescue", ALWAYS);
pub(super) static UNRESCUE: Body<Anything> = Body::within("unrescue", ALWAYS);

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("type" = ["object", "null"]))]
pub(super) struct Rescue {
    #[serde(default, rename = "adminPass")]
    #[schemars(with = "String")]
    admin_pass: Option<SecretText>,
    #[serde(default)]
    #[schemars(with = "UuidText")]
    rescue_image_ref: Option<String>,
}

pub(super) async fn rescue(action: &ActionRequest<'_>) -> Answer {
    let Lenient(Rescue { admin_pass, rescue_image_ref }) = action.read(&RESCUE).await?;
    let located = action.api.locate_unlocked(action.caller, action.id, RULE).await?;
    access::require_no_task(&located.instance, "rescue")?;
    let before = action.api.load(action.caller, action.id, RULE).await?;
    let image = rescue_image(action, &before, rescue_image_ref.as_deref()).await?;
    let admin_pass = admin_pass.map_or_else(|| Secret::new(password(action.api.env.uuid())), |text| text.0);
    let secrets = GuestSecrets { admin_pass: Some(admin_pass.clone()), ..GuestSecrets::default() };
    let sealed = secrets.sealed(|bytes| action.api.env.seal(bytes));
    quota::check_first_boot(&before.metadata, &sealed)?;
    let request = RescueRequest { image_id: image.id, config_drive: config_drive(&before), sealed: Some(sealed) };
    action.api.begin(action.caller, &located.instance, Request::Rescue(Box::new(request))).await?;
    let answer = if action.api.options.enable_instance_password { json!({"adminPass": admin_pass.expose()}) } else { json!({}) };
    Ok(HttpResponse::Ok().json(answer))
}

/// Returns the image of the request, or the server's own. A server that boots from a volume is rescued from 2.87 on, with an image that says
/// how its disk comes beside the volume.
async fn rescue_image(action: &ActionRequest<'_>, server: &ServerRecord, requested: Option<&str>) -> Result<Image, ApiError> {
    let on_volume = server.instance.is_volume_backed();
    if on_volume && !action.version.at_least(87) {
        return Err(bad_request("Cannot rescue a volume-backed instance"));
    }
    let id = requested.unwrap_or(&server.instance.image_ref);
    if id.is_empty() {
        return Err(bad_request("Cannot rescue a volume-backed instance without a rescue image"));
    }
    let image = image::usable(&*action.api.images, action.caller, id, "Cannot find image for rescue").await?;
    let beside = ["hw_rescue_device", "hw_rescue_bus"].iter().any(|name| image.properties.contains_key(*name));
    if on_volume && !beside {
        return Err(bad_request(format!(
            "Cannot rescue a volume-backed instance with image {}: it has neither hw_rescue_device nor hw_rescue_bus",
            image.id
        )));
    }
    image::check_fits(&image, &server.instance.flavor, on_volume)?;
    Ok(image)
}

pub(super) async fn unrescue(action: &ActionRequest<'_>) -> Answer {
    action.read(&UNRESCUE).await?;
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:os-unrescue").await?;
    action.api.begin(action.caller, &located.instance, Request::Unrescue).await?;
    empty(StatusCode::ACCEPTED)
}
