//! A server whose cell does not answer, as far as it is known without the cell: from 2.69 on it is shown with the status
//! UNKNOWN; every key that is not known is absent (docs/DOWN-CELLS.md). Callers who ask for it with a header of our own see what it was
//! when it was last read, if that is remembered, and how long ago that was.

use actix_web::HttpRequest;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use super::links;
use super::view::{Frame, embedded_flavor, seconds};
use crate::db::api::instance_mappings::InstanceMapping;
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::PowerState;

/// What stands where something is not known.
const UNKNOWN: &str = "UNKNOWN";

/// The header, with the value `true`, of a request that takes old records for want of present ones.
const LAST_KNOWN: &str = "X-Cellshift-Last-Known";

/// True when the request takes old records.
pub fn takes_last_known(request: &HttpRequest) -> bool {
    request.headers().get(LAST_KNOWN).and_then(|value| value.to_str().ok()).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Says in a server's view that it shows how the server was, when that was read, and how many seconds ago.
pub fn dated(mut view: Value, at: DateTime<Utc>, now: DateTime<Utc>) -> Value {
    view["cellshift:last_known_at"] = json!(at.to_rfc3339_opts(SecondsFormat::Secs, true));
    view["cellshift:last_known_age"] = json!((now - at).num_seconds().max(0));
    view
}

/// One entry of `GET /servers`.
pub fn brief(base: &str, mapping: &InstanceMapping) -> Value {
    let id = mapping.instance_uuid.to_string();
    json!({"id": id, "status": UNKNOWN, "links": links::of(base, "servers", &id)})
}

/// One entry of `GET /servers/detail`, with the names of the security groups that the network service knows it is in.
pub fn detailed(base: &str, mapping: &InstanceMapping, security_groups: Option<&[String]>) -> Value {
    let mut view = brief(base, mapping);
    view["tenant_id"] = json!(mapping.project_id);
    view["created"] = json!(seconds(mapping.created_at));
    if let Some(groups) = security_groups {
        view["security_groups"] = groups.iter().map(|name| json!({"name": name})).collect();
    }
    view
}

/// The answer to `GET /servers/{id}`; `groups` are the server groups it is in.
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
