//! The usage of a provider and of a project.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Service, admit, id_of, refusal};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// The minor version from which usages are separated by consumer type.
const CONSUMER_TYPES: u16 = 38;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/placement/resource_providers/{uuid}/usages").route(web::get().to(of_provider)))
        .service(web::resource("/placement/usages").route(web::get().to(of_project)));
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whose {
    project_id: String,
    user_id: Option<String>,
    consumer_type: Option<String>,
}

async fn of_provider(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let (provider, _) = service.provider(id_of("resource provider", &uuid)?).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"resource_provider_generation": provider.generation, "usages": provider.usages})))
}

async fn of_project(service: Service, caller: Caller, version: ApiVersion, whose: web::Query<Whose>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 9)?;
    let Whose { project_id, user_id, consumer_type } = whose.into_inner();
    let mut usages = service.usages(project_id, user_id).await.map_err(refusal)?;
    if !version.at_least(CONSUMER_TYPES) {
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        for (class, amount) in usages.into_values().flat_map(|usage| usage.sums) {
            let sum = sums.entry(class).or_insert(0);
            *sum = sum.saturating_add(amount);
        }
        return Ok(HttpResponse::Ok().json(json!({"usages": sums})));
    }
    if let Some(wanted) = consumer_type {
        usages.retain(|kind, _| *kind == wanted);
    }
    let by_type = usages.into_iter().map(|(kind, usage)| {
        let mut value = json!(usage.sums);
        value["consumer_count"] = json!(usage.consumers);
        (kind, value)
    });
    Ok(HttpResponse::Ok().json(json!({"usages": by_type.collect::<Map<String, Value>>()})))
}
