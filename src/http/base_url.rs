//! Where the caller reached us: hrefs in answers are built on it, because clients follow them (spec clients.md §1).

use actix_web::HttpRequest;

/// Scheme and host as the caller (or the proxy before us) named them, without a trailing slash: `http://127.0.0.1:8774`.
pub fn of(request: &HttpRequest) -> String {
    let connection = request.connection_info();
    format!("{}://{}", connection.scheme(), connection.host())
}
