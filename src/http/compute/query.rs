//! Query strings: the parameters of each microversion, and paging.

use actix_web::HttpRequest;
use actix_web::web::Query as Pairs;
use chrono::{DateTime, NaiveDateTime, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::{bad_request, unavailable};
use super::schema::strict_bool;
use crate::cell_registry::SilentCell;
use crate::domain::reason;
use crate::http::base_url;
use crate::http::error::ApiError;
use crate::http::paging;

/// The characters that a link to a next page escapes.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request's parameters, in order.
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses the request's parameters.
    pub fn of(request: &HttpRequest) -> Result<Query, ApiError> {
        let pairs = Pairs::<Vec<(String, String)>>::from_query(request.query_string());
        Ok(Query { pairs: pairs.map_err(|error| bad_request(format!("Invalid query: {error}.")))?.into_inner() })
    }

    /// Answers 400 for a parameter outside `names`, in microversions that refuse unknown ones.
    pub fn only(&self, names: &[&str]) -> Result<(), ApiError> {
        match self.pairs.iter().find(|(key, _)| !names.contains(&key.as_str())) {
            Some((key, _)) => Err(bad_request(format!("Additional properties are not allowed ('{key}' was unexpected)"))),
            None => Ok(()),
        }
    }

    /// Returns the parameters' names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(key, _)| key.as_str())
    }

    /// Returns the first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a parameter.
    pub fn all(&self, key: &str) -> Vec<&str> {
        self.pairs.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_str()).collect()
    }

    /// Parses a flag; false if it is absent.
    pub fn flag(&self, key: &str) -> Result<bool, ApiError> {
        self.get(key).map_or(Ok(false), strict_bool)
    }

    /// Parses a non-negative integer.
    pub fn number(&self, key: &str) -> Result<Option<usize>, ApiError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(bad_request(format!("Invalid input for query parameters {key}. Value: {text}. It is not a whole number."))),
        }
    }

    /// Parses a moment in ISO 8601; without a zone it is in UTC.
    pub fn moment(&self, key: &str) -> Result<Option<DateTime<Utc>>, ApiError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        // In a query a plus sign arrives as a blank unless the client escaped it.
        parse_moment(&text.replace(' ', "+")).or_else(|| parse_moment(text)).map(Some).ok_or_else(|| {
            bad_request(format!("Invalid input for query parameters {key}. Value: {text}. It is not a date and time in ISO 8601."))
        })
    }

    /// Parses an id. 400 if it is not a UUID.
    pub fn uuid(&self, key: &str) -> Result<Option<Uuid>, ApiError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match Uuid::parse_str(text) {
            Ok(uuid) => Ok(Some(uuid)),
            Err(_) => Err(bad_request(format!("Invalid input for query parameters {key}. Value: {text}. It is not a UUID."))),
        }
    }

    /// Returns the requested page of at most `most` entries. A limit of 0 requests an empty page, as in Nova.
    pub fn page(&self, most: usize) -> Result<Page, ApiError> {
        Ok(Page { limit: self.number("limit")?.unwrap_or(most).min(most), marker: self.get("marker").map(str::to_owned) })
    }

    /// Returns the limit of a list without markers, at most `most`. A limit of 0 means no limit there, as in Nova.
    pub fn limit(&self, most: usize) -> Result<usize, ApiError> {
        Ok(self.number("limit")?.filter(|limit| *limit > 0).unwrap_or(most).min(most))
    }
}

/// Parses a date and time in ISO 8601, with or without a zone.
pub fn parse_moment(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(at.with_timezone(&Utc));
    }
    let naive = text.trim_end_matches('Z');
    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(naive, format).ok())
        .or_else(|| chrono::NaiveDate::parse_from_str(naive, "%Y-%m-%d").ok().and_then(|day| day.and_hms_opt(0, 0, 0)))
        .map(|at| at.and_utc())
        .or_else(|| DateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f%z").ok().map(|at| at.with_timezone(&Utc)))
}

/// A page of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The maximum number of entries.
    pub limit: usize,
    /// The page begins after this entry.
    pub marker: Option<String>,
}

impl Page {
    /// Cuts the page out of the whole ordered list. 400 if no element has the marker.
    pub fn cut<T>(&self, mut all: Vec<T>, id: impl Fn(&T) -> String) -> Result<Vec<T>, ApiError> {
        if let Some(marker) = self.marker.as_ref().filter(|marker| !paging::begin_after(&mut all, |element| id(element) == **marker)) {
            return Err(bad_request(format!("Marker {marker} could not be found.")));
        }
        all.truncate(self.limit);
        Ok(all)
    }

    /// Cuts the page as [`Page::cut`] does. If the marker is missing and a cell is silent, answers 503, because the silent cell may have
    /// it.
    pub fn cut_heard<T>(&self, all: Vec<T>, id: impl Fn(&T) -> String, silent: &[SilentCell]) -> Result<Vec<T>, ApiError> {
        self.cut(all, id).map_err(|unknown| match silent {
            [] => unknown,
            [cell, ..] => {
                let marker = self.marker.as_deref().unwrap_or_default();
                unavailable(reason!("Marker {marker} could not be found, and not every cell answers: {}.", cell.reason))
            }
        })
    }

    /// Returns the link to the next page if this page is full; none for the last page.
    pub fn next(&self, request: &HttpRequest, query: &Query, collection: &str, held: usize, last: Option<String>) -> Option<Value> {
        let last = last.filter(|_| held == self.limit && held > 0)?;
        let mut pairs: Vec<(&str, &str)> =
            query.pairs.iter().filter(|(key, _)| key != "marker").map(|(key, value)| (key.as_str(), value.as_str())).collect();
        pairs.push(("marker", &last));
        let escaped = |text| utf8_percent_encode(text, &ESCAPED);
        let text = pairs.iter().map(|(key, value)| format!("{}={}", escaped(key), escaped(value))).collect::<Vec<_>>().join("&");
        Some(json!([{"rel": "next", "href": format!("{}/compute/v2.1/{collection}?{text}", base_url::of(request))}]))
    }
}
