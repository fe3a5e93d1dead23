//! The image and network services as hosts see them.

use std::sync::Arc;

use async_trait::async_trait;
use cellshift_host::{ImageBytes, Images, NeighbourError, Plugging, Ports};
use uuid::Uuid;

use crate::domain::reason;
use crate::env::streams::{ByteStream, Keep};
use crate::services::ServiceError;
use crate::services::image::{Image, ImageService};
use crate::services::network::NetworkService;

/// The images of the image service.
pub struct ServiceImages(pub Arc<dyn ImageService>);

/// The ports of the network service.
pub struct ServicePorts(pub Arc<dyn NetworkService>);

#[async_trait]
impl Images for ServiceImages {
    async fn image(&self, id: Uuid) -> Result<ImageBytes, NeighbourError> {
        self.0.image(id).await.map(bytes_of).map_err(for_host)
    }

    async fn download(&self, id: Uuid) -> Result<(ImageBytes, ByteStream), NeighbourError> {
        let (image, data) = self.0.download(id).await.map_err(for_host)?;
        Ok((bytes_of(image), data))
    }

    async fn upload(&self, id: Uuid, data: ByteStream, keep: Keep) -> Result<String, NeighbourError> {
        let stored = match keep {
            Keep::Durably => self.0.upload(id, data).await,
            Keep::InPassing => self.0.upload_in_passing(id, data).await,
        };
        stored.map_err(for_host)
    }
}

#[async_trait]
impl Ports for ServicePorts {
    async fn plugging(&self, port: Uuid, host: &str) -> Result<Plugging, NeighbourError> {
        let port = self.0.port(port).await.map_err(for_host)?;
        let binding = port.bindings.iter().find(|binding| binding.host == host && binding.plugged);
        Ok(match binding {
            Some(binding) if binding.status == "ACTIVE" => Plugging::Confirmed,
            Some(_) => Plugging::Plugged,
            None => Plugging::Unplugged,
        })
    }

    async fn set_plugged(&self, port: Uuid, host: &str, plugged: bool) -> Result<(), NeighbourError> {
        self.0.set_plugged(port, host, plugged).await.map_err(for_host)
    }
}

fn bytes_of(image: Image) -> ImageBytes {
    ImageBytes { size: image.size.and_then(|size| u64::try_from(size).ok()), sha256: image.os_hash_value }
}

fn for_host(error: ServiceError) -> NeighbourError {
    match error {
        ServiceError::NotFound(reason) => NeighbourError::Missing(reason),
        ServiceError::Conflict(reason) => NeighbourError::Conflict(reason),
        ServiceError::Unavailable { .. } => NeighbourError::Unavailable(reason!("{error}")),
        ServiceError::Invalid(reason)
        | ServiceError::Forbidden(reason)
        | ServiceError::OverLimit(reason)
        | ServiceError::NotImplemented(reason)
        | ServiceError::Stale(reason) => NeighbourError::Refused(reason),
    }
}
