//! `PUT /servers/{id}`: changes the fields that users may change at any time.

use actix_web::web;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::ComputeApi;
use super::create::request::shortest_v6;
use super::rules::{Description, DiskConfig, Hostname, Ipv4, Ipv6, ServerName, WordOrNull};
use super::view::Purpose;
use crate::cell_registry::Located;
use crate::domain::instance_change::InstanceChange;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, conflict, ok};
use crate::http::compute::body::{Body, nullable};
use crate::http::error::ApiError;
use crate::http::json::Document;

/// The body of `PUT /servers/{id}`.
pub(super) static UPDATE: Body<ServerChange> = Body::within("server", &[1, 19, 90, 94, 104]);

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(super) struct ServerChange {
    #[serde(flatten)]
    own: OwnFields,
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "WordOrNull", extend("since" = 104))]
    pinned_availability_zone: Option<Option<String>>,
}

/// The fields of a server that are its user's own, in an update or a rebuild.
#[derive(Deserialize, JsonSchema)]
pub(super) struct OwnFields {
    #[serde(default)]
    #[schemars(with = "ServerName")]
    name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Description", extend("since" = 19))]
    description: Option<Option<String>>,
    #[serde(default)]
    #[schemars(with = "Hostname")]
    hostname: Option<String>,
    #[serde(default, rename = "accessIPv4")]
    #[schemars(with = "Ipv4")]
    access_ip_v4: Option<String>,
    #[serde(default, rename = "accessIPv6")]
    #[schemars(with = "Ipv6")]
    access_ip_v6: Option<String>,
    #[serde(default, rename = "OS-DCF:diskConfig")]
    #[schemars(with = "DiskConfig")]
    disk_config: Option<String>,
}

impl OwnFields {
    /// Returns the change of the server's record.
    pub(super) fn change(&self) -> InstanceChange {
        InstanceChange {
            display_name: self.name.as_deref().map(|name| name.trim().to_owned()),
            display_description: self.description.clone(),
            hostname: self.hostname.clone().map(Some),
            access_ip_v4: self.access_ip_v4.clone().map(Some),
            access_ip_v6: self.access_ip_v6.as_deref().map(|address| Some(shortest_v6(address))),
            auto_disk_config: self.disk_config.as_deref().map(|mode| mode == "AUTO"),
            ..InstanceChange::default()
        }
    }
}

/// Answers `PUT /servers/{id}`.
pub async fn update(
    Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    let ServerChange { own, pinned_availability_zone } = UPDATE.read(version, &body).await?;
    let located = api.locate_for(&caller, &id, "os_compute_api:servers:update").await?;
    if let Some(zone) = pinned_availability_zone {
        pin(&api, &located, zone.as_deref()).await?;
    }
    let change = own.change();
    if change != InstanceChange::default() {
        api.registry.change_instance(&located, change).await?;
    }
    let server = api.load(&caller, &id, "os_compute_api:servers:update").await?;
    let base = base_url::of(&request);
    ok(&json!({"server": api.view(&caller, &base, version, Purpose::Update, &server).await?}))
}

/// Pins a server to its zone, or removes the pin (2.104).
async fn pin(api: &ComputeApi, located: &Located, zone: Option<&str>) -> Result<(), ApiError> {
    let uuid = located.instance.uuid;
    let mut spec = api.registry.api().request_spec(uuid).await?;
    match (zone, spec.availability_zone.as_deref()) {
        (requested, present) if requested == present => return Ok(()),
        (Some(_), Some(_)) => {
            return Err(conflict("The pinned availability zone cannot be changed to another: set pinned_availability_zone to null first."));
        }
        (Some(requested), None) if located.instance.availability_zone.as_deref() != Some(requested) => {
            return Err(conflict("A server can be pinned only to the availability zone that it is in."));
        }
        _ => {}
    }
    spec.availability_zone = zone.map(str::to_owned);
    Ok(api.registry.edit_request_spec(spec).await?)
}
