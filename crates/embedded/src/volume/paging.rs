//! Pages of the lists of this API, and the filters that all lists have.

use actix_web::http::{Method, StatusCode};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::paging;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::resource::{Answers, Entry, Query, Shown};
use crate::volume::EmbeddedVolume;
use crate::volume::routes::{Call, bad_request, not_found};

/// The maximum number of entries in one answer.
const LARGEST_PAGE: usize = 1000;

/// A thing that lists show in pages.
pub(super) trait Listed: Shown<Service = EmbeddedVolume> {
    /// The thing in messages.
    const KIND: &'static str;

    fn id(&self) -> Uuid;

    /// Returns what gives the value of a key by which lists are sorted; none for an unknown key.
    fn sort_value(key: &str) -> Option<SortValue<Self>>;
}

/// Returns a thing's value of a sort key.
pub(super) type SortValue<T> = fn(&T) -> String;

/// Implements [`Listed`] for a thing with an id and a time of creation, by which lists can be sorted, and by these keys.
macro_rules! listed {
    ($thing:ty, $kind:literal, $($key:pat => $value:expr),+ $(,)?) => {
        impl $crate::volume::paging::Listed for $thing {
            const KIND: &'static str = $kind;

            fn id(&self) -> uuid::Uuid {
                self.id
            }

            fn sort_value(key: &str) -> Option<$crate::volume::paging::SortValue<$thing>> {
                match key {
                    "id" => Some(|one| one.id.to_string()),
                    "created_at" => Some(|one| $crate::volume::routes::time(one.created_at)),
                    $($key => Some($value),)+
                    _ => None,
                }
            }
        }
    };
}
pub(super) use listed;

/// Parses an id in a path. Other text names nothing, so the answer is 404.
pub(super) fn id_of<T: Listed>(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| not_found(T::KIND, text))
}

/// A page of a list.
struct Page<T> {
    /// In the order of the list.
    entries: Vec<T>,
    /// True if more entries may follow: a full page has a link to the next, as in Cinder, which may be empty.
    more: bool,
    /// The number of matches on all pages, if the caller asked for it.
    count: Option<usize>,
}

/// Returns the project whose things a list shows; none for all projects, which administrators may ask for.
pub(super) fn project<'a>(caller: &'a Caller, query: &'a Query) -> Option<&'a str> {
    let all = caller.0.is_admin() && query.get("all_tenants").is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"));
    let of_project = query.get("project_id").filter(|_| all).map(String::as_str);
    if all { of_project } else { Some(caller.0.project_id.as_str()) }
}

/// Sorts the matching things and returns the page that the query asks for.
fn page<T: Listed>(mut all: Vec<T>, query: &Query) -> Result<Page<T>, ApiError> {
    sort(&mut all, query)?;
    let count = all.len();
    if let Some(marker) = query.get("marker").filter(|marker| !paging::begin_after(&mut all, |one| one.id().to_string() == **marker)) {
        return Err(not_found(T::KIND, marker));
    }
    let number = |key: &str| query.get(key).map(|text| text.parse::<usize>().map_err(|_| bad_request(format!("{key} must be a number."))));
    let offset = number("offset").transpose()?.unwrap_or(0).min(all.len());
    all.drain(..offset);
    let limit = number("limit").transpose()?.unwrap_or(LARGEST_PAGE).min(LARGEST_PAGE);
    let more = limit > 0 && all.len() >= limit;
    all.truncate(limit);
    let with_count = query.get("with_count").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    Ok(Page { entries: all, more, count: with_count.then_some(count) })
}

/// Sorts by `sort` (`key:direction,…`), or by the older `sort_key` and `sort_dir`. Without them the newest comes first.
fn sort<T: Listed>(entries: &mut [T], query: &Query) -> Result<(), ApiError> {
    let older = || query.get("sort_key").map(|key| format!("{key}:{}", query.get("sort_dir").map_or("desc", String::as_str)));
    let Some(order) = query.get("sort").cloned().or_else(older) else { return Ok(()) };
    let mut keys: Vec<(SortValue<T>, bool)> = Vec::new();
    for word in order.split(',') {
        let (key, direction) = word.trim().split_once(':').unwrap_or((word.trim(), "desc"));
        let value = T::sort_value(key).ok_or_else(|| bad_request(format!("Invalid input received: Invalid sort key: {key}.")))?;
        match direction {
            "asc" => keys.push((value, false)),
            "desc" => keys.push((value, true)),
            other => return Err(bad_request(format!("Invalid input received: Invalid sort direction: {other}."))),
        }
    }
    paging::sort(entries, &keys, |one, value| value(one));
    Ok(())
}

/// Returns a number as text of equal width, so that texts compare as the numbers do.
pub(super) fn sortable(number: i32) -> String {
    format!("{number:010}")
}

impl<T: Listed> Answers<T> for EmbeddedVolume {
    const DELETED: StatusCode = StatusCode::ACCEPTED;
    const UPDATE: Method = Method::PUT;

    /// The body has a link to the next page only if more entries may follow.
    fn listed(call: &Call, query: &Query, all: Vec<T>, entry: Entry<T, EmbeddedVolume>) -> Result<Value, ApiError> {
        let page = page(all, query)?;
        let entries: Vec<Value> = page.entries.iter().map(|one| entry(one, call)).collect();
        let mut body = json!({T::COLLECTION: entries});
        if let Some(last) = page.entries.last().filter(|_| page.more) {
            let href = paging::next(&call.request, &["marker", "offset"], &last.id().to_string());
            body[format!("{}_links", T::COLLECTION)] = json!([{"rel": "next", "href": href}]);
        }
        if let Some(count) = page.count.filter(|_| call.version.at_least(45)) {
            body["count"] = json!(count);
        }
        Ok(body)
    }
}
