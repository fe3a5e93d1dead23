//! A copy of the image's metadata in the volume's record, because the image itself may change or be deleted.

use cellshift_domain::reason;
use std::collections::BTreeMap;

use cellshift_store::DbError;

use super::records::VolumeRow;
use crate::ServiceError;
use crate::image::Image;

/// Returns the image's fields and properties as a JSON object of strings.
pub(in crate::volume) fn of(image: &Image) -> Result<String, ServiceError> {
    let mut metadata = image.properties.clone();
    let mut set = |key: &str, value: Option<String>| value.map(|value| metadata.insert(key.to_owned(), value));
    set("image_id", Some(image.id.to_string()));
    set("image_name", image.name.clone());
    set("container_format", image.container_format.clone());
    set("disk_format", image.disk_format.clone());
    set("min_disk", Some(image.min_disk.to_string()));
    set("min_ram", Some(image.min_ram.to_string()));
    set("size", image.size.map(|size| size.to_string()));
    serde_json::to_string(&metadata).map_err(|error| ServiceError::Invalid(reason!("{error}")))
}

/// Returns the metadata of the volume's image; empty until its bytes are written. Records of an older release have its id only.
pub(in crate::volume) fn read(row: &VolumeRow) -> Result<BTreeMap<String, String>, DbError> {
    match (&row.image_metadata, &row.image_id) {
        (Some(text), _) => Ok(serde_json::from_str(text)?),
        (None, Some(id)) if row.bootable => Ok([("image_id".to_owned(), id.clone())].into()),
        _ => Ok(BTreeMap::new()),
    }
}
