//! The disks and volumes of a new server: looks up and checks the request's devices, and gives each a device name.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::device::{Device, LegacyDevice};
use super::image;
use super::image_devices;
use super::networks::service_error;
use super::request::NewServerRequest;
use crate::domain::context::RequestContext;
use crate::domain::flavor::Flavor;
use crate::env::Env;
use crate::http::compute::answer::bad_request;
use crate::http::compute::servers::{ComputeApi, devices};
use crate::http::error::ApiError;
use crate::saga::context::{DeviceForm, RequestedVolume};
use crate::services::ServiceError;
use crate::services::image::Image;
use crate::services::volume::Snapshot;

/// The checked block devices of a request.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Disks {
    /// In boot order. A root volume comes first.
    pub volumes: Vec<Disk>,
    /// True if the root disk is a volume.
    pub volume_backed: bool,
    /// The image metadata of an existing volume, or of a snapshot, that the server boots from.
    pub boot_volume_image: BTreeMap<String, String>,
}

/// A disk on a volume.
#[derive(Clone, PartialEq, Debug)]
pub struct Disk {
    pub volume: DiskVolume,
    pub boot_index: Option<i32>,
    pub device_name: String,
    pub delete_on_termination: bool,
    pub tag: Option<String>,
    pub shown_as: DeviceForm,
}

/// The volume of a disk.
#[derive(Clone, PartialEq, Debug)]
pub enum DiskVolume {
    /// A volume that exists.
    Existing(Uuid),
    /// A volume to make, with its size in GiB. Without a type it gets the default one.
    New { size_gb: i32, content: Content, volume_type: Option<String> },
}

/// The bytes that fill a new volume.
#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    Blank,
    Image(Box<Image>),
    Snapshot(Uuid),
}

impl Disks {
    /// Returns one server's volumes, and chooses ids for those to make.
    pub fn for_server(&self, env: &Env) -> Vec<RequestedVolume> {
        self.volumes.iter().map(|disk| disk.for_server(env)).collect()
    }

    /// Returns the image that fills the root volume. The flavor must meet its demands.
    pub fn boot_image(&self) -> Option<&Image> {
        match &self.volumes.iter().find(|disk| disk.boot_index == Some(0))?.volume {
            DiskVolume::New { content: Content::Image(image), .. } => Some(image),
            _ => None,
        }
    }
}

impl Disk {
    fn for_server(&self, env: &Env) -> RequestedVolume {
        let requested = |volume_id| RequestedVolume {
            volume_id,
            create_gb: None,
            image_id: None,
            snapshot_id: None,
            volume_type: None,
            boot_index: self.boot_index,
            device_name: self.device_name.clone(),
            delete_on_termination: self.delete_on_termination,
            tag: self.tag.clone(),
            shown_as: self.shown_as.clone(),
        };
        match &self.volume {
            DiskVolume::Existing(volume) => requested(*volume),
            DiskVolume::New { size_gb, content, volume_type } => {
                let (image_id, snapshot_id) = match content {
                    Content::Blank => (None, None),
                    Content::Image(image) => (Some(image.id), None),
                    Content::Snapshot(snapshot) => (None, Some(*snapshot)),
                };
                let (create_gb, volume_type) = (Some(*size_gb), volume_type.clone());
                RequestedVolume { create_gb, image_id, snapshot_id, volume_type, ..requested(env.uuid()) }
            }
        }
    }
}

/// A device of the request, whose form does not matter any more.
struct Demand<'a> {
    source: &'a str,
    destination: &'a str,
    id: Option<&'a str>,
    size_gb: Option<i32>,
    boot_index: Option<i32>,
    name: Option<&'a str>,
    is_swap: bool,
    delete_on_termination: bool,
    tag: Option<&'a str>,
    volume_type: Option<&'a str>,
    form: DeviceForm,
}

fn invalid(why: &str) -> ApiError {
    bad_request(format!("Block Device Mapping is Invalid: {why}"))
}

