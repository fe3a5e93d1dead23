//! The block devices that an image describes: the image of a volume-backed server has no bytes and names snapshots of its volumes.

use serde_json::Value;

use crate::http::compute::answer::bad_request;
use crate::http::compute::servers::{devices, schemas};
use crate::http::error::ApiError;
use crate::http::schema::{as_bool, is_true, number};
use crate::services::image::Image;

/// Returns the devices of the image's property `block_device_mapping`, in the form of a request. Users write properties too, so the devices
/// are checked as those of a request are.
pub fn of_image(image: &Image) -> Result<Vec<Value>, ApiError> {
    let is_current = image.properties.get("bdm_v2").is_some_and(|flag| is_true(flag));
    let Some(text) = image.properties.get("block_device_mapping").filter(|_| is_current) else { return Ok(Vec::new()) };
    let invalid = |why: &str| bad_request(format!("Block Device Mapping of image {} is Invalid: {why}", image.id));
    let mut found: Value = serde_json::from_str(text).map_err(|_| invalid("it is no JSON."))?;
    for device in found.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        device.retain(|_, value| !value.is_null());
    }
    schemas::IMAGE_DEVICES.check_value(&found)?;
    match found {
        Value::Array(found) => Ok(found),
        _ => Err(invalid("it is no list.")),
    }
}

/// True if a device takes the place of the image's root disk.
pub fn has_root(devices: &[Value]) -> bool {
    devices.iter().any(|device| boot_index(device) == Some(0) && !device.get("no_device").is_some_and(as_bool))
}

/// True if an image has no bytes of its own, because its root disk is a volume.
pub fn is_of_volumes(image: &Image) -> bool {
    of_image(image).is_ok_and(|devices| has_root(&devices))
}

/// Returns a request's devices and those of the image. A request's device replaces the image's device of that name, and a client's own entry
/// for the image's local disk gives way to the image's root.
pub fn merged(requested: &[Value], of_image: Vec<Value>) -> Vec<Value> {
    let name = |device: &Value| device["device_name"].as_str().map(devices::full);
    let replaced: Vec<String> = requested.iter().filter_map(name).collect();
    let kept: Vec<Value> = of_image.into_iter().filter(|device| name(device).is_none_or(|name| !replaced.contains(&name))).collect();
    let is_image_root = |device: &&Value| boot_index(device) == Some(0) && device["source_type"] == "image";
    let has_root = has_root(&kept);
    let requested = requested.iter().filter(|device| !(has_root && is_image_root(device))).cloned();
    requested.chain(kept).collect()
}

fn boot_index(device: &Value) -> Option<i64> {
    number(&device["boot_index"])
}
