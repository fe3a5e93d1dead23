//! The query of a list of images: filters, order and page.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use cellshift_web::base_url::escape;
use cellshift_web::error::{ApiError, ErrorForm, Message};
use cellshift_web::paging;
use uuid::Uuid;

use crate::image::Image;
use crate::image::ImageFilter;
use crate::image::limits::MOST;

/// The maximum number of images on a page, and the default.
const LIMIT_MAX: usize = 1000;
/// The maximum number of values of one filter, because each becomes a value in SQL.
const MOST_CHOICES: usize = 1000;
const SORT_KEYS: [&str; 8] = ["name", "status", "container_format", "disk_format", "size", "id", "created_at", "updated_at"];

/// A parsed query.
#[derive(Debug)]
pub(in crate::image) struct Listing {
    pub filter: ImageFilter,
    /// Sort keys, each with whether it is descending.
    sort: Vec<(String, bool)>,
    limit: usize,
    marker: Option<Uuid>,
    /// The parameters without the marker, for the links.
    query: Vec<(String, String)>,
}

impl Listing {
    /// Returns the path of the first page, or of the page after `marker`, without scheme and host, as clients expect.
    pub(in crate::image) fn link(&self, marker: Option<Uuid>) -> String {
        let marker = marker.map(|marker| ("marker".to_owned(), marker.to_string()));
        let pairs: Vec<String> =
            self.query.iter().cloned().chain(marker).map(|(key, value)| format!("{}={}", escape(&key), escape(&value))).collect();
        if pairs.is_empty() { "/v2/images".to_owned() } else { format!("/v2/images?{}", pairs.join("&")) }
    }
}

/// Parses the query. Unknown parameters are filters by a property's value.
pub(in crate::image) fn read(query: Vec<(String, String)>) -> Result<Listing, ApiError> {
    let mut listing = Listing { filter: ImageFilter::default(), sort: Vec::new(), limit: LIMIT_MAX, marker: None, query: Vec::new() };
    let (mut sort_keys, mut sort_dirs) = (Vec::new(), Vec::new());
    for (key, value) in query {
        if key != "marker" {
            listing.query.push((key.clone(), value.clone()));
        }
        let filter = &mut listing.filter;
        match key.as_str() {
            "id" => filter.query.ids = Some(choices(&key, &value)?),
            "name" => filter.query.names = Some(choices(&key, &value)?),
            "status" => filter.query.statuses = Some(choices(&key, &value)?),
            "owner" => filter.query.owner = Some(value),
            "visibility" => filter.visibility = Some(value),
            "member_status" => filter.member_status = Some(value),
            "tag" => filter.tags.push(value),
            "protected" => filter.protected = Some(flag(&key, &value)?),
            "os_hidden" => filter.hidden = flag(&key, &value)?,
            "disk_format" => filter.disk_format = Some(value),
            "container_format" => filter.container_format = Some(value),
            "size_min" => filter.size_min = Some(number(&key, &value)?),
            "size_max" => filter.size_max = Some(number(&key, &value)?),
            "limit" => {
                listing.limit = usize::try_from(number(&key, &value)?).map_err(|_| bad("limit must not be negative."))?.min(LIMIT_MAX)
            }
            "marker" => listing.marker = Some(Uuid::parse_str(&value).map_err(|_| bad(format!("Image {value} is no marker.")))?),
            "sort_key" => sort_keys.push(value),
            "sort_dir" => sort_dirs.push(value),
            "sort" => listing.sort = value.split(',').map(read_sort).collect::<Result<_, _>>()?,
            _ => {
                filter.properties.insert(key, value);
            }
        }
    }
    for (at, key) in sort_keys.into_iter().enumerate() {
        let direction = sort_dirs.get(at).or(sort_dirs.first()).map_or("desc", String::as_str);
        listing.sort.push(read_sort(&format!("{key}:{direction}"))?);
    }
    // A repeated key has no effect.
    let mut seen = BTreeSet::new();
    listing.sort.retain(|(key, _)| seen.insert(key.clone()));
    // No image has more tags or properties.
    if listing.filter.tags.len() > MOST || listing.filter.properties.len() > MOST {
        return Err(bad(format!("A list takes at most {MOST} tags and {MOST} properties to filter by.")));
    }
    Ok(listing)
}

/// Returns the page of the images, which come newest first, and the marker of the next page.
pub(in crate::image) fn page(mut images: Vec<Image>, listing: &Listing) -> Result<(Vec<Image>, Option<Uuid>), ApiError> {
    paging::sort(&mut images, &listing.sort, |image, key| sort_value(image, key));
    if let Some(marker) = listing.marker.filter(|marker| !paging::begin_after(&mut images, |image| image.id == *marker)) {
        return Err(bad(format!("Image {marker} is no marker.")));
    }
    let more = images.len() > listing.limit;
    images.truncate(listing.limit);
    let next = images.last().filter(|_| more).map(|image| image.id);
    Ok((images, next))
}

fn sort_value(image: &Image, key: &str) -> (i64, String) {
    let text = |text: &Option<String>| (0, text.clone().unwrap_or_default());
    match key {
        "name" => text(&image.name),
        "status" => (0, image.status.clone()),
        "container_format" => text(&image.container_format),
        "disk_format" => text(&image.disk_format),
        "size" => (image.size.unwrap_or(0), String::new()),
        "id" => (0, image.id.to_string()),
        "updated_at" => (image.updated_at.timestamp_micros(), String::new()),
        _ => (image.created_at.timestamp_micros(), String::new()),
    }
}

fn read_sort(text: &str) -> Result<(String, bool), ApiError> {
    let (key, direction) = text.split_once(':').unwrap_or((text, "desc"));
    let descending = match direction {
        "asc" => false,
        "desc" => true,
        other => return Err(bad(format!("Sort direction {other} is neither asc nor desc."))),
    };
    if !SORT_KEYS.contains(&key) {
        return Err(bad(format!("Images cannot be sorted by {key}.")));
    }
    Ok((key.to_owned(), descending))
}

/// Parses a filter: `in:a,b` means any of the values, other text is one value. A value in double quotes may contain commas.
fn choices(key: &str, value: &str) -> Result<Vec<String>, ApiError> {
    let Some(list) = value.strip_prefix("in:") else { return Ok(vec![value.to_owned()]) };
    let (mut all, mut current, mut quoted) = (Vec::new(), String::new(), false);
    for letter in list.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(std::mem::take(&mut current)),
            letter => current.push(letter),
        }
    }
    all.push(current);
    match all.len() <= MOST_CHOICES {
        true => Ok(all),
        false => Err(bad(format!("A filter takes at most {MOST_CHOICES} values: {key} has {}.", all.len()))),
    }
}

fn flag(key: &str, value: &str) -> Result<bool, ApiError> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(bad(format!("{key} must be true or false, not {other}."))),
    }
}

fn number(key: &str, value: &str) -> Result<i64, ApiError> {
    value.parse().map_err(|_| bad(format!("{key} must be a number, not {value}.")))
}

fn bad(message: impl Message) -> ApiError {
    ApiError::new(ErrorForm::Image, StatusCode::BAD_REQUEST, message)
}
