//! Flavor and image of a new or rebuilt server, judged against each other (spec §3).

use uuid::Uuid;

use super::networks::service_error;
use crate::domain::context::RequestContext;
use crate::domain::flavor::Flavor;
use crate::http::compute::answer::bad_request;
use crate::http::error::ApiError;
use crate::services::ServiceError;
use crate::services::image::{Image, ImageService};

const GIB: i64 = 1 << 30;

/// An image that the caller may use; `unknown` is the 400 when there is none.
pub async fn usable(service: &dyn ImageService, caller: &RequestContext, id: Uuid, unknown: &str) -> Result<Image, ApiError> {
    let image = match service.image(id).await {
        Ok(image) if may_use(&image, caller) => image,
        Ok(_) | Err(ServiceError::NotFound(_)) => return Err(bad_request(unknown)),
        Err(error) => return Err(service_error(error)),
    };
    if image.status != "active" {
        return Err(bad_request(format!("Image {id} is not active.")));
    }
    Ok(image)
}

/// True when the caller may boot from the image.
pub fn may_use(image: &Image, caller: &RequestContext) -> bool {
    caller.is_admin()
        || image.owner == caller.project_id
        || matches!(image.visibility.as_str(), "public" | "community")
        || (image.visibility == "shared" && image.members.contains(&caller.project_id))
}

/// 400 unless the flavor has what the image asks for. The disk of a volume-backed server is the volume's affair.
pub fn check_fits(image: &Image, flavor: &Flavor, volume_backed: bool) -> Result<(), ApiError> {
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
