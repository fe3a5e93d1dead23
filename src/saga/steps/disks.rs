//! The local disks: across cells they travel as a temporary image, within a cell through the transfer area that both hosts reach.

use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostCommand, HostReply};
use crate::domain::reason;
use crate::saga::context::Resize;
use crate::saga::error::StepError;
use crate::saga::world::World;
use crate::services::image::Image;

/// Creates the record of the temporary image, unless there is no local disk to carry.
pub async fn create_snapshot_image(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    if !context.has_local_disks() {
        return Ok(());
    }
    let id = context.derived_id("snapshot");
    let now = world.env.now();
    let properties = [
        ("image_type", "snapshot".to_owned()),
        ("instance_uuid", context.server.to_string()),
        ("user_id", context.caller.user_id.clone()),
        ("cellshift_migration", context.saga.to_string()),
    ];
    let shared = context.caller.project_id != context.project_id;
    let image = Image {
        id,
        name: Some(format!("{}-resize-temp", context.display_name)),
        status: "queued".into(),
        visibility: if shared { "shared" } else { "private" }.into(),
        owner: context.caller.project_id.clone(),
        disk_format: Some("raw".into()),
        container_format: Some("bare".into()),
        min_disk: 0,
        min_ram: 0,
        size: None,
        os_hash_value: None,
        protected: false,
        hidden: false,
        properties: properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        tags: Vec::new(),
        members: if shared { vec![context.project_id.clone()] } else { Vec::new() },
        created_at: now,
        updated_at: now,
    };
    world.images.create_image(fence, image).await?;
    context.snapshot = Some(id);
    Ok(())
}

/// Deletes the temporary image: the undo before the pivot, and the last step after it.
pub async fn delete_snapshot_image(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    if !context.has_local_disks() {
        return Ok(());
    }
    Ok(world.images.delete_image(fence, context.derived_id("snapshot")).await?)
}

/// Has the source host upload the local disks. The target checks them against the manifest.
pub async fn upload_snapshot(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let Some(image_id) = context.snapshot else { return Ok(()) };
    let source = context.source()?.clone();
    match world.ask(context, &source, fence, HostCommand::UploadSnapshot { image_id }).await? {
        HostReply::Exported { manifest } => {
            context.manifest = Some(manifest);
            Ok(())
        }
        other => Err(StepError::Refused(reason!("host {} answered an upload with: {other}", source.host))),
    }
}

pub async fn export_disks(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    if !context.has_local_disks() {
        return Ok(());
    }
    let source = context.source()?.clone();
    match world.ask(context, &source, fence, HostCommand::ExportDisks).await? {
        HostReply::Exported { manifest } => {
            context.manifest = Some(manifest);
            Ok(())
        }
        other => Err(StepError::Refused(reason!("host {} answered an export with: {other}", source.host))),
    }
}

/// Has the source host remove its export: the undo before the pivot, and the last step after it.
pub async fn drop_export(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    if !context.has_local_disks() {
        return Ok(());
    }
    let source = context.source()?.clone();
    world.ask(context, &source, fence, HostCommand::DropExport).await.map(drop)
}
