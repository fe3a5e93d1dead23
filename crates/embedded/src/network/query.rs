//! The query of a list: filters, fields, order and pages.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::paging;
use serde_json::{Map, Value, json};

use super::routes::error;
use super::values::as_flag;

/// More than any resource has attributes.
const SORT_KEYS_MAX: usize = 32;
/// The maximum number of alternatives of the filter by addresses.
const ADDRESSES_MAX: usize = 100;

/// A parsed query of a list.
pub(super) struct ListQuery {
    fields: BTreeSet<String>,
    filters: BTreeMap<String, BTreeSet<String>>,
    order: Vec<(String, bool)>,
    limit: Option<usize>,
    marker: Option<String>,
}

impl ListQuery {
    /// Parses a request's query. Repeated names are alternatives.
    pub(super) fn of(request: &HttpRequest) -> Result<ListQuery, ApiError> {
        let invalid = |what: &str| error(StatusCode::BAD_REQUEST, format!("Invalid query: {what}"));
        let pairs = web::Query::<Vec<(String, String)>>::from_query(request.query_string()).map_err(|e| invalid(&e.to_string()))?;
        let mut query = ListQuery { fields: BTreeSet::new(), filters: BTreeMap::new(), order: Vec::new(), limit: None, marker: None };
        let mut directions = Vec::new();
        for (name, value) in pairs.into_inner() {
            match name.as_str() {
                "fields" => query.fields.extend([value]),
                "sort_key" => query.order.push((value, false)),
                "sort_dir" => match value.as_str() {
                    "asc" | "desc" => directions.push(value == "desc"),
                    _ => return Err(invalid("sort_dir is asc or desc")),
                },
                "limit" => query.limit = Some(value.parse().map_err(|_| invalid("limit is not a number"))?),
                "marker" => query.marker = Some(value),
                "page_reverse" => {}
                _ => {
                    query.filters.entry(name).or_default().insert(value);
                }
            }
        }
        if query.order.len() > SORT_KEYS_MAX {
            return Err(invalid(&format!("there are at most {SORT_KEYS_MAX} sort keys")));
        }
        if query.filters.get("fixed_ips").is_some_and(|addresses| addresses.len() > ADDRESSES_MAX) {
            return Err(invalid(&format!("there are at most {ADDRESSES_MAX} filters by address")));
        }
        for (key, descending) in query.order.iter_mut().zip(directions) {
            key.1 = descending;
        }
        Ok(query)
    }

    /// Returns the value of a filter with a single value, which the database can apply.
    pub(super) fn only(&self, name: &str) -> Option<String> {
        self.filters.get(name).filter(|values| values.len() == 1).and_then(|values| values.first().cloned())
    }

    /// Returns the matching part of `items` under the collection's name.
    pub(super) fn answer(&self, request: &HttpRequest, collection: &str, items: Vec<Value>) -> Result<HttpResponse, ApiError> {
        let mut page = Vec::new();
        for item in items {
            if self.matches(&item)? {
                page.push(item);
            }
        }
        paging::sort(&mut page, &self.order, |item, key| text(&item[key.as_str()]));
        if let Some(marker) = self.marker.as_deref().filter(|marker| !paging::begin_after(&mut page, |item| item["id"] == *marker)) {
            return Err(error(StatusCode::BAD_REQUEST, format!("The marker {marker} could not be found.")));
        }
        let more = self.limit.is_some_and(|limit| limit > 0 && page.len() > limit);
        if let Some(limit) = self.limit.filter(|limit| *limit > 0) {
            page.truncate(limit);
        }
        let mut body = Map::new();
        if more {
            let marker = page.last().map(|item| text(&item["id"])).unwrap_or_default();
            body.insert(format!("{collection}_links"), json!([{"rel": "next", "href": paging::next(request, &["marker"], &marker)}]));
        }
        body.insert(collection.to_owned(), page.into_iter().map(|item| self.reduced(item)).collect());
        Ok(HttpResponse::Ok().json(body))
    }

    /// Returns one resource with the requested fields.
    pub(super) fn one(&self, name: &str, item: Value) -> HttpResponse {
        HttpResponse::Ok().json(json!({ name: self.reduced(item) }))
    }

    fn reduced(&self, mut item: Value) -> Value {
        if let Some(map) = item.as_object_mut().filter(|_| !self.fields.is_empty()) {
            map.retain(|name, _| self.fields.contains(name));
        }
        item
    }

    /// True if the item passes all filters.
    pub(super) fn matches(&self, item: &Value) -> Result<bool, ApiError> {
        for (name, options) in &self.filters {
            let matched = match (name.as_str(), item.get(name)) {
                ("fixed_ips", Some(fixed)) => options.iter().any(|filter| has_address(fixed, filter)),
                ("tags" | "tags-any" | "not-tags" | "not-tags-any", _) => tags_match(name, &item["tags"], options),
                (_, Some(Value::Array(held))) => held.iter().any(|value| options.contains(&text(value))),
                (_, Some(value)) => is_one_of(name, value, options)?,
                (_, None) => return Err(error(StatusCode::BAD_REQUEST, format!("[{name}] is invalid attribute for filtering"))),
            };
            if !matched {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Answers 400 if a filter's value cannot be a value of the attribute, which is a flag or a number.
fn is_one_of(name: &str, value: &Value, options: &BTreeSet<String>) -> Result<bool, ApiError> {
    let wrong = |text: &str, what: &str| {
        error(StatusCode::BAD_REQUEST, format!("Invalid input for operation: '{text}' is not {what}, as the filter {name} needs it."))
    };
    match value {
        Value::Bool(held) => options.iter().try_fold(false, |any, text| match as_flag(text) {
            Some(flag) => Ok(any || flag == *held),
            None => Err(wrong(text, "a boolean")),
        }),
        Value::Number(_) => match options.iter().find(|text| text.parse::<i64>().is_err()) {
            Some(text) => Err(wrong(text, "an integer")),
            None => Ok(options.contains(&text(value))),
        },
        other => Ok(options.contains(&text(other))),
    }
}

/// Matches `ip_address=A`, `subnet_id=S` or `ip_address_substr=A`.
fn has_address(fixed_ips: &Value, filter: &str) -> bool {
    let Some((key, filter)) = filter.split_once('=') else { return false };
    fixed_ips.as_array().into_iter().flatten().any(|fixed| match key {
        "ip_address_substr" => text(&fixed["ip_address"]).contains(filter),
        key => fixed.get(key).is_some_and(|held| text(held) == filter),
    })
}

fn tags_match(filter: &str, held: &Value, lists: &BTreeSet<String>) -> bool {
    let held: BTreeSet<&str> = held.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let has = |tag: &str| held.contains(tag);
    let mut tags = lists.iter().flat_map(|tags| tags.split(','));
    match filter {
        "tags-any" => tags.any(has),
        "not-tags" => !tags.all(has),
        "not-tags-any" => !tags.any(has),
        _ => tags.all(has),
    }
}
