//! `PUT /servers/{id}`: changes the fields that users may change at any time.

use actix_web::{HttpRequest, web};
use serde_json::{Value, json};

use super::create::request::shortest_v6;
use super::view::Purpose;
use super::{ComputeApi, schemas};
use crate::domain::instance_change::InstanceChange;
use crate::cell_registry::Located;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::compute::answer::{Answer, conflict, ok};
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

/// Answers `PUT /servers/{id}`.
pub async fn update(
    request: HttpRequest,
    api: web::Data<ComputeApi>,
    Caller(caller): Caller,
    version: ApiVersion,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    schemas::UPDATE.check(version, &body).await?;
    let located = api.locate_for(&caller, &id, "os_compute_api:servers:update").await?;
    let wanted = &body["server"];
    if let Some(zone) = wanted.get("pinned_availability_zone") {
        pin(&api, &located, zone.as_str()).await?;
    }
    let change = change(wanted);
    if change != InstanceChange::default() {
        api.registry.change_instance(&located, change).await?;
    }
    let server = api.load(&caller, &id, "os_compute_api:servers:update").await?;
    let base = base_url::of(&request);
    ok(&json!({"server": api.view(&caller, &base, version, Purpose::Update, &server).await?}))
}

/// Returns the change of the user's own fields in an update or a rebuild.
pub fn change(wanted: &Value) -> InstanceChange {
    let text = |key: &str| wanted[key].as_str().map(str::to_owned);
    InstanceChange {
        display_name: text("name").map(|name| name.trim().to_owned()),
        display_description: wanted.get("description").map(|text| text.as_str().map(str::to_owned)),
        hostname: text("hostname").map(Some),
        access_ip_v4: text("accessIPv4").map(Some),
        access_ip_v6: text("accessIPv6").map(|address| Some(shortest_v6(&address))),
        auto_disk_config: text("OS-DCF:diskConfig").map(|mode| mode == "AUTO"),
        ..InstanceChange::default()
    }
}

/// Pins a server to its zone, or removes the pin (2.104).
async fn pin(api: &ComputeApi, located: &Located, zone: Option<&str>) -> Result<(), ApiError> {
    let uuid = located.instance.uuid;
    let mut spec = api.registry.api().request_spec(uuid).await?;
    match (zone, spec.availability_zone.as_deref()) {
        (wanted, present) if wanted == present => return Ok(()),
        (Some(_), Some(_)) => {
            return Err(conflict("The pinned availability zone cannot be changed to another: set pinned_availability_zone to null first."));
        }
        (Some(wanted), None) if located.instance.availability_zone.as_deref() != Some(wanted) => {
            return Err(conflict("A server can be pinned only to the availability zone that it is in."));
        }
        _ => {}
    }
    spec.availability_zone = zone.map(str::to_owned);
    Ok(api.registry.edit_request_spec(spec).await?)
}
