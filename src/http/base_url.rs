//! Where the caller reached us: hrefs in answers are built on it, because clients follow them.

use actix_web::HttpRequest;

use super::clients;

/// Scheme and host as [`clients`] judges them, without a trailing slash: `http://127.0.0.1:8774`.
pub fn of(request: &HttpRequest) -> String {
    clients::base_url(request)
}

/// A text as a path's segment or a query's value holds it. An href or a `Location` with a control character is no header at all.
pub fn escape(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:,".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
