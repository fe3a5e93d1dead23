//! The local disks: across cells they travel as a temporary image, within a cell through the transfer area that both hosts reach.

use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostCommand, HostReply};
use crate::domain::reason;
use crate::saga::context::{Place, Resize};
use crate::saga::error::StepError;
use crate::saga::world::World;
use crate::services::image::Image;

/// Creates the record of the temporary image, unless there is no local disk to carry.
pub async fn create_snapshot_image(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    if !context.has_local_disks() {
        return Ok(());
    }
    let id = context.derived_id("snapshot");
    let properties = [
        ("image_type", "snapshot".to_owned()),
        ("instance_uuid", context.server.to_string()),
        ("user_id", context.caller.user_id.clone()),
        ("cellshift_migration", context.saga.to_string()),
    ];
    let shared = context.caller.project_id != context.project_id;
    let image = Image {
        name: Some(format!("{}-resize-temp", context.display_name)),
        visibility: if shared { "shared" } else { "private" }.into(),
        properties: properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        members: if shared { vec![context.project_id.clone()] } else { Vec::new() },
        ..Image::queued(id, &context.caller.project_id, world.env.now())
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
    let reply = world.ask(context, &source, fence, HostCommand::UploadSnapshot { image_id }).await?;
    keep_manifest(context, &source, "upload", reply)
}

pub async fn export_disks(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    if !context.has_local_disks() {
        return Ok(());
    }
    let source = context.source()?.clone();
    let reply = world.ask(context, &source, fence, HostCommand::ExportDisks).await?;
    keep_manifest(context, &source, "export", reply)
}

/// Keeps the manifest of the disks that the source host has sent off.
fn keep_manifest(context: &mut Resize, source: &Place, work: &str, reply: HostReply) -> Result<(), StepError> {
    match reply {
        HostReply::Exported { manifest } => {
            context.manifest = Some(manifest);
            Ok(())
        }
        other => Err(StepError::Refused(reason!("host {} answered an {work} with: {other}", source.host))),
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
