//! Import and deactivation of images, as users ask for them. A staged image's bytes are stored where an active one's are; the import makes
//! them the image's.

pub mod routes;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use uuid::Uuid;

use super::{EmbeddedImage, Image, ImageData, Keep, rows};
use crate::ServiceError;
use crate::image::tasks::records as tasks;
use crate::transaction::Transactions;

impl EmbeddedImage {
    /// Stores the bytes of the caller's image for a later import.
    pub async fn stage(&self, id: Uuid, data: ImageData) -> Result<(), ServiceError> {
        self.take_first(id, data, Keep::Durably, "uploading").await.map(drop)
    }

    /// Makes the staged bytes of the caller's image its own. Conflict if nothing is staged, or the image's formats are not set.
    pub async fn import_staged(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        let image = self.own_image(caller, id).await?;
        for (name, format) in [("disk_format", &image.disk_format), ("container_format", &image.container_format)] {
            if format.is_none() {
                return Err(ServiceError::Conflict(reason!("'{name}' needs to be set before import")));
            }
        }
        let (task, now) = (self.task(caller, id, "glance-direct"), self.env.now().naive_utc());
        let imported = self.write(None, move |conn| {
            let turned = rows::set_status(conn, &id.to_string(), &["uploading"], "active", now)?;
            if turned {
                tasks::insert(conn, &task)?;
            }
            Ok(turned)
        });
        match imported.await? {
            true => Ok(()),
            false => Err(ServiceError::Conflict("Image needs to be staged before 'glance-direct' method can be used".into())),
        }
    }

    /// Forbids, or allows again, to read and to use an image of the caller's. Succeeds if it is so already. Forbidden for an image without
    /// bytes.
    pub async fn set_usable(&self, caller: &RequestContext, id: Uuid, usable: bool) -> Result<(), ServiceError> {
        let Image { status, .. } = self.own_image(caller, id).await?;
        let (from, to, verb) = match usable {
            true => ("deactivated", "active", "reactivate"),
            false => ("active", "deactivated", "deactivate"),
        };
        if status == to || self.turn(id, from, to).await? {
            return Ok(());
        }
        Err(ServiceError::Forbidden(reason!("Not allowed to {verb} image in status '{status}'")))
    }

    /// Turns one status into another. False if the image has none of the first.
    async fn turn(&self, id: Uuid, from: &'static str, to: &'static str) -> Result<bool, ServiceError> {
        let now = self.env.now().naive_utc();
        self.write(None, move |conn| Ok(rows::set_status(conn, &id.to_string(), &[from], to, now)?)).await
    }
}
