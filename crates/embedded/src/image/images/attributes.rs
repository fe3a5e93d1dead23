//! An image's attributes as JSON. Custom properties stand beside the standard attributes at the top level.

use std::collections::{BTreeSet, HashSet};

use cellshift_domain::reason;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::ServiceError;
use crate::image::Image;
use crate::image::NewImage;
use crate::image::routes::time;

/// A step of a JSON patch (RFC 6902). Only `add`, `replace` and `remove` are supported.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(in crate::image) enum Step {
    /// The form of RFC 6902.
    Named(Operation),
    /// The older form of Glance 2.0, whose key is the operation.
    Keyed(Map<String, Value>),
}

/// The effect of a step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(in crate::image) struct Operation {
    op: String,
    path: String,
    #[serde(default)]
    value: Value,
}

impl Step {
    /// Returns the step's effect. 400 unless it has the form of the patch.
    pub(in crate::image) fn operation(self, is_older: bool) -> Result<Operation, ServiceError> {
        let wrong = || ServiceError::Invalid("A step of a patch needs an operation, a path and, unless it removes, a value.".into());
        match self {
            Step::Named(operation) if !is_older => Ok(operation),
            Step::Keyed(mut step) if is_older => {
                let value = step.remove("value").unwrap_or_default();
                let mut fields = step.into_iter();
                match (fields.next(), fields.next()) {
                    (Some((op, Value::String(path))), None) => Ok(Operation { op, path, value }),
                    _ => Err(wrong()),
                }
            }
            _ => Err(wrong()),
        }
    }
}

/// The attribute that only the creation of an image may name.
const ID: &str = "id";

/// The attributes that only the service sets.
pub const READ_ONLY: [&str; 14] = [
    "status",
    "size",
    "virtual_size",
    "checksum",
    "os_hash_algo",
    "os_hash_value",
    "created_at",
    "updated_at",
    "self",
    "file",
    "schema",
    "direct_url",
    "locations",
    ID,
];
/// The attributes that each image has, and that a patch cannot remove.
pub const STANDARD: [&str; 10] =
    ["name", "visibility", "owner", "disk_format", "container_format", "min_disk", "min_ram", "protected", "os_hidden", "tags"];
/// The store of all images.
pub(in crate::image) const STORE: &str = "file";

/// Returns the fields of a body that makes an image: its attributes, and properties with names of the caller's choice.
pub(in crate::image) fn fields_of_new() -> BTreeSet<String> {
    STANDARD.into_iter().chain([ID, "*"]).map(str::to_owned).collect()
}

/// Returns the API's view of an image.
pub(in crate::image) fn render(image: &Image) -> Value {
    let own = format!("/v2/images/{}", image.id);
    // Staged bytes are not the image's yet.
    let (size, hash) = match image.has_bytes() {
        true => (image.size, image.os_hash_value.as_ref()),
        false => (None, None),
    };
    let mut body = json!({
        "id": image.id,
        "name": image.name,
        "status": image.status,
        "visibility": image.visibility,
        "owner": image.owner,
        "disk_format": image.disk_format,
        "container_format": image.container_format,
        "min_disk": image.min_disk,
        "min_ram": image.min_ram,
        "size": size,
        "virtual_size": null,
        // `os_hash_value` replaces it.
        "checksum": null,
        "os_hash_algo": hash.map(|_| "sha256"),
        "os_hash_value": hash,
        "os_hidden": image.hidden,
        "protected": image.protected,
        "tags": image.tags,
        "created_at": time(image.created_at.naive_utc()),
        "updated_at": time(image.updated_at.naive_utc()),
        "file": format!("{own}/file"),
        "self": own,
        "schema": "/v2/schemas/image",
    });
    if image.has_bytes() {
        body["stores"] = json!(STORE);
    }
    for (key, value) in &image.properties {
        // No property can hide a standard attribute, because requests cannot set a property of that name.
        body[key] = json!(value);
    }
    body
}

