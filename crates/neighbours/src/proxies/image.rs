//! Images, for `/images` of the compute API.

use std::collections::BTreeMap;

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use uuid::Uuid;

use crate::ServiceError;
use crate::image::{Image, ImageService};

/// Selects images. An empty selection has all.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ImageSelection {
    pub name: Option<String>,
    /// In the image service's words: `active`, `queued`, ….
    pub status: Option<String>,
    /// All of these, with these values.
    pub properties: BTreeMap<String, String>,
}

/// A change of an image's custom properties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PropertyChange {
    /// Sets these, and removes all others.
    Replace(BTreeMap<String, String>),
    /// Sets these, and leaves the others.
    Merge(BTreeMap<String, String>),
    /// Removes the property with this name, if the image has it.
    Remove(String),
}

/// The image service's interface for the compute API's proxies.
#[async_trait]
pub trait ImageProxy: ImageService {
    /// Returns the selected images that the caller may see, newest first.
    async fn select_images(&self, caller: &RequestContext, selection: ImageSelection) -> Result<Vec<Image>, ServiceError>;
    /// Changes an image's properties at once, whatever others change meanwhile, and returns the image. Forbidden if the caller may only see
    /// the image.
    async fn change_properties(&self, caller: &RequestContext, id: Uuid, change: PropertyChange) -> Result<Image, ServiceError>;
    /// Deletes an image for the caller. Forbidden if the caller may only see the image, or while it is protected.
    async fn delete_image_for(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError>;
}