/// Looks up and checks a request's block devices.
pub async fn look_up(
    api: &ComputeApi,
    caller: &RequestContext,
    request: &NewServerRequest,
    named: Option<&Image>,
    flavor: &Flavor,
) -> Result<Disks, ApiError> {
    let has_image = !request.image.is_empty();
    let of_image = named.map(image_devices::of_image).transpose()?.unwrap_or_default();
    let devices = image_devices::merged(&request.block_devices, of_image);
    let mut demands = Vec::new();
    // Devices of the old form name no boot index, so none of them is the root beside an image.
    for (at, device) in request.legacy_block_devices.iter().enumerate() {
        demands.extend(legacy(device, at == 0 && !has_image)?);
    }
    for device in &devices {
        demands.extend(current(device)?);
    }
    let mut others = Vec::with_capacity(demands.len());
    let mut local_roots = 0;
    for demand in demands {
        if demand.source == "image" && demand.destination == "local" {
            check_local_root(api, caller, request, &demand).await?;
            local_roots += 1;
        } else {
            others.push(demand);
        }
    }
    let mut demands = others;
    check_boot_order(&demands, has_image, local_roots)?;
    check_local_disks(&demands, flavor)?;
    let volume_backed = demands.iter().any(|device| device.boot_index == Some(0) && device.destination == "volume");
    if !volume_backed && !has_image {
        return Err(bad_request("Missing imageRef attribute"));
    }
    demands.sort_by_key(|device| device.boot_index.filter(|index| *index >= 0).unwrap_or(i32::MAX));
    let mut names = devices::of_local_disks(flavor);
    let mut used = BTreeSet::new();
    let mut disks = Disks { volume_backed, ..Disks::default() };
    for device in demands.into_iter().filter(|device| device.destination == "volume") {
        let name = device_name(&device, &mut names)?;
        let disk = volume(api, caller, request, &device, name).await?;
        if let DiskVolume::Existing(volume) = disk.volume
            && !used.insert(volume)
        {
            return Err(invalid(&format!("the volume {} is used twice.", device.id.unwrap_or_default())));
        }
        match disk.volume {
            _ if disk.boot_index != Some(0) => {}
            DiskVolume::Existing(volume) => {
                disks.boot_volume_image = api.volumes.volume(volume).await.map_err(service_error)?.image_metadata;
            }
            DiskVolume::New { content: Content::Snapshot(snapshot), .. } => {
                disks.boot_volume_image = api.volumes.snapshot(snapshot).await.map_err(service_error)?.image_metadata;
            }
            DiskVolume::New { .. } => {}
        }
        disks.volumes.push(disk);
    }
    Ok(disks)
}

/// Checks a local root disk. Clients must repeat imageRef for it, because no other image can become a local disk.
async fn check_local_root(
    api: &ComputeApi,
    caller: &RequestContext,
    request: &NewServerRequest,
    device: &Demand<'_>,
) -> Result<(), ApiError> {
    let id = device.id.unwrap_or_default();
    if request.image.is_empty() || device.boot_index != Some(0) {
        return Err(invalid("Mapping image to local is not supported."));
    }
    if id != request.image {
        image::usable(&*api.images, caller, id, image::UNKNOWN).await?;
    }
    Ok(())
}

/// Reads a device of `block_device_mapping_v2`; none for a `no_device`.
fn current(device: &Device) -> Result<Option<Demand<'_>>, ApiError> {
    if device.common.is_no_device() {
        return Ok(None);
    }
    let source =
        device.source_type.as_deref().ok_or_else(|| bad_request("Block Device Mapping is Invalid: Some required fields are missing"))?;
    let id = device.source_id(source);
    let default_destination = if matches!(source, "volume" | "snapshot") { "volume" } else { "local" };
    let destination = device.destination_type.as_deref().unwrap_or(default_destination);
    match (source, id) {
        ("blank", Some(_)) => return Err(bad_request("Block Device Mapping is Invalid: Invalid device UUID.")),
        ("volume" | "image" | "snapshot", None) => return Err(bad_request("Block Device Mapping is Invalid: Missing device UUID.")),
        _ => {}
    }
    if device.volume_type().is_some() && (destination == "local" || source == "volume") {
        return Err(bad_request("Block Device Mapping is Invalid: a volume_type can be given only for a volume that is to be made."));
    }
    if destination == "local" && !matches!(source, "blank" | "image") {
        return Err(invalid(&format!("a {source} cannot become a local disk.")));
    }
    Ok(Some(Demand {
        source,
        destination,
        id,
        size_gb: device.common.size_gb(),
        boot_index: device.boot_index.and_then(|index| i32::try_from(index).ok()).filter(|index| *index >= 0),
        name: device.common.device_name.as_deref(),
        is_swap: device.guest_format.as_deref() == Some("swap") || device.common.virtual_name.as_deref() == Some("swap"),
        delete_on_termination: device.common.delete_on_termination.0,
        tag: device.tag.as_deref(),
        volume_type: device.volume_type(),
        form: device.form(),
    }))
}

