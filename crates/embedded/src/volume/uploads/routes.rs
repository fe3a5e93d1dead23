//! The action `os-volume_upload_image`: an image with a volume's bytes.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::microversion::ApiVersion;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::image::limits::ATTRIBUTES;
use crate::image::{EmbeddedImage, NewImage};
use crate::volume::routes::{Call, bad_request, failed, time};
use crate::volume::{Volume, fields};

/// The only format: no bytes are converted.
const FORMAT: &str = "raw";
/// Further keys of a volume's image metadata that are no properties of the image.
const ABOUT_THE_IMAGE: [&str; 2] = ["image_id", "image_name"];

#[derive(Deserialize, JsonSchema)]
pub(in crate::volume) struct Fields {
    image_name: String,
    disk_format: Option<String>,
    container_format: Option<String>,
    /// Has no effect, as in Cinder by default: a volume in use cannot be uploaded.
    force: Option<Value>,
    /// From 3.1.
    visibility: Option<String>,
    /// From 3.1.
    protected: Option<Value>,
}

/// Makes a queued image, and stores the volume's bytes in it later: the client waits for the image's status.
pub(in crate::volume) async fn begin(
    call: Call,
    images: web::Data<EmbeddedImage>,
    id: Uuid,
    fields: Fields,
) -> Result<HttpResponse, ApiError> {
    let volumes = call.service;
    let mut new = read_new(&fields, call.version)?;
    let volume = volumes.begin_upload(&call.caller.0, id).await.map_err(failed)?;
    new.min_disk = volume.size_gb;
    new.properties = properties(&volume);
    let image = match images.create(&call.caller.0, new).await {
        Ok(image) => image,
        Err(error) => {
            volumes.end_upload(id).await.map_err(failed)?;
            return Err(failed(error));
        }
    };
    let mut body = json!({
        "id": volume.id,
        "status": volume.status,
        "size": volume.size_gb,
        "display_description": volume.description,
        "updated_at": volume.updated_at.map(time),
        "volume_type": {"id": volume.volume_type_id, "name": volume.volume_type},
        "image_id": image.id,
        "image_name": image.name,
        "disk_format": image.disk_format,
        "container_format": image.container_format,
    });
    if call.version.at_least(1) {
        body["visibility"] = json!(image.visibility);
        body["protected"] = json!(image.protected);
    }
    actix_web::rt::spawn(async move {
        if let Err(error) = volumes.upload_to(id, image.id).await {
            // Protection is for an image with bytes.
            let removed = images.delete_unfinished(image.id).await;
            log::warn!(volume:% = id, image:% = image.id; "a volume could not be uploaded: {error}; deleting its image: {:?}", removed.err());
        }
    });
    Ok(HttpResponse::Accepted().json(json!({"os-volume_upload_image": body})))
}

fn read_new(fields: &Fields, version: ApiVersion) -> Result<NewImage, ApiError> {
    if let Some(force) = &fields.force {
        fields::flag("force", force)?;
    }
    let name = fields::text("image_name", Some(fields.image_name.clone()))?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| bad_request("Invalid input for field/attribute image_name: it is empty."))?;
    let format = fields.disk_format.clone().unwrap_or_else(|| FORMAT.to_owned());
    if format != FORMAT {
        return Err(bad_request(format!("A volume can be uploaded as {FORMAT} only: this service converts no bytes to {format}.")));
    }
    let later = fields.visibility.is_some() || fields.protected.is_some();
    if later && !version.at_least(1) {
        return Err(bad_request("Additional properties are not allowed: visibility and protected come with microversion 3.1."));
    }
    Ok(NewImage {
        name: Some(name),
        disk_format: Some(format),
        container_format: Some(fields.container_format.clone().unwrap_or_else(|| "bare".to_owned())),
        visibility: fields.visibility.clone().or_else(|| version.at_least(1).then(|| "private".to_owned())),
        protected: fields.protected.as_ref().map(|flag| fields::flag("protected", flag)).transpose()?.unwrap_or_default(),
        ..NewImage::default()
    })
}

/// Returns the properties of the image that the volume's bytes come from.
fn properties(volume: &Volume) -> BTreeMap<String, String> {
    let is_property = |key: &str| !ATTRIBUTES.contains(&key) && !ABOUT_THE_IMAGE.contains(&key);
    volume.image_metadata.iter().filter(|(key, _)| is_property(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}
