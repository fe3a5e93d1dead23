//! Rescue and unrescue: a server boots from another image beside its own disks, so that its user can mend those.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use serde_json::json;

use super::ActionRequest;
use super::evacuate::config_drive;
use crate::cell_registry::ServerRecord;
use crate::domain::guest_secrets::GuestSecrets;
use crate::domain::secret::Secret;
use crate::http::compute::answer::{Answer, bad_request, empty};
use crate::http::compute::servers::create::{image, password};
use crate::http::compute::servers::{access, schemas};
use crate::http::error::ApiError;
use crate::saga::context::{Request, RescueRequest};
use crate::services::image::Image;

const RULE: &str = "os_compute_api:os-rescue";

pub(super) async fn rescue(asked: &ActionRequest<'_>) -> Answer {
    schemas::RESCUE.check(asked.version, asked.body).await?;
    let located = asked.api.locate_unlocked(asked.caller, asked.id, RULE).await?;
    access::require_no_task(&located.instance, "rescue")?;
    let before = asked.api.load(asked.caller, asked.id, RULE).await?;
    let image = rescue_image(asked, &before).await?;
    let given = asked.body["rescue"]["adminPass"].as_str().map(str::to_owned);
    let admin_pass = Secret::new(given.unwrap_or_else(|| password(asked.api.env.uuid())));
    let secrets = GuestSecrets { admin_pass: Some(admin_pass.clone()), ..GuestSecrets::default() };
    let sealed = Some(secrets.sealed(|bytes| asked.api.env.seal(bytes)));
    let request = RescueRequest { image_id: image.id, config_drive: config_drive(&before), sealed };
    asked.api.begin(asked.caller, &located.instance, Request::Rescue(Box::new(request))).await?;
    let answer = if asked.api.options.enable_instance_password { json!({"adminPass": admin_pass.expose()}) } else { json!({}) };
    Ok(HttpResponse::Ok().json(answer))
}

/// Returns the image of the request, or the server's own. A server that boots from a volume is rescued from 2.87 on, with an image that says
/// how its disk comes beside the volume.
async fn rescue_image(asked: &ActionRequest<'_>, server: &ServerRecord) -> Result<Image, ApiError> {
    let on_volume = server.instance.is_volume_backed();
    if on_volume && !asked.version.at_least(87) {
        return Err(bad_request("Cannot rescue a volume-backed instance"));
    }
    let named = asked.body["rescue"]["rescue_image_ref"].as_str().unwrap_or(&server.instance.image_ref);
    if named.is_empty() {
        return Err(bad_request("Cannot rescue a volume-backed instance without a rescue image"));
    }
    let image = image::usable(&*asked.api.images, asked.caller, named, "Cannot find image for rescue").await?;
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

pub(super) async fn unrescue(asked: &ActionRequest<'_>) -> Answer {
    schemas::UNRESCUE.check(asked.version, asked.body).await?;
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:os-unrescue").await?;
    asked.api.begin(asked.caller, &located.instance, Request::Unrescue).await?;
    empty(StatusCode::ACCEPTED)
}