/// Reads a device of `block_device_mapping`. The first device is the root if there is no image.
fn legacy(device: &LegacyDevice, is_root: bool) -> Result<Option<Demand<'_>>, ApiError> {
    let fields = &device.common;
    if fields.is_no_device() {
        return Ok(None);
    }
    let of_volume = |source, id| Demand {
        source,
        destination: "volume",
        id: Some(id),
        size_gb: fields.size_gb(),
        boot_index: is_root.then_some(0),
        name: fields.device_name.as_deref(),
        is_swap: fields.virtual_name.as_deref() == Some("swap"),
        delete_on_termination: fields.delete_on_termination.0,
        tag: None,
        volume_type: None,
        form: DeviceForm::default(),
    };
    match (fields.volume_id.as_deref(), fields.snapshot_id.as_deref(), fields.virtual_name.as_deref()) {
        (Some(id), ..) => Ok(Some(of_volume("volume", id))),
        (None, Some(id), _) => Ok(Some(of_volume("snapshot", id))),
        (None, None, Some(name)) if name == "swap" || name.starts_with("ephemeral") => {
            Ok(Some(Demand { destination: "local", id: None, boot_index: None, ..of_volume("blank", "") }))
        }
        _ => Err(bad_request("Block Device Mapping is Invalid: Unrecognized legacy format.")),
    }
}

