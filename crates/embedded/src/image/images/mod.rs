//! Image records as users of the API see and change them. Checks the caller's rights: an image that the caller may not see is reported as
//! missing.

pub mod attributes;
pub mod data;
pub mod listing;
pub mod records;
pub mod routes;
pub mod tags;

use std::collections::BTreeMap;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use uuid::Uuid;

use super::{EmbeddedImage, Image, limits, load, load_list, no_image, to_row};
use crate::ServiceError;
use crate::image::ImageService;
use crate::image::members::records as members;
use crate::transaction::Transactions;
use records::ImageQuery;

/// An image to make for a user.
#[derive(Clone, Default, Debug)]
pub struct NewImage {
    /// The user's choice; none makes a new id.
    pub id: Option<Uuid>,
    pub name: Option<String>,
    /// None means `shared`.
    pub visibility: Option<String>,
    /// None means the caller's project. Only an administrator may name another.
    pub owner: Option<String>,
    pub disk_format: Option<String>,
    pub container_format: Option<String>,
    pub min_disk: i32,
    pub min_ram: i32,
    pub protected: bool,
    pub hidden: bool,
    pub tags: Vec<String>,
    pub properties: BTreeMap<String, String>,
}

/// Selects images among those visible to the caller.
#[derive(Clone, Default, Debug)]
pub struct ImageFilter {
    pub query: ImageQuery,
    /// `public`, `private`, `shared`, `community` or `all`.
    pub visibility: Option<String>,
    /// `accepted`, `pending`, `rejected` or `all`, for images that others share. None means `accepted`.
    pub member_status: Option<String>,
    pub tags: Vec<String>,
    pub protected: Option<bool>,
    /// True selects hidden images, false the others.
    pub hidden: bool,
    pub disk_format: Option<String>,
    pub container_format: Option<String>,
    /// In bytes.
    pub size_min: Option<i64>,
    pub size_max: Option<i64>,
    pub properties: BTreeMap<String, String>,
}

const DISK_FORMATS: [&str; 11] = ["ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"];
const CONTAINER_FORMATS: [&str; 7] = ["ami", "ari", "aki", "bare", "ovf", "ova", "docker"];
/// From visible to everyone to visible to one project.
const VISIBILITIES: [&str; 4] = ["public", "community", "shared", "private"];

impl EmbeddedImage {
    /// Makes a queued image for the caller.
    pub async fn create(&self, caller: &RequestContext, new: NewImage) -> Result<Image, ServiceError> {
        let now = self.env.now();
        let image = Image {
            id: new.id.unwrap_or_else(|| self.env.uuid()),
            name: new.name,
            status: "queued".into(),
            visibility: new.visibility.unwrap_or_else(|| "shared".into()),
            owner: new.owner.unwrap_or_else(|| caller.project_id.clone()),
            disk_format: new.disk_format,
            container_format: new.container_format,
            min_disk: new.min_disk,
            min_ram: new.min_ram,
            size: None,
            os_hash_value: None,
            protected: new.protected,
            hidden: new.hidden,
            properties: new.properties,
            tags: new.tags,
            members: Vec::new(),
            created_at: now,
            updated_at: now,
        };
        may_write(caller)?;
        check(caller, &image, None)?;
        let row = to_row(&image)?;
        self.write(None, move |conn| {
            if records::by_id(conn, &row.id)?.is_some() {
                return Err(ServiceError::Conflict(reason!("Image ID {} already exists!", row.id)).into());
            }
            Ok(records::insert(conn, &row)?)
        })
        .await?;
        Ok(image)
    }

    /// Returns the image if the caller may change it. Forbidden if the caller may only see it.
    pub async fn own_image(&self, caller: &RequestContext, id: Uuid) -> Result<Image, ServiceError> {
        let image = self.image(id).await?;
        may_change(caller, &image)?;
        Ok(image)
    }

    /// Returns the selected images that the caller may see, newest first.
    pub async fn list(&self, caller: &RequestContext, filter: ImageFilter) -> Result<Vec<Image>, ServiceError> {
        let (query, project) = (filter.query.clone(), caller.project_id.clone());
        let (mut images, memberships) = self
            .read(move |conn| {
                let memberships = members::all_members(conn)?.into_iter().filter(|member| member.member_id == project);
                let memberships: BTreeMap<String, String> = memberships.map(|member| (member.image_id, member.status)).collect();
                Ok((load_list(conn, &query)?, memberships))
            })
            .await?;
        images.retain(|image| is_listed(caller, image, &filter, memberships.get(&image.id.to_string())) && fits(image, &filter));
        Ok(images)
    }

