//! Images of servers' root disks, for users and for shelved servers.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance::Instance;
use crate::domain::instance_change::InstanceChange;
use crate::domain::server::TaskState;
use crate::saga::context::CreateImage;
use crate::saga::debt;
use crate::saga::error::StepError;
use crate::saga::world::World;
use crate::services::ServiceError;
use crate::services::image::Image;

/// The image's own fields, which are no properties of the image that the server was made from.
const NOT_INHERITED: [&str; 3] = ["base_image_ref", "min_disk", "min_ram"];

/// Describes an image that is to get the server's root disk. It belongs to the server's project, whoever asks for it, and has the properties
/// of the image that the server was made from, those of a snapshot, and `own`.
pub fn root_disk_image(id: Uuid, name: String, record: &Instance, own: BTreeMap<String, String>, now: DateTime<Utc>) -> Image {
    let demand = |key: &str| record.system_metadata.get(key).and_then(|amount| amount.parse::<i32>().ok()).unwrap_or(0);
    let mut properties = of_a_snapshot(record);
    properties.extend(own);
    Image {
        name: Some(name),
        min_disk: record.flavor.root_gb.max(demand("image_min_disk")),
        min_ram: demand("image_min_ram"),
        properties,
        ..Image::queued(id, &record.project_id, now)
    }
}

fn of_a_snapshot(record: &Instance) -> BTreeMap<String, String> {
    let inherited = record.system_metadata.iter().filter_map(|(key, value)| Some((key.strip_prefix("image_")?, value)));
    let inherited = inherited.filter(|(key, _)| !NOT_INHERITED.contains(key) && !key.starts_with("cellshift_"));
    let own = [
        ("base_image_ref", record.image_ref.clone()),
        ("image_location", "snapshot".to_owned()),
        ("image_state", "available".to_owned()),
        ("image_type", "snapshot".to_owned()),
        ("instance_uuid", record.uuid.to_string()),
        ("owner_id", record.project_id.clone()),
        ("user_id", record.user_id.clone()),
    ];
    let inherited = inherited.map(|(key, value)| (key.to_owned(), value.clone()));
    inherited.chain(own.into_iter().map(|(key, value)| (key.to_owned(), value))).collect()
}

/// Creates the record of the image.
pub async fn create_image(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    let record = awaiting_upload(world, context, fence).await?;
    let request = &context.request;
    let mut own = request.metadata.clone();
    if let Some(backup) = &request.backup {
        own.extend([("image_type".to_owned(), "backup".to_owned()), ("backup_type".to_owned(), backup.kind.clone())]);
    }
    let image = root_disk_image(context.image(), request.name.clone(), &record, own, world.env.now());
    Ok(world.images.create_image(fence, image).await?)
}

/// Shows the task of an image that is not filled yet. Returns the server's record.
pub async fn awaiting_upload(world: &World, context: &CreateImage, fence: Fence) -> Result<Instance, StepError> {
    let cell = world.cell(&context.source()?.cell)?;
    let task = InstanceChange::task(Some(TaskState::ImagePendingUpload));
    cell.apply(fence, CellTxn::new().instance_change(context.server, task)).await?;
    Ok(cell.instance(context.server).await?)
}

/// Undo: deletes the image, with its bytes.
pub async fn give_image_up(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    Ok(world.images.delete_image(fence, context.image()).await?)
}

/// Has the host upload the root disk. A running guest stands still meanwhile. If an earlier try has uploaded it, the guest may have written
/// since, so the image stays as it is and only the guest runs on.
pub async fn upload_image(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let task = InstanceChange::task(Some(TaskState::ImageUploading));
    world.cell(&here.cell)?.apply(fence, CellTxn::new().instance_change(context.server, task)).await?;
    if world.images.image(context.image()).await?.status == "active" {
        return let_guest_run(world, context, fence).await;
    }
    world.ask(context, &here, fence, HostCommand::SnapshotGuest { image_id: context.image() }).await.map(drop)
}

/// Undo: lets the guest run on if it ran.
pub async fn let_guest_run(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    if context.ran_before() {
        world.ask(context, &here, fence, HostCommand::ResumeGuest).await?;
    }
    Ok(())
}

/// Payment of [`let_guest_run`]: leaves the guest alone if its user has mended the server.
pub async fn pay_running_guest(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    match debt::was_mended(world, context).await? {
        true => Ok(()),
        false => let_guest_run(world, context, fence).await,
    }
}

/// Deletes the oldest backups of this kind, so that as many are left as the user wants.
pub async fn rotate_backups(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    let Some(backup) = context.request.backup.clone() else { return Ok(()) };
    let mut images = world.images.images_with_property("instance_uuid", &context.server.to_string()).await?;
    // Other projects may give their images any property, and a protected image is to stay.
    images.retain(|image| image.owner == context.project_id && !image.protected && is_backup(image, &backup.kind));
    images.sort_by_key(|image| std::cmp::Reverse((image.created_at, image.id)));
    for old in images.into_iter().skip(backup.rotation) {
        match world.images.delete_image(fence, old.id).await {
            Ok(()) | Err(ServiceError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_backup(image: &Image, kind: &str) -> bool {
    let is = |key: &str, value: &str| image.properties.get(key).is_some_and(|property| property == value);
    is("image_type", "backup") && is("backup_type", kind)
}
