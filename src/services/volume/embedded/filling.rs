//! Writes a volume's bytes: when it is made, and again for another image.

use chrono::NaiveDateTime;
use uuid::Uuid;

use super::{EmbeddedVolume, NewVolume, SERVICE, gibibytes, image_metadata, no_volume, rows};
use crate::db::Conn;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;
use crate::services::ServiceError;
use crate::services::bytes_on_disk::{self, Keep, Unplaced};
use crate::services::transaction::{TransactionError, Transactions};

/// The bytes for a volume, in an unplaced file, and the metadata of their image.
struct Filling {
    unplaced: Unplaced,
    image: Option<String>,
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
        let Filling { unplaced, image } = self.filling(&new.caller, id, new.size_gb, new.image_id).await?;
        let (path, now) = (self.path(id), self.env.now().naive_utc());
        self.write(fence, move |conn| {
            if rows::set_status(conn, &id.to_string(), &["creating"], "available", now)? {
                if let Some(image) = &image {
                    rows::set_image(conn, &id.to_string(), image)?;
                }
                rows::set_made(conn, &id.to_string(), unplaced.size, &unplaced.sha256)?;
                // Inside the transaction, under the row's lock: nobody uses the file before the commit.
                bytes_on_disk::place(SERVICE, unplaced, &path)?;
            } else if rows::find(conn, &id.to_string())?.status == "error" {
                return Err(ServiceError::Conflict(format!("Volume {id} was given up while it was made.")).into());
            }
            Ok(())
        })
        .await
    }

    /// Fills the volume of the fence's server again. The old bytes stay until all new bytes are on disk.
    pub(super) async fn reimage(&self, fence: Fence, caller: &RequestContext, id: Uuid, image_id: Uuid) -> Result<(), ServiceError> {
        let size_gb = self.read(move |conn| Ok(rows::by_id(conn, &id.to_string())?.ok_or_else(|| no_volume(id))?.size_gb)).await?;
        let Filling { unplaced, image } = self.filling(caller, id, size_gb, Some(image_id)).await?;
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
            rows::set_image_id(conn, &key, &image_id.to_string())?;
            if let Some(image) = &image {
                rows::set_image(conn, &key, image)?;
            }
            rows::set_made(conn, &key, unplaced.size, &unplaced.sha256)?;
            // Under the row's lock and the fence: a late attempt cannot replace the bytes under a guest that runs again.
            Ok(bytes_on_disk::place(SERVICE, unplaced, &path)?)
        })
        .await
    }

    /// Prepares the bytes of a volume, from an image or empty.
    async fn filling(&self, caller: &RequestContext, id: Uuid, size_gb: i32, image_id: Option<Uuid>) -> Result<Filling, ServiceError> {
        let (image, data) = match image_id {
            Some(image_id) => {
                // Checks the rights again where the bytes are copied: no caller of this service can read an image without the right to it.
                self.images.visible_image(caller, image_id).await?;
                let (image, data) = self.images.download(image_id).await?;
                (Some(image), data)
            }
            None => (None, Box::pin(futures::stream::empty()) as _),
        };
        let unplaced = bytes_on_disk::write(&self.env, SERVICE, &self.folder, data, Some(gibibytes(size_gb)), Keep::Durably).await?;
        if image.as_ref().and_then(|image| image.os_hash_value.as_ref()).is_some_and(|hash| *hash != unplaced.sha256) {
            return Err(ServiceError::Invalid(format!("The bytes of the image of volume {id} do not have the image's checksum.")));
        }
        let image = image.map(|image| image_metadata::of(&image)).transpose()?;
        Ok(Filling { unplaced, image })
    }
}

/// Locks the volume's row. Conflict unless the fence's server alone holds the volume.
fn take_held_alone(conn: &mut Conn, id: Uuid, fence: Fence, now: NaiveDateTime) -> Result<(), TransactionError> {
    let key = id.to_string();
    rows::take(conn, &key, now)?.ok_or_else(|| no_volume(id))?;
    let holders = rows::attachments_of_volume(conn, &key)?;
    if holders.is_empty() || holders.iter().any(|attachment| attachment.server_uuid != fence.server.to_string()) {
        return Err(ServiceError::Conflict(format!("Volume {id} is not held by server {} alone.", fence.server)).into());
    }
    Ok(())
}
