//! Writes a volume's bytes: when it is made, and again for another image.

use cellshift_domain::context::RequestContext;
use cellshift_domain::fence::Fence;
use cellshift_domain::reason;
use cellshift_store::Conn;
use chrono::NaiveDateTime;
use uuid::Uuid;

use crate::ServiceError;
use crate::bytes_on_disk::{self, Keep, Unplaced};
use crate::image::ImageData;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::processes::NoBackend;
use crate::volume::snapshots::{self, no_snapshot};
use crate::volume::volumes::image_metadata;
use crate::volume::volumes::no_volume;
use crate::volume::volumes::records::Origin;
use crate::volume::{EmbeddedVolume, NewVolume, SERVICE, VolumeSource, attachments, direct_attachments, gibibytes, rows};

/// The bytes for a volume or snapshot, in an unplaced file, and their origin.
pub(super) struct Filling {
    pub unplaced: Unplaced,
    pub origin: Origin,
}

impl EmbeddedVolume {
    /// Makes the bytes of a `creating` volume and sets it available, or sets it to `error`.
    pub(super) async fn fill(&self, fence: Option<Fence>, new: &NewVolume) -> Result<(), ServiceError> {
        let filled = self.fill_and_place(fence, new).await;
        if let Err(error) = &filled {
            let (id, now) = (new.id.to_string(), self.env.now().naive_utc());
            let noted = self.write(fence, move |conn| Ok(rows::set_status(conn, &id, &["creating"], "error", now)?)).await;
            log::warn!(volume = new.id.to_string().as_str(); "a volume could not be made: {error}; noting it: {:?}", noted.err());
        }
        filled
    }

    async fn fill_and_place(&self, fence: Option<Fence>, new: &NewVolume) -> Result<(), ServiceError> {
        let id = new.id;
        match self.check_backend(new.volume_type.as_deref()).await {
            Ok(()) => {}
            Err(NoBackend::Failed(error)) => return Err(error),
            Err(NoBackend::None(why)) => {
                self.tell_no_backend(new).await?;
                return Err(ServiceError::Conflict(reason!("No valid backend was found: {why}.")));
            }
        }
        let Filling { unplaced, origin } = self.filling(&new.caller, id, new.size_gb, new.source).await?;
        let (path, now) = (self.path(id), self.env.now().naive_utc());
        self.write(fence, move |conn| {
            if rows::set_status(conn, &id.to_string(), &["creating"], "available", now)? {
                rows::set_origin(conn, &id.to_string(), &origin)?;
                rows::set_made(conn, &id.to_string(), unplaced.size, &unplaced.sha256)?;
                // Inside the transaction, under the row's lock: nobody uses the file before the commit.
                bytes_on_disk::place(SERVICE, unplaced, &path)?;
            } else if rows::find(conn, &id.to_string())?.status == "error" {
                return Err(ServiceError::Conflict(reason!("Volume {id} was given up while it was made.")).into());
            }
            Ok(())
        })
        .await
    }

    /// Fills the volume of the fence's server again. The old bytes stay until all new bytes are on disk.
    pub(super) async fn reimage(&self, fence: Fence, caller: &RequestContext, id: Uuid, image_id: Uuid) -> Result<(), ServiceError> {
        let size_gb = self.read(move |conn| Ok(rows::by_id(conn, &id.to_string())?.ok_or_else(|| no_volume(id))?.size_gb)).await?;
        let Filling { unplaced, origin } = self.filling(caller, id, size_gb, VolumeSource::Image(image_id)).await?;
        // A crash between the new file's rename and the commit would leave the old checksum beside new bytes. Clear the checksum until the
        // new bytes are in place.
        let (path, now) = (self.path(id), self.env.now().naive_utc());
        self.write(Some(fence), move |conn| {
            take_held_alone(conn, id, fence, now)?;
            Ok(rows::forget_made(conn, &id.to_string())?)
        })
        .await?;
        self.write(Some(fence), move |conn| {
            let key = id.to_string();
            take_held_alone(conn, id, fence, now)?;
            rows::set_origin(conn, &key, &origin)?;
            rows::set_made(conn, &key, unplaced.size, &unplaced.sha256)?;
            // Under the row's lock and the fence: a late attempt cannot replace the bytes under a guest that runs again.
            Ok(bytes_on_disk::place(SERVICE, unplaced, &path)?)
        })
        .await
    }