    /// Changes an image with `change`, in one transaction, and checks the result.
    pub async fn update<F>(&self, caller: &RequestContext, id: Uuid, change: F) -> Result<Image, ServiceError>
    where
        F: FnOnce(&mut Image) -> Result<(), ServiceError> + Send + 'static,
    {
        let (caller, now) = (caller.clone(), self.env.now());
        self.write(None, move |conn| {
            let before = load(conn, id)?;
            may_change(&caller, &before)?;
            let mut image = before.clone();
            change(&mut image)?;
            check(&caller, &image, Some(&before))?;
            image.updated_at = now;
            records::update(conn, &to_row(&image)?)?;
            Ok(image)
        })
        .await
    }

    /// Deletes an image for the caller. Forbidden while it is protected.
    pub async fn delete_own(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        let image = self.own_image(caller, id).await?;
        if image.protected {
            return Err(ServiceError::Forbidden(reason!("Image {id} is protected and cannot be deleted.")));
        }
        self.delete(None, id).await
    }

    /// Deletes an image whose upload failed. Leaves an image with bytes.
    pub async fn delete_unfinished(&self, id: Uuid) -> Result<(), ServiceError> {
        match self.image(id).await?.status.as_str() {
            "active" | "deactivated" => Ok(()),
            _ => self.delete(None, id).await,
        }
    }
}

pub(super) fn may_write(caller: &RequestContext) -> Result<(), ServiceError> {
    match caller.has_role("member") || caller.is_admin() {
        true => Ok(()),
        false => Err(ServiceError::Forbidden("You are not authorized to complete this action: it needs the role member.".into())),
    }
}

fn may_change(caller: &RequestContext, image: &Image) -> Result<(), ServiceError> {
    if !image.is_visible_to(caller) {
        return Err(no_image(image.id));
    }
    may_write(caller)?;
    match image.is_own_of(caller) {
        true => Ok(()),
        false => Err(ServiceError::Forbidden(reason!("You are not permitted to modify image {}.", image.id))),
    }
}

/// Checks an image before it is stored. `before` is its former state.
fn check(caller: &RequestContext, image: &Image, before: Option<&Image>) -> Result<(), ServiceError> {
    let invalid = |why: Reason| Err(ServiceError::Invalid(why));
    if !VISIBILITIES.contains(&image.visibility.as_str()) {
        return invalid(reason!("visibility {} is none of {}.", image.visibility, VISIBILITIES.join(", ")));
    }
    if let Some(format) = image.disk_format.as_deref().filter(|format| !DISK_FORMATS.contains(format)) {
        return invalid(reason!("disk_format {format} is none of {}.", DISK_FORMATS.join(", ")));
    }
    if let Some(format) = image.container_format.as_deref().filter(|format| !CONTAINER_FORMATS.contains(format)) {
        return invalid(reason!("container_format {format} is none of {}.", CONTAINER_FORMATS.join(", ")));
    }
    if image.min_disk < 0 || image.min_ram < 0 {
        return invalid("min_disk and min_ram cannot be negative.".into());
    }
    limits::check(image, before)?;
    let admin_only = |what: &str| Err(ServiceError::Forbidden(reason!("You are not authorized to complete {what} action.")));
    if image.visibility == "public" && before.is_none_or(|before| before.visibility != "public") && !caller.is_admin() {
        return admin_only("publicize_image");
    }
    if before.map_or(&caller.project_id, |before| &before.owner) != &image.owner && !caller.is_admin() {
        return admin_only("change the owner");
    }
    Ok(())
}

/// True if a list shows the visible image: it hides others' community images and shared images that were not accepted.
fn is_listed(caller: &RequestContext, image: &Image, filter: &ImageFilter, membership: Option<&String>) -> bool {
    let visibility = filter.visibility.as_deref();
    if visibility.is_some_and(|only| only != "all" && only != image.visibility) {
        return false;
    }
    let owns = image.is_own_of(caller);
    match image.visibility.as_str() {
        "public" => true,
        "community" => owns || matches!(visibility, Some("community" | "all")) || filter.query.ids.is_some(),
        "shared" if !owns => {
            let status_filter = filter.member_status.as_deref().unwrap_or("accepted");
            membership.is_some_and(|status| status_filter == "all" || status == status_filter)
        }
        _ => owns,
    }
}

fn fits(image: &Image, filter: &ImageFilter) -> bool {
    filter.tags.iter().all(|tag| image.tags.contains(tag))
        && filter.protected.is_none_or(|protected| image.protected == protected)
        && (image.hidden == filter.hidden || filter.query.ids.is_some())
        && (filter.disk_format.is_none() || filter.disk_format == image.disk_format)
        && (filter.container_format.is_none() || filter.container_format == image.container_format)
        && filter.size_min.is_none_or(|min| image.size.unwrap_or(0) >= min)
        && filter.size_max.is_none_or(|max| image.size.unwrap_or(0) <= max)
        && filter.properties.iter().all(|(key, value)| image.properties.get(key) == Some(value))
}
