//! The base URL of links in answers. Clients follow these links, so the URL must be the one under which the caller reached the service.

use actix_web::HttpRequest;

use super::clients;

/// Returns scheme and host as [`clients`] determines them, without a trailing slash: `http://127.0.0.1:8774`.
pub fn of(request: &HttpRequest) -> String {
    clients::base_url(request)
}

/// Escapes a text for a path segment or a query value. An href or a `Location` with a control character would be no valid header.
pub fn escape(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:,".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