    /// Prepares the bytes of a volume. Checks the rights again where the bytes are copied: no caller of this service can read an image, a
    /// snapshot or a volume without the right to it.
    async fn filling(&self, caller: &RequestContext, id: Uuid, size_gb: i32, source: VolumeSource) -> Result<Filling, ServiceError> {
        match source {
            VolumeSource::Blank => {
                let unplaced = self.written(Box::pin(futures::stream::empty()), size_gb).await?;
                Ok(Filling { unplaced, origin: Origin::default() })
            }
            VolumeSource::Image(image) => self.filling_of_image(caller, id, size_gb, image).await,
            VolumeSource::Snapshot(snapshot) => {
                self.own_snapshot(caller, snapshot).await?;
                self.filling_of_snapshot(snapshot, size_gb).await
            }
            VolumeSource::Volume(volume) => {
                self.own_volume(caller, volume).await?;
                self.filling_of_volume(volume, size_gb).await
            }
            VolumeSource::Backup(backup) => {
                self.own_backup(caller, backup).await?;
                self.filling_of_backup(backup, size_gb).await
            }
        }
    }

    /// Copies the bytes of a snapshot.
    pub(super) async fn filling_of_snapshot(&self, snapshot: Uuid, size_gb: i32) -> Result<Filling, ServiceError> {
        let row = self.read(move |conn| Ok(snapshots::records::by_id(conn, &snapshot.to_string())?)).await?;
        let row = row.filter(|row| row.made_size.is_some()).ok_or_else(|| no_snapshot(snapshot))?;
        Ok(Filling { unplaced: self.copied(snapshot, size_gb).await?, origin: row.origin() })
    }

    async fn filling_of_image(&self, caller: &RequestContext, id: Uuid, size_gb: i32, image: Uuid) -> Result<Filling, ServiceError> {
        self.images.visible_image(caller, image).await?;
        let (image, data) = self.images.download(image).await?;
        let unplaced = self.written(data, size_gb).await?;
        if image.os_hash_value.as_ref().is_some_and(|hash| *hash != unplaced.sha256) {
            return Err(ServiceError::Invalid(reason!("The bytes of the image of volume {id} do not have the image's checksum.")));
        }
        let (image_id, image_metadata) = (Some(image.id.to_string()), Some(image_metadata::of(&image)?));
        Ok(Filling { unplaced, origin: Origin { bootable: true, image_id, image_metadata } })
    }

    /// Copies the bytes that a volume has now.
    pub(super) async fn filling_of_volume(&self, volume: Uuid, size_gb: i32) -> Result<Filling, ServiceError> {
        let row = self.read(move |conn| Ok(rows::by_id(conn, &volume.to_string())?)).await?;
        let row = row.ok_or_else(|| no_volume(volume))?;
        let unplaced = self.copied(volume, size_gb).await?;
        Ok(Filling { unplaced, origin: row.origin() })
    }

    /// Copies the file of a volume, a snapshot or a backup. Guests may have written behind its end.
    pub(super) async fn copied(&self, from: Uuid, size_gb: i32) -> Result<Unplaced, ServiceError> {
        bytes_on_disk::copy(&self.env, SERVICE, self.path(from), &self.folder, gibibytes(size_gb)).await
    }

    async fn written(&self, data: ImageData, size_gb: i32) -> Result<Unplaced, ServiceError> {
        bytes_on_disk::write(&self.env, SERVICE, &self.folder, data, Some(gibibytes(size_gb)), Keep::Durably).await
    }
}

/// Locks the volume's row. Conflict unless the fence's server alone holds the volume.
fn take_held_alone(conn: &mut Conn, id: Uuid, fence: Fence, now: NaiveDateTime) -> Result<(), TransactionError> {
    let key = id.to_string();
    rows::take(conn, &key, now)?.ok_or_else(|| no_volume(id))?;
    let holders = attachments::records::of_volume(conn, &key)?;
    let others = holders.iter().any(|attachment| attachment.server_uuid != fence.server.to_string());
    if holders.is_empty() || others || !direct_attachments::records::of_volume(conn, &key)?.is_empty() {
        return Err(ServiceError::Conflict(reason!("Volume {id} is not held by server {} alone.", fence.server)).into());
    }
    Ok(())
}
