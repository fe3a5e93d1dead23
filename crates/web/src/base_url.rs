//! The base URL of links in answers. Clients follow these links, so the URL must be the one under which the caller reached the service.

use actix_web::HttpRequest;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::clients;

/// The characters that [`escape`] escapes.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b',');

/// Returns scheme and host as [`clients`] determines them, without a trailing slash: `http://127.0.0.1:8774`.
pub fn of(request: &HttpRequest) -> String {
    clients::base_url(request)
}

/// Escapes a text for a path segment or a query value. An href or a `Location` with a control character would be no valid header.
pub fn escape(text: &str) -> String {
    utf8_percent_encode(text, &ESCAPED).to_string()
}
