//! Checks the flavor and the image of a new or rebuilt server against each other.

use uuid::Uuid;

use super::image_devices;
use super::networks::service_error;
use crate::domain::context::RequestContext;
use crate::domain::flavor::Flavor;
use crate::http::compute::answer::bad_request;
use crate::http::error::ApiError;
use crate::services::ServiceError;
use crate::services::image::{Image, ImageService};

const GIB: i64 = 1 << 30;

/// The error message for an image that does not exist or that the caller may not know of.
pub const UNKNOWN: &str = "Can not find requested image";

/// Returns an image that the caller may use. If there is none, answers 400 with the message `unknown`.
pub async fn usable(service: &dyn ImageService, caller: &RequestContext, id: &str, unknown: &str) -> Result<Image, ApiError> {
    let uuid = Uuid::parse_str(id).map_err(|_| bad_request(unknown))?;
    let image = service.visible_image(caller, uuid).await.map_err(|error| match error {
        ServiceError::NotFound(_) => bad_request(unknown),
        other => service_error(other),
    })?;
    if image.status != "active" {
        return Err(bad_request(format!("Image {id} is not active.")));
    }
    Ok(image)
}

/// Answers 400 if no disk can be filled from the image, because its root disk is a volume.
fn check_has_bytes(image: &Image) -> Result<(), ApiError> {
    match image_devices::is_of_volumes(image) {
        true => {
            Err(bad_request(format!("Image {} has no bytes: it names snapshots of volumes, and only a new server can use it.", image.id)))
        }
        false => Ok(()),
    }
}

/// Answers 400 unless a new volume of this size can hold the image.
pub fn check_fits_volume(image: &Image, size_gb: i32) -> Result<(), ApiError> {
    check_has_bytes(image)?;
    let (has, wants) = (i64::from(size_gb) * GIB, (i64::from(image.min_disk) * GIB).max(image.size.unwrap_or(0)));
    if has < wants {
        return Err(bad_request(format!("Volume is too small for requested image. Volume size is {has} bytes, minimum is {wants} bytes.")));
    }
    Ok(())
}

/// Answers 400 unless the flavor meets the image's demands. The flavor's disk size does not matter for a volume-backed server.
pub fn check_fits(image: &Image, flavor: &Flavor, volume_backed: bool) -> Result<(), ApiError> {
    check_has_bytes(image)?;
    if image.min_ram > flavor.memory_mb {
        return Err(bad_request("Flavor's memory is too small for requested image."));
    }
    if volume_backed || flavor.root_gb == 0 {
        return Ok(());
    }
    if image.min_disk > flavor.root_gb {
        return Err(bad_request(format!(
            "The created instance's disk would be too small: the flavor's disk of {} GiB is smaller than the {} GiB that image {} asks for.",
            flavor.root_gb, image.min_disk, image.id
        )));
    }
    let size = image.size.unwrap_or(0);
    if size > i64::from(flavor.root_gb) * GIB {
        return Err(bad_request(format!(
            "Flavor's disk is too small for requested image. Flavor disk is {} bytes, image is {size} bytes.",
            i64::from(flavor.root_gb) * GIB
        )));
    }
    Ok(())
}
