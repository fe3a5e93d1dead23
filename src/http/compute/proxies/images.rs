//! `/images`: the images that a caller may see, in the form of the compute API.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::{HttpRequest, web};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Images, is_there};
use crate::domain::context::RequestContext;
use crate::domain::moment;
use crate::http::base_url;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, empty, forbidden, links, not_found, ok};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::query::Query;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::microversion::ApiVersion;
use crate::http::roles;
use crate::http::schema::is_true;
use crate::services::ServiceError;
use crate::services::image::Image;
use crate::services::proxies::{ImageProxy, ImageSelection};

/// The maximum number of properties that a list is filtered by: no image of Glance's has more.
const MAX_PROPERTIES: usize = 128;

pub(super) fn routes(config: &mut web::ServiceConfig) {
    let one = web::resource("/images/{id}").route(web::get().to(show)).route(web::delete().to(delete));
    config
        .service(web::resource("/images").wrap(from_fn(roles::by_method)).route(web::get().to(index)))
        .service(web::resource("/images/detail").wrap(from_fn(roles::by_method)).route(web::get().to(detail)))
        .service(one.wrap(from_fn(roles::by_method)));
}

async fn index(Call { request, api: images, catalog, caller, version }: Call<dyn ImageProxy>) -> Answer {
    list(&images, &catalog, &caller.0, version, &request, "images", brief).await
}

async fn detail(Call { request, api: images, catalog, caller, version }: Call<dyn ImageProxy>) -> Answer {
    list(&images, &catalog, &caller.0, version, &request, "images/detail", whole).await
}

async fn list(
    images: &Images,
    catalog: &Catalog,
    caller: &RequestContext,
    version: ApiVersion,
    request: &HttpRequest,
    collection: &str,
    view: fn(&HttpRequest, &Image) -> Value,
) -> Answer {
    is_there(version)?;
    let query = Query::of(request)?;
    let filters = Filters::read(&query)?;
    let mut selected = images.select_images(caller, filters.selection()?).await.map_err(failed)?;
    selected.retain(|image| filters.has(image));
    let page = query.page(catalog.max_limit)?;
    let selected = page.cut(selected, |image| image.id.to_string())?;
    let mut body = json!({"images": selected.iter().map(|image| view(request, image)).collect::<Vec<_>>()});
    if let Some(next) = page.next(request, &query, collection, selected.len(), selected.last().map(|image| image.id.to_string())) {
        body["images_links"] = next;
    }
    ok(&body)
}

async fn show(Call { request, api: images, caller, version, .. }: Call<dyn ImageProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    let image = visible(&images, &caller.0, &id).await?;
    ok(&json!({"image": whole(&request, &image)}))
}

async fn delete(Call { api: images, caller, version, .. }: Call<dyn ImageProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    let image = visible(&images, &caller.0, &id).await?;
    images.delete_image_for(&caller.0, image.id).await.map_err(|error| match error {
        ServiceError::Forbidden(_) => forbidden("You are not allowed to delete the image."),
        other => failed(other),
    })?;
    empty(StatusCode::NO_CONTENT)
}

/// Returns an image that the caller may see. 404 for other ids and other text.
pub(super) async fn visible(images: &Images, caller: &RequestContext, id: &str) -> Result<Image, ApiError> {
    let id = Uuid::parse_str(id).map_err(|_| absent())?;
    images.visible_image(caller, id).await.map_err(failed)
}

/// Converts an error of the image service.
pub(super) fn failed(error: ServiceError) -> ApiError {
    match error {
        ServiceError::NotFound(_) => absent(),
        other => ApiError::from_service(ErrorForm::Compute, other),
    }
}

fn absent() -> ApiError {
    not_found("Image not found.")
}

/// The filters of a list. Nova ignores all other parameters.
struct Filters<'a> {
    query: &'a Query,
    changed_since: Option<DateTime<Utc>>,
    min_ram: Option<i32>,
    min_disk: Option<i32>,
}

impl Filters<'_> {
    fn read(query: &Query) -> Result<Filters<'_>, ApiError> {
        let number = |key: &str| match query.get(key).map(str::parse) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(bad_request(format!("Invalid input for query parameters {key}. It is not a number."))),
        };
        Ok(Filters { query, changed_since: query.moment("changes-since")?, min_ram: number("minRam")?, min_disk: number("minDisk")? })
    }

    /// Returns the filters that the image service has itself.
    fn selection(&self) -> Result<ImageSelection, ApiError> {
        let mut properties = BTreeMap::new();
        for key in self.query.names() {
            let value = self.query.get(key).unwrap_or_default();
            let (property, value) = match key {
                // A server may be named by its URL.
                "server" => ("instance_uuid", value.rsplit('/').next().unwrap_or(value)),
                "type" => ("image_type", value),
                _ => match key.strip_prefix("property-") {
                    Some(property) => (property, value),
                    None => continue,
                },
            };
            properties.insert(property.to_owned(), value.to_owned());
        }
        if properties.len() > MAX_PROPERTIES {
            return Err(bad_request(format!("A list takes at most {MAX_PROPERTIES} properties to filter by.")));
        }
        let (name, status) = (self.query.get("name").map(str::to_owned), self.query.get("status").map(str::to_lowercase));
        Ok(ImageSelection { name, status, properties })
    }

    fn has(&self, image: &Image) -> bool {
        self.changed_since.is_none_or(|since| image.updated_at >= since)
            && self.min_ram.is_none_or(|ram| image.min_ram == ram)
            && self.min_disk.is_none_or(|disk| image.min_disk == disk)
    }
}

fn brief(request: &HttpRequest, image: &Image) -> Value {
    json!({"id": image.id, "name": image.name, "links": all_links(request, image)})
}

fn whole(request: &HttpRequest, image: &Image) -> Value {
    let (status, progress) = status_of(image);
    let mut body = json!({
        "id": image.id,
        "name": image.name,
        "minRam": image.min_ram,
        "minDisk": image.min_disk,
        "metadata": image.properties,
        "created": time(image.created_at),
        "updated": time(image.updated_at),
        "status": status,
        "progress": progress,
        "OS-EXT-IMG-SIZE:size": image.size.unwrap_or(0),
        "links": all_links(request, image),
    });
    if let Some(server) = image.properties.get("instance_uuid") {
        body["server"] = json!({"id": server, "links": links(request, "servers", server)});
    }
    if let Some(automatic) = image.properties.get("auto_disk_config") {
        body["OS-DCF:diskConfig"] = json!(if is_true(automatic) { "AUTO" } else { "MANUAL" });
    }
    body
}

/// Returns the compute API's words for the image's status, and its progress in percent.
fn status_of(image: &Image) -> (&'static str, u8) {
    match image.status.as_str() {
        "active" => ("ACTIVE", 100),
        "queued" => ("SAVING", 25),
        "saving" => ("SAVING", 50),
        "deleted" | "pending_delete" => ("DELETED", 0),
        "killed" => ("ERROR", 0),
        _ => ("UNKNOWN", 0),
    }
}

fn all_links(request: &HttpRequest, image: &Image) -> Value {
    let mut all = links(request, "images", &image.id.to_string());
    let href = format!("{}/image/v2/images/{}", base_url::of(request), image.id);
    if let Some(all) = all.as_array_mut() {
        all.push(json!({"rel": "alternate", "type": "application/vnd.openstack.image", "href": href}));
    }
    all
}

fn time(time: DateTime<Utc>) -> String {
    moment::seconds(time)
}
