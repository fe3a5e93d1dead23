//! Links to resources, in the two forms that clients know, and to the next page of a list.

use actix_web::HttpRequest;
use serde_json::{Value, json};

use crate::http::base_url;

/// Returns the links `self` and `bookmark`.
pub fn of(base: &str, collection: &str, id: &str) -> Value {
    json!([{"rel": "self", "href": format!("{base}/compute/v2.1/{collection}/{id}")}, bookmark(base, collection, id)])
}

/// Returns the link `bookmark`.
pub fn bookmark(base: &str, collection: &str, id: &str) -> Value {
    json!({"rel": "bookmark", "href": format!("{base}/compute/{collection}/{id}")})
}

/// Returns the `next` link after a page that ends with `last`: the request's URL with another marker.
pub fn next(request: &HttpRequest, last: &str) -> Value {
    let kept: Vec<&str> = request.query_string().split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("marker=")).collect();
    let mut query = kept.join("&");
    if !query.is_empty() {
        query.push('&');
    }
    let href = format!("{}{}?{query}marker={last}", base_url::of(request), request.path());
    json!([{"rel": "next", "href": href}])
}
