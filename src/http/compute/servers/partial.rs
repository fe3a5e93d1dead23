//! Partial entries of servers in silent cells: from 2.69 on they have the status UNKNOWN, and unknown keys are absent (docs/DOWN-CELLS.md).
//! A request with the header `X-Cellshift-Last-Known` gets the last known server, if it is remembered, and its age.

use actix_web::HttpRequest;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use super::links;
use super::view::{Frame, embedded_flavor};
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::moment::seconds;
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::PowerState;

/// Replaces an unknown value.
const UNKNOWN: &str = "UNKNOWN";

/// The header, with value `true`, of a request that accepts last known servers.
const LAST_KNOWN: &str = "X-Cellshift-Last-Known";

/// True if the request accepts last known servers.
pub fn takes_last_known(request: &HttpRequest) -> bool {
    request.headers().get(LAST_KNOWN).and_then(|value| value.to_str().ok()).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Adds to a last known server's view when it was read, and how many seconds ago.
pub fn dated(mut view: Value, at: DateTime<Utc>, now: DateTime<Utc>) -> Value {
    view["cellshift:last_known_at"] = json!(at.to_rfc3339_opts(SecondsFormat::Secs, true));
    view["cellshift:last_known_age"] = json!((now - at).num_seconds().max(0));
    view
}

/// Returns a partial entry of `GET /servers`.
pub fn brief(base: &str, mapping: &InstanceMapping) -> Value {
    let id = mapping.instance_uuid.to_string();
    json!({"id": id, "status": UNKNOWN, "links": links::of(base, "servers", &id)})
}

/// Returns a partial entry of `GET /servers/detail`, with the names of security groups from the network service.
pub fn detailed(base: &str, mapping: &InstanceMapping, security_groups: Option<&[String]>) -> Value {
    let mut view = brief(base, mapping);
    view["tenant_id"] = json!(mapping.project_id);
    view["created"] = json!(seconds(mapping.created_at));
    if let Some(groups) = security_groups {
        view["security_groups"] = groups.iter().map(|name| json!({"name": name})).collect();
    }
    view
}

/// Returns the partial answer to `GET /servers/{id}`. `groups` are the server's server groups.
pub fn shown(frame: Frame<'_>, mapping: &InstanceMapping, spec: &RequestSpec, groups: &[uuid::Uuid]) -> Value {
    let mut view = detailed(frame.base, mapping, None);
    view["user_id"] = json!(if spec.user_id.is_empty() { UNKNOWN } else { &spec.user_id });
    view["image"] = match spec.image_id.filter(|_| !spec.is_bfv) {
        Some(image) => json!({"id": image, "links": [links::bookmark(frame.base, "images", &image.to_string())]}),
        None => json!(""),
    };
    view["flavor"] = embedded_flavor(&spec.flavor, frame.visible);
    view["OS-EXT-AZ:availability_zone"] = json!(spec.availability_zone.as_deref().unwrap_or(UNKNOWN));
    view["OS-EXT-STS:power_state"] = json!(PowerState::NoState.code());
    if frame.version.at_least(71) {
        view["server_groups"] = json!(groups);
    }
    view
}
