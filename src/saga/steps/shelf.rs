//! The remains of a shelved server: the image of its root disk, and the entries of its record that say where that is.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::snapshot_image::root_disk_image;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::reason;
use crate::domain::server::TaskState;
use crate::saga::context::{Head, Shelve};
use crate::saga::error::StepError;
use crate::saga::world::World;
use crate::services::ServiceError;
use crate::services::image::Image;

/// The moment of the shelving, on the record of a shelved server.
const SHELVED_AT: &str = "shelved_at";
/// The image of its root disk.
const IMAGE_ID: &str = "shelved_image_id";
/// The host that it was shelved on.
const SHELVED_HOST: &str = "shelved_host";
/// The property of an image that names its shelved server.
pub const SHELVED_SERVER: &str = "cellshift_shelved_server";

/// Returns the image that a record names.
pub fn image_of(metadata: &BTreeMap<String, String>) -> Option<Uuid> {
    metadata.get(IMAGE_ID)?.parse().ok()
}

/// Returns the moment of the shelving that a record names.
pub fn shelved_at(metadata: &BTreeMap<String, String>) -> Option<DateTime<Utc>> {
    Some(DateTime::parse_from_rfc3339(metadata.get(SHELVED_AT)?).ok()?.to_utc())
}

/// Returns a record's entries with those of a shelving.
pub fn shelved(mut metadata: BTreeMap<String, String>, at: DateTime<Utc>, host: &str, image: Option<Uuid>) -> BTreeMap<String, String> {
    metadata = unshelved(metadata);
    metadata.insert(SHELVED_AT.to_owned(), at.to_rfc3339());
    metadata.insert(SHELVED_HOST.to_owned(), host.to_owned());
    metadata.extend(image.map(|image| (IMAGE_ID.to_owned(), image.to_string())));
    metadata
}

/// Returns a record's entries without those of a shelving.
pub fn unshelved(mut metadata: BTreeMap<String, String>) -> BTreeMap<String, String> {
    metadata.retain(|key, _| ![SHELVED_AT, IMAGE_ID, SHELVED_HOST].contains(&key.as_str()));
    metadata
}

/// Creates the record of the image, unless a volume has the root disk. The image belongs to the server's project, whoever shelves it.
pub async fn create_image(world: &World, context: &mut Shelve, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let Some(id) = context.image() else { return Ok(()) };
    let cell = world.cell(&source.cell)?;
    let task = InstanceChange::task(Some(TaskState::ShelvingImagePendingUpload));
    cell.apply(fence, CellTxn::new().instance_change(context.server, task)).await?;
    let record = cell.instance(context.server).await?;
    let own = BTreeMap::from([(SHELVED_SERVER.to_owned(), record.uuid.to_string())]);
    let image = root_disk_image(id, format!("{}-shelved", record.display_name), &record, own, world.env.now());
    Ok(world.images.create_image(fence, image).await?)
}

/// Undo: deletes the image, with its bytes.
pub async fn give_image_up(world: &World, context: &mut Shelve, fence: Fence) -> Result<(), StepError> {
    let Some(id) = context.image() else { return Ok(()) };
    Ok(world.images.delete_image(fence, id).await?)
}

/// Has the host upload the root disk.
pub async fn upload_image(world: &World, context: &mut Shelve, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let Some(image_id) = context.image() else { return Ok(()) };
    let task = InstanceChange::task(Some(TaskState::ShelvingImageUploading));
    world.cell(&source.cell)?.apply(fence, CellTxn::new().instance_change(context.server, task)).await?;
    world.ask(context, &source, fence, HostCommand::UploadRootDisk { image_id }).await.map(drop)
}

/// Deletes the image of a server that is shelved no more. Its user may have deleted it, and another project may have taken the id since.
pub async fn delete_image(world: &World, head: &Head, fence: Fence, image: Option<Uuid>) -> Result<(), StepError> {
    let Some(id) = image else { return Ok(()) };
    match world.images.image(id).await {
        Ok(image) if image.owner == head.project_id => Ok(world.images.delete_image(fence, id).await?),
        Ok(_) | Err(ServiceError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the image, if a guest can be made from it. Its user may have deleted it.
pub async fn usable_image(world: &World, head: &Head, id: Uuid) -> Result<Image, StepError> {
    let missing = || StepError::Refused(reason!("The image {id} of the shelved server could not be found."));
    match world.images.image(id).await {
        Ok(image) if image.owner != head.project_id => Err(missing()),
        Ok(image) if image.status == "active" => Ok(image),
        Ok(image) => Err(StepError::Refused(reason!("The image {id} of the shelved server is {}, not active.", image.status))),
        Err(ServiceError::NotFound(_)) => Err(missing()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_of_a_shelving_come_and_go_alone() {
        let before = BTreeMap::from([("image_min_ram".to_owned(), "64".to_owned())]);
        let (at, image) = (DateTime::<Utc>::UNIX_EPOCH, Uuid::from_u128(7));
        let metadata = shelved(before.clone(), at, "host1", Some(image));
        assert_eq!((shelved_at(&metadata), image_of(&metadata)), (Some(at), Some(image)));
        // A server on a volume has no image, also if an older entry was left.
        assert_eq!(image_of(&shelved(metadata.clone(), at, "host1", None)), None);
        assert_eq!(unshelved(metadata), before);
    }
}
