//! Links to resources, in the two forms that clients know.

use serde_json::{Value, json};

use crate::http::base_url::escape;

/// Returns the links `self` and `bookmark`. An id may have spaces, which a URL does not have.
pub fn of(base: &str, collection: &str, id: &str) -> Value {
    json!([{"rel": "self", "href": format!("{base}/compute/v2.1/{collection}/{}", escape(id))}, bookmark(base, collection, id)])
}

/// Returns the link `bookmark`.
pub fn bookmark(base: &str, collection: &str, id: &str) -> Value {
    json!({"rel": "bookmark", "href": format!("{base}/compute/{collection}/{}", escape(id))})
}
