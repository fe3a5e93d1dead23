//! Images of volume-backed servers: such an image has no bytes, and its property `block_device_mapping` names snapshots of the volumes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::domain::block_device::BlockDevice;
use crate::domain::fence::Fence;
use crate::saga::context::CreateImage;
use crate::saga::error::StepError;
use crate::saga::steps::snapshot_image::{awaiting_upload, root_disk_image};
use crate::saga::world::World;
use crate::services::image::Image;
use crate::services::volume::{NewSnapshot, Snapshot};

/// Stores a snapshot of each volume. Refused if the project's quota has no room for them.
pub async fn create_snapshots(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes_to_snapshot {
        let snapshot = NewSnapshot {
            id: context.snapshot_of(*volume),
            volume: *volume,
            name: Some(format!("snapshot for {}", context.request.name)),
            description: Some(String::new()),
            metadata: BTreeMap::new(),
            caller: context.caller.clone(),
            force: true,
        };
        world.volumes.create_snapshot(fence, snapshot).await?;
    }
    Ok(())
}

/// Undo: deletes the snapshots, with their bytes.
pub async fn delete_snapshots(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes_to_snapshot {
        world.volumes.delete_snapshot(fence, context.snapshot_of(*volume)).await?;
    }
    Ok(())
}

/// Creates the record of an image whose devices are the snapshots. Its undo is that of every image.
pub async fn create_image_of_snapshots(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    let record = awaiting_upload(world, context, fence).await?;
    let mut devices = world.cell(&context.source()?.cell)?.block_devices(context.server).await?;
    devices.retain(BlockDevice::is_volume);
    devices.sort_by_key(|device| device.boot_index.filter(|index| *index >= 0).unwrap_or(i32::MAX));
    let mut mapping = Vec::new();
    for device in &devices {
        let volume = device.volume_id.unwrap_or_default();
        mapping.push(mapped(device, &world.volumes.snapshot(context.snapshot_of(volume)).await?));
    }
    let own = [
        ("bdm_v2".to_owned(), "True".to_owned()),
        ("block_device_mapping".to_owned(), Value::from(mapping).to_string()),
        ("root_device_name".to_owned(), record.root_device_name.clone().unwrap_or_default()),
    ];
    let mut properties = context.request.metadata.clone();
    properties.extend(own);
    let image = root_disk_image(context.image(), context.request.name.clone(), &record, properties, world.env.now());
    // The volumes decide about the size, not the flavor.
    Ok(world.images.create_image(fence, Image { min_disk: 0, ..image }).await?)
}

/// Describes a device of a server that is made from the image: a volume that is filled from the snapshot.
fn mapped(device: &BlockDevice, snapshot: &Snapshot) -> Value {
    json!({
        "boot_index": device.boot_index,
        "delete_on_termination": device.delete_on_termination,
        "destination_type": "volume",
        "device_name": device.device_name,
        "device_type": device.device_type,
        "disk_bus": device.disk_bus,
        "guest_format": device.guest_format,
        "image_id": null,
        "no_device": null,
        "snapshot_id": snapshot.id,
        "source_type": "snapshot",
        "tag": device.tag,
        "volume_id": null,
        "volume_size": snapshot.size_gb,
        "volume_type": null,
    })
}

/// Copies the volumes' bytes into the snapshots, while the guest runs: each has what the guest would find after a power cut.
pub async fn take_snapshots(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes_to_snapshot {
        world.volumes.take_snapshot(fence, context.snapshot_of(*volume)).await?;
    }
    Ok(())
}

/// Makes the image active, without bytes.
pub async fn activate_image(world: &World, context: &mut CreateImage, _: Fence) -> Result<(), StepError> {
    if world.images.image(context.image()).await?.status != "active" {
        world.images.upload(context.image(), Box::pin(futures::stream::empty())).await?;
    }
    Ok(())
}