/// Checks that boot indexes count from 0 without a gap. Each of the `local_roots` has index 0, and so has the image's root if no device has it.
fn check_boot_order(demands: &[Demand<'_>], has_image: bool, local_roots: usize) -> Result<(), ApiError> {
    let mut indexes: Vec<i32> = demands.iter().filter_map(|device| device.boot_index).chain(std::iter::repeat_n(0, local_roots)).collect();
    indexes.sort_unstable();
    if has_image && indexes.first() != Some(&0) {
        indexes.insert(0, 0);
    }
    let in_order = indexes.iter().enumerate().all(|(at, index)| i32::try_from(at) == Ok(*index));
    match in_order && (has_image || !indexes.is_empty()) {
        true => Ok(()),
        false if demands.is_empty() && local_roots == 0 => Err(bad_request("Missing imageRef attribute")),
        false => Err(invalid("Boot sequence for the instance and image/block device mapping combination is not valid.")),
    }
}

/// Checks local disks. The flavor decides about them: a request may name them but not exceed them.
fn check_local_disks(demands: &[Demand<'_>], flavor: &Flavor) -> Result<(), ApiError> {
    let local = |swap: bool| demands.iter().filter(move |device| device.destination == "local" && device.is_swap == swap);
    let ephemeral: i64 = local(false).map(|device| i64::from(device.size_gb.unwrap_or(flavor.ephemeral_gb))).sum();
    if ephemeral > i64::from(flavor.ephemeral_gb) {
        return Err(invalid(
            "Ephemeral disks requested are larger than the instance type allows. If no size is given in one block device mapping, flavor ephemeral size will be used.",
        ));
    }
    let swap: i64 = local(true).map(|device| i64::from(device.size_gb.unwrap_or(flavor.swap_mb))).sum();
    if swap > i64::from(flavor.swap_mb) || local(true).count() > 1 {
        return Err(invalid("Swap drive requested is larger than instance type allows."));
    }
    Ok(())
}

fn device_name(device: &Demand<'_>, names: &mut Vec<String>) -> Result<String, ApiError> {
    let name = match device.name {
        _ if device.boot_index == Some(0) => devices::ROOT.to_owned(),
        Some(name) => devices::full(name),
        None => devices::free(names.iter().map(String::as_str)).ok_or_else(|| invalid("there is no device name left."))?,
    };
    if device.boot_index != Some(0) && (names.contains(&name) || name == devices::ROOT) {
        return Err(invalid(&format!("the device name {name} is used twice.")));
    }
    names.push(name.clone());
    Ok(name)
}

async fn volume(
    api: &ComputeApi,
    caller: &RequestContext,
    request: &NewServerRequest,
    device: &Demand<'_>,
    device_name: String,
) -> Result<Disk, ApiError> {
    let id = device.id.unwrap_or_default();
    let volume = match device.source {
        "volume" => DiskVolume::Existing(existing_volume(api, caller, request, device, id).await?),
        "image" => {
            let image = image::usable(&*api.images, caller, id, image::UNKNOWN).await?;
            let size_gb = device.size_gb;
            let size_gb = size_gb.ok_or_else(|| invalid("Images with destination_type 'volume' need to have a non-zero size specified"))?;
            image::check_fits_volume(&image, size_gb)?;
            let volume_type = volume_type(api, caller, device).await?;
            DiskVolume::New { size_gb, content: Content::Image(Box::new(image)), volume_type }
        }
        "blank" => {
            let size_gb = device.size_gb;
            let size_gb = size_gb.ok_or_else(|| invalid("Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size"))?;
            if device.boot_index == Some(0) {
                return Err(invalid("a blank volume cannot be booted from."));
            }
            DiskVolume::New { size_gb, content: Content::Blank, volume_type: volume_type(api, caller, device).await? }
        }
        _ => {
            let snapshot = existing_snapshot(api, caller, request, device, id).await?;
            let size_gb = device.size_gb.unwrap_or(snapshot.size_gb);
            if size_gb < snapshot.size_gb {
                return Err(invalid(&format!("a volume of {size_gb} GiB is smaller than the snapshot {id}.")));
            }
            let of_source = api.volumes.volume(snapshot.volume_id).await.map_err(service_error)?.volume_type;
            let volume_type = volume_type(api, caller, device).await?.or(of_source);
            DiskVolume::New { size_gb, content: Content::Snapshot(snapshot.id), volume_type }
        }
    };
    Ok(Disk {
        volume,
        boot_index: device.boot_index,
        device_name,
        delete_on_termination: device.delete_on_termination,
        tag: device.tag.map(str::to_owned),
        shown_as: device.form.clone(),
    })
}

/// Returns the type that the request names for a volume to make.
async fn volume_type(api: &ComputeApi, caller: &RequestContext, device: &Demand<'_>) -> Result<Option<String>, ApiError> {
    let Some(name) = device.volume_type else { return Ok(None) };
    let volume_type = api.volumes.volume_type(caller, name).await.map_err(|error| match error {
        ServiceError::NotFound(why) => bad_request(why),
        other => service_error(other),
    })?;
    Ok(Some(volume_type))
}

/// Returns a thing of the volume service that the caller may use, by the id in the request.
async fn existing<T>(
    caller: &RequestContext,
    (kind, id): (&str, &str),
    read: impl AsyncFnOnce(Uuid) -> Result<T, ServiceError>,
    project_of: fn(&T) -> &str,
) -> Result<T, ApiError> {
    let unknown = || invalid(&format!("failed to get {kind} {id}."));
    let uuid = Uuid::parse_str(id).map_err(|_| unknown())?;
    match read(uuid).await {
        Ok(thing) if project_of(&thing) == caller.project_id || caller.is_admin() => Ok(thing),
        Ok(_) | Err(ServiceError::NotFound(_)) => Err(unknown()),
        Err(error) => Err(service_error(error)),
    }
}

async fn existing_snapshot(
    api: &ComputeApi,
    caller: &RequestContext,
    request: &NewServerRequest,
    device: &Demand<'_>,
    id: &str,
) -> Result<Snapshot, ApiError> {
    let read = async |uuid| api.volumes.snapshot(uuid).await;
    let snapshot = existing(caller, ("snapshot", id), read, |snapshot| &snapshot.project_id).await?;
    if snapshot.status != "available" {
        return Err(invalid(&format!("the snapshot {id} is {}.", snapshot.status)));
    }
    check_bootable(request, device, id, snapshot.bootable)?;
    Ok(snapshot)
}

async fn existing_volume(
    api: &ComputeApi,
    caller: &RequestContext,
    request: &NewServerRequest,
    device: &Demand<'_>,
    id: &str,
) -> Result<Uuid, ApiError> {
    let read = async |uuid| api.volumes.volume(uuid).await;
    let volume = existing(caller, ("volume", id), read, |volume| &volume.project_id).await?;
    if let Some(why) = volume.refuses_servers() {
        return Err(bad_request(why));
    }
    if request.max_count > 1 && !volume.multiattach {
        return Err(bad_request("Cannot attach one or more volumes to multiple instances"));
    }
    check_bootable(request, device, id, volume.bootable)?;
    Ok(volume.id)
}

/// Refuses a root disk that is not bootable. If the request also names an image, the root disk need not be bootable, as in Nova.
fn check_bootable(request: &NewServerRequest, device: &Demand<'_>, id: &str, bootable: bool) -> Result<(), ApiError> {
    if device.boot_index == Some(0) && request.image.is_empty() && !bootable {
        return Err(bad_request(format!("Block Device {id} is not bootable.")));
    }
    Ok(())
}