/// Parses the body of a request that makes an image.
pub(in crate::image) fn read_new(mut body: Map<String, Value>) -> Result<NewImage, ServiceError> {
    let mut new = NewImage::default();
    if let Some(id) = body.remove(ID) {
        let id = id.as_str().and_then(|id| uuid::Uuid::parse_str(id).ok());
        new.id = Some(id.ok_or_else(|| ServiceError::Invalid("Attribute 'id' must be a UUID.".into()))?);
    }
    for (key, value) in body {
        match key.as_str() {
            "name" => new.name = optional_text(&key, &value)?,
            "visibility" => new.visibility = Some(text(&key, &value)?),
            "owner" => new.owner = optional_text(&key, &value)?,
            "disk_format" => new.disk_format = optional_text(&key, &value)?,
            "container_format" => new.container_format = optional_text(&key, &value)?,
            "min_disk" => new.min_disk = number(&key, &value)?,
            "min_ram" => new.min_ram = number(&key, &value)?,
            "protected" => new.protected = flag(&key, &value)?,
            "os_hidden" => new.hidden = flag(&key, &value)?,
            "tags" => new.tags = tags(&value)?,
            _ if READ_ONLY.contains(&key.as_str()) => return Err(read_only(&key)),
            _ => {
                new.properties.insert(key.clone(), text(&key, &value)?);
            }
        }
    }
    Ok(new)
}

/// Applies one step of a patch.
pub(in crate::image) fn apply(operation: Operation, image: &mut Image) -> Result<(), ServiceError> {
    let pointer = operation.path.strip_prefix('/').filter(|rest| !rest.is_empty() && !rest.contains('/'));
    let pointer = pointer.ok_or_else(|| ServiceError::Invalid(reason!("Path {} does not name an attribute.", operation.path)))?;
    let key = pointer.replace("~1", "/").replace("~0", "~");
    let exists = image.properties.contains_key(&key);
    match operation.op.as_str() {
        _ if READ_ONLY.contains(&key.as_str()) => Err(read_only(&key)),
        "add" | "replace" if STANDARD.contains(&key.as_str()) => set_standard(&key, &operation.value, image),
        "remove" if STANDARD.contains(&key.as_str()) => Err(ServiceError::Forbidden(reason!("Property {key} may not be removed."))),
        "replace" | "remove" if !exists => Err(ServiceError::Conflict(reason!("Property {key} does not exist."))),
        "add" | "replace" => {
            image.properties.insert(key.clone(), text(&key, &operation.value)?);
            Ok(())
        }
        "remove" => {
            image.properties.remove(&key);
            Ok(())
        }
        other => Err(ServiceError::Invalid(reason!("Operation {other} is none of add, replace, remove."))),
    }
}

fn set_standard(key: &str, value: &Value, image: &mut Image) -> Result<(), ServiceError> {
    let has_bytes = image.status != "queued";
    match key {
        "name" => image.name = optional_text(key, value)?,
        "visibility" => image.visibility = text(key, value)?,
        "owner" => image.owner = text(key, value)?,
        "disk_format" | "container_format" if has_bytes => {
            return Err(ServiceError::Forbidden(reason!("Attribute '{key}' can be replaced only for a queued image.")));
        }
        "disk_format" => image.disk_format = optional_text(key, value)?,
        "container_format" => image.container_format = optional_text(key, value)?,
        "min_disk" => image.min_disk = number(key, value)?,
        "min_ram" => image.min_ram = number(key, value)?,
        "protected" => image.protected = flag(key, value)?,
        "os_hidden" => image.hidden = flag(key, value)?,
        _ => image.tags = tags(value)?,
    }
    Ok(())
}

fn read_only(key: &str) -> ServiceError {
    ServiceError::Forbidden(reason!("Attribute '{key}' is read-only."))
}

fn wrong(key: &str, what: &str) -> ServiceError {
    ServiceError::Invalid(reason!("Invalid value for attribute '{key}': it must be {what}."))
}

fn text(key: &str, value: &Value) -> Result<String, ServiceError> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong(key, "a string"))
}

fn optional_text(key: &str, value: &Value) -> Result<Option<String>, ServiceError> {
    if value.is_null() { Ok(None) } else { text(key, value).map(Some) }
}

fn number(key: &str, value: &Value) -> Result<i32, ServiceError> {
    value.as_i64().and_then(|number| i32::try_from(number).ok()).ok_or_else(|| wrong(key, "an integer"))
}

fn flag(key: &str, value: &Value) -> Result<bool, ServiceError> {
    value.as_bool().ok_or_else(|| wrong(key, "a boolean"))
}

fn tags(value: &Value) -> Result<Vec<String>, ServiceError> {
    let list = value.as_array().ok_or_else(|| wrong("tags", "an array of strings"))?;
    let (mut tags, mut seen) = (Vec::new(), HashSet::new());
    for tag in list {
        let tag = text("tags", tag)?;
        if seen.insert(tag.clone()) {
            tags.push(tag);
        }
    }
    Ok(tags)
}
