//! Uploads of volumes' bytes to the image service.

pub(super) mod routes;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason::Reason;
use uuid::Uuid;

use crate::transaction::Transactions;
use crate::volume::{EmbeddedVolume, SERVICE, Volume, rows};
use crate::{ServiceError, bytes_on_disk};

/// The status during an upload: nothing else may use the volume.
pub(super) const UPLOADING: &str = "uploading";

impl EmbeddedVolume {
    /// Marks one of the caller's volumes as `uploading`. Conflict unless it is available.
    pub async fn begin_upload(&self, caller: &RequestContext, id: Uuid) -> Result<Volume, ServiceError> {
        let now = self.env.now().naive_utc();
        let begin = move |conn: &mut _, row: &mut rows::VolumeRow| match rows::set_status(conn, &row.id, &["available"], UPLOADING, now)? {
            true => Ok(()),
            false => {
                let message = format!("Invalid volume: Volume {id} status must be available, but current status is: {}.", row.status);
                Err(ServiceError::Conflict(Reason::public(message)).into())
            }
        };
        self.change(caller, id, begin).await
    }

    /// Stores the bytes of an `uploading` volume in an image that has none, up to the last written byte: all bytes behind it are zero.
    /// The volume is available again, whether this succeeds or not.
    pub async fn upload_to(&self, id: Uuid, image: Uuid) -> Result<(), ServiceError> {
        let uploaded = self.upload_bytes(id, image).await;
        self.end_upload(id).await?;
        uploaded
    }

    async fn upload_bytes(&self, id: Uuid, image: Uuid) -> Result<(), ServiceError> {
        let length = bytes_on_disk::written_length(&self.env, SERVICE, self.path(id)).await?;
        let data = bytes_on_disk::read_part(&self.env, SERVICE, self.path(id), 0, length).await?;
        self.images.upload(image, data).await.map(|_| ())
    }

    /// Ends an upload: the volume is available again.
    pub async fn end_upload(&self, id: Uuid) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        self.write(None, move |conn| Ok(rows::set_status(conn, &id.to_string(), &[UPLOADING], "available", now)?)).await.map(|_| ())
    }
}
