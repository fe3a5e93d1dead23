//! The block devices that an image describes: the image of a volume-backed server has no bytes and names snapshots of its volumes.

use serde_json::Value;

use super::device::{Device, IMAGE_DEVICES};
use crate::http::compute::answer::bad_request;
use crate::http::compute::servers::devices;
use crate::http::error::ApiError;
use crate::http::schema::is_true;
use crate::services::image::Image;

/// Returns the devices of the image's property `block_device_mapping`, in the form of a request. Users write properties too, so the devices
/// are checked as those of a request are.
pub fn of_image(image: &Image) -> Result<Vec<Device>, ApiError> {
    let is_current = image.properties.get("bdm_v2").is_some_and(|flag| is_true(flag));
    let Some(text) = image.properties.get("block_device_mapping").filter(|_| is_current) else { return Ok(Vec::new()) };
    let invalid = |why: &str| bad_request(format!("Block Device Mapping of image {} is Invalid: {why}", image.id));
    let mut devices: Value = serde_json::from_str(text).map_err(|_| invalid("it is no JSON."))?;
    for device in devices.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        device.retain(|_, value| !value.is_null());
    }
    IMAGE_DEVICES.check_value(&devices)?;
    serde_json::from_value(devices).map_err(|_| invalid("it is no list."))
}

/// True if a device takes the place of the image's root disk.
pub fn has_root(devices: &[Device]) -> bool {
    devices.iter().any(Device::is_root)
}

/// True if an image has no bytes of its own, because its root disk is a volume.
pub fn is_of_volumes(image: &Image) -> bool {
    of_image(image).is_ok_and(|devices| has_root(&devices))
}

/// Returns a request's devices and those of the image. A request's device replaces the image's device of that name, and a client's own entry
/// for the image's local disk gives way to the image's root.
pub fn merged(requested: &[Device], of_image: Vec<Device>) -> Vec<Device> {
    let name = |device: &Device| device.common.device_name.as_deref().map(devices::full);
    let replaced: Vec<String> = requested.iter().filter_map(name).collect();
    let devices: Vec<Device> = of_image.into_iter().filter(|device| name(device).is_none_or(|name| !replaced.contains(&name))).collect();
    let is_image_root = |device: &&Device| device.boot_index == Some(0) && device.source_type.as_deref() == Some("image");
    let has_root = has_root(&devices);
    let requested = requested.iter().filter(|device| !(has_root && is_image_root(device))).cloned();
    requested.chain(devices).collect()
}
