//! What the query of a listing asks for: filters, fields, order, pages.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Map, Value, json};

use super::error;
use crate::http::base_url;
use crate::http::error::ApiError;

/// A listing's query.
pub(super) struct ListQuery {
    fields: BTreeSet<String>,
    filters: BTreeMap<String, Vec<String>>,
    order: Vec<(String, bool)>,
    limit: Option<usize>,
    marker: Option<String>,
}

impl ListQuery {
    /// Reads the query of a request; repeated names are alternatives.
    pub(super) fn of(request: &HttpRequest) -> Result<ListQuery, ApiError> {
        let invalid = |what: &str| error(StatusCode::BAD_REQUEST, format!("Invalid query: {what}"));
        let pairs = web::Query::<Vec<(String, String)>>::from_query(request.query_string()).map_err(|e| invalid(&e.to_string()))?;
        let mut query = ListQuery { fields: BTreeSet::new(), filters: BTreeMap::new(), order: Vec::new(), limit: None, marker: None };
        let mut directions = Vec::new();
        for (name, value) in pairs.into_inner() {
            match name.as_str() {
                "fields" => query.fields.extend([value]),
                "sort_key" => query.order.push((value, false)),
                "sort_dir" => directions.push(value == "desc"),
                "limit" => query.limit = Some(value.parse().map_err(|_| invalid("limit is not a number"))?),
                "marker" => query.marker = Some(value),
                "page_reverse" => {}
                _ => query.filters.entry(name).or_default().push(value),
            }
        }
        for (key, descending) in query.order.iter_mut().zip(directions) {
            key.1 = descending;
        }
        Ok(query)
    }

    /// The value of a filter that is given once: such a one can go into the store's query.
    pub(super) fn only(&self, name: &str) -> Option<String> {
        self.filters.get(name).filter(|values| values.len() == 1).map(|values| values[0].clone())
    }

    /// The answer: what of `items` is asked for, under the collection's name.
    pub(super) fn answer(&self, request: &HttpRequest, collection: &str, items: Vec<Value>) -> Result<HttpResponse, ApiError> {
        let mut kept = Vec::new();
        for item in items {
            if self.matches(&item)? {
                kept.push(item);
            }
        }
        for (key, descending) in self.order.iter().rev() {
            kept.sort_by(|a, b| {
                let order = text(&a[key.as_str()]).cmp(&text(&b[key.as_str()]));
                if *descending { order.reverse() } else { order }
            });
        }
        if let Some(marker) = &self.marker {
            let at = kept.iter().position(|item| item["id"] == marker.as_str());
            let at = at.ok_or_else(|| error(StatusCode::BAD_REQUEST, format!("The marker {marker} could not be found.")))?;
            kept.drain(..=at);
        }
        let more = self.limit.is_some_and(|limit| limit > 0 && kept.len() > limit);
        if let Some(limit) = self.limit.filter(|limit| *limit > 0) {
            kept.truncate(limit);
        }
        let mut body = Map::new();
        if more {
            body.insert(format!("{collection}_links"), json!([{"rel": "next", "href": self.next(request, kept.last())}]));
        }
        body.insert(collection.to_owned(), kept.into_iter().map(|item| self.reduced(item)).collect());
        Ok(HttpResponse::Ok().json(body))
    }

    /// One thing, with the fields asked for.
    pub(super) fn one(&self, name: &str, item: Value) -> HttpResponse {
        HttpResponse::Ok().json(json!({ name: self.reduced(item) }))
    }

    fn next(&self, request: &HttpRequest, last: Option<&Value>) -> String {
        let kept: Vec<&str> = request.query_string().split('&').filter(|part| !part.is_empty() && !part.starts_with("marker=")).collect();
        let marker = last.map(|item| text(&item["id"])).unwrap_or_default();
        format!("{}{}?{}&marker={marker}", base_url::of(request), request.path(), kept.join("&"))
    }

    fn reduced(&self, mut item: Value) -> Value {
        if let Some(map) = item.as_object_mut().filter(|_| !self.fields.is_empty()) {
            map.retain(|name, _| self.fields.contains(name));
        }
        item
    }

    fn matches(&self, item: &Value) -> Result<bool, ApiError> {
        for (name, wanted) in &self.filters {
            let matched = match (name.as_str(), item.get(name)) {
                ("fixed_ips", Some(fixed)) => wanted.iter().any(|wanted| has_address(fixed, wanted)),
                ("tags" | "tags-any" | "not-tags" | "not-tags-any", _) => tags_match(name, &item["tags"], wanted),
                (_, Some(Value::Array(held))) => wanted.iter().any(|wanted| held.iter().any(|value| same(value, wanted))),
                (_, Some(value)) => wanted.iter().any(|wanted| same(value, wanted)),
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

fn same(value: &Value, wanted: &str) -> bool {
    match value {
        Value::Bool(held) => match wanted.to_ascii_lowercase().as_str() {
            "true" | "1" => *held,
            "false" | "0" => !*held,
            _ => false,
        },
        other => text(other) == wanted,
    }
}

/// `ip_address=A`, `subnet_id=S` or `ip_address_substr=A`.
fn has_address(fixed_ips: &Value, wanted: &str) -> bool {
    let Some((key, wanted)) = wanted.split_once('=') else { return false };
    fixed_ips.as_array().into_iter().flatten().any(|fixed| match key {
        "ip_address_substr" => text(&fixed["ip_address"]).contains(wanted),
        key => fixed.get(key).is_some_and(|held| text(held) == wanted),
    })
}

fn tags_match(filter: &str, held: &Value, wanted: &[String]) -> bool {
    let has = |tag: &str| held.as_array().into_iter().flatten().any(|held| held == tag);
    let mut tags = wanted.iter().flat_map(|tags| tags.split(','));
    match filter {
        "tags-any" => tags.any(has),
        "not-tags" => !tags.all(has),
        "not-tags-any" => !tags.any(has),
        _ => tags.all(has),
    }
}
