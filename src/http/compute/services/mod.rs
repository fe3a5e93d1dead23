//! `/os-services`: the services, their state, and whether they accept new servers.

mod remove;
mod update;

pub(in crate::http) use self::remove::remove_host;

use actix_web::{HttpRequest, web};
use serde_json::{Value, json};

use super::answer::{Answer, moment_or_null, ok};
use super::catalog::Catalog;
use super::query::Query;
use super::schema::Schema;
use super::zones::{COMPUTE, Zones};
use crate::domain::service::Service;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] =
    &[("PUT /os-services/{action}", &update::BY_ACTION.schema), ("PUT /os-services/{uuid}", &update::BY_UUID.schema)];

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-services").route(web::get().to(list)))
        .service(web::resource("/os-services/{id}").route(web::put().to(update::update)).route(web::delete().to(remove::remove)));
}

async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:os-services:list")?;
    let query = Query::of(&request)?;
    if version.at_least(75) {
        query.only(&["host", "binary"])?;
    }
    let zones = Zones::read(&api).await?;
    let mut views = Vec::new();
    for heard in api.ask_cells(|cell| cell.services()).await {
        match heard.answer {
            Ok(services) => views.extend(services.iter().map(|service| view(&api, service, zones.of_service(service), version))),
            Err(error) => {
                log::warn!(cell = heard.cell.name.as_str(); "a cell's services are not known: {error}");
                if version.at_least(69) {
                    views.extend(unknown(&api, heard.cell.uuid).await?);
                }
            }
        }
    }
    views.retain(|view| ["host", "binary"].iter().all(|key| query.get(key).is_none_or(|value| value.is_empty() || view[*key] == value)));
    ok(&json!({"services": views}))
}

/// Returns the compute services of a silent cell, from 2.69 on, with the fields that are known without the cell.
async fn unknown(api: &Catalog, cell: uuid::Uuid) -> Result<Vec<Value>, ApiError> {
    let hosts = api.api.hosts_of_cell(cell).await?;
    Ok(hosts.into_iter().map(|mapping| json!({"binary": COMPUTE, "host": mapping.host, "status": "UNKNOWN"})).collect())
}

fn view(api: &Catalog, service: &Service, zone: &str, version: ApiVersion) -> Value {
    let mut view = json!({
        "id": if version.at_least(53) { json!(service.uuid) } else { json!(service.id) },
        "binary": service.binary,
        "host": service.host,
        "zone": zone,
        "status": status(service),
        "state": if api.is_up(service) { "up" } else { "down" },
        "updated_at": moment_or_null(service.last_seen_up.or(service.updated_at)),
        "disabled_reason": service.disabled_reason,
    });
    if version.at_least(11) {
        view["forced_down"] = json!(service.forced_down);
    }
    view
}

fn status(service: &Service) -> &'static str {
    if service.disabled { "disabled" } else { "enabled" }
}
