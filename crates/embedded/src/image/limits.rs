//! Glance's limits of an image's names, tags, properties and members.

use cellshift_domain::reason;
use std::collections::BTreeMap;

use super::Image;
use crate::ServiceError;

/// The maximum number of properties, of tags and of members of an image.
pub const MOST: usize = 128;
/// The names of an image's attributes. No property may have such a name, because the image API shows properties beside attributes.
pub const ATTRIBUTES: [&str; 24] = [
    "checksum",
    "container_format",
    "created_at",
    "direct_url",
    "disk_format",
    "file",
    "id",
    "locations",
    "min_disk",
    "min_ram",
    "name",
    "os_hash_algo",
    "os_hash_value",
    "os_hidden",
    "owner",
    "protected",
    "schema",
    "self",
    "size",
    "status",
    "tags",
    "updated_at",
    "virtual_size",
    "visibility",
];
/// The beginning of the names of properties that Glance keeps for itself.
const RESERVED: &str = "os_glance";
/// The maximum length of a property's value in bytes.
const LONGEST_VALUE: usize = 65_535;

/// Refuses an image that exceeds a limit. An image that exceeded it in an older release may become smaller.
pub(super) fn check(image: &Image, before: Option<&Image>) -> Result<(), ServiceError> {
    within("properties", image.properties.len(), before.map_or(0, |before| before.properties.len()))?;
    within("tags", image.tags.len(), before.map_or(0, |before| before.tags.len()))?;
    let texts = image.name.iter().map(|name| ("name", name.as_str(), 0));
    let tags = image.tags.iter().map(|tag| ("tag", tag.as_str(), 1));
    let properties = image.properties.keys().map(|key| ("property's name", key.as_str(), 1));
    texts.chain(tags).chain(properties).try_for_each(|(what, text, least)| check_text(what, text, least))?;
    project("owner", &image.owner)?;
    let is_reserved = |name: &&String| ATTRIBUTES.contains(&name.as_str()) || name.starts_with(RESERVED);
    if let Some(name) = image.properties.keys().find(is_reserved) {
        return Err(ServiceError::Forbidden(reason!("Attribute '{name}' is reserved.")));
    }
    check_values(&image.properties)
}

/// Refuses more than [`MOST`] things.
pub(super) fn within(what: &str, attempted: usize, before: usize) -> Result<(), ServiceError> {
    if attempted <= MOST || attempted <= before {
        return Ok(());
    }
    Err(ServiceError::OverLimit(reason!(
        "The limit has been exceeded on the number of allowed image {what}. Attempted: {attempted}, Maximum: {MOST}"
    )))
}

/// Refuses a text that cannot be a project's id.
pub(super) fn project(what: &str, id: &str) -> Result<(), ServiceError> {
    check_text(what, id, 1)?;
    match id.chars().any(char::is_control) {
        true => Err(ServiceError::Invalid(reason!("Invalid value for '{what}': it holds control characters."))),
        false => Ok(()),
    }
}

fn check_text(what: &str, text: &str, least: usize) -> Result<(), ServiceError> {
    match text.chars().take(256).count() {
        length if (least..=255).contains(&length) => Ok(()),
        _ => Err(ServiceError::Invalid(reason!("An image's {what} has {least} to 255 characters."))),
    }
}

fn check_values(properties: &BTreeMap<String, String>) -> Result<(), ServiceError> {
    match properties.iter().find(|(_, value)| value.len() > LONGEST_VALUE) {
        Some((key, _)) => Err(ServiceError::Invalid(reason!("The value of property {key} has more than {LONGEST_VALUE} bytes."))),
        None => Ok(()),
    }
}
