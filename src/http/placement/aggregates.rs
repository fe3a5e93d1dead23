//! Aggregates of a provider: a bare list below 1.19, later with a generation.

use std::collections::BTreeSet;

use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Service, admit, id_of, refusal};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::http::microversion::ApiVersion;
use crate::services::placement::{AggregateId, Provider};

const SINCE: u16 = 1;
const WITH_GENERATION: u16 = 19;
/// The maximum number of a provider's aggregates.
const AGGREGATES_MAX: usize = 1000;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/placement/resource_providers/{uuid}/aggregates").route(web::get().to(show)).route(web::put().to(replace)));
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Wanted {
    Bare(Vec<AggregateId>),
    Seen { aggregates: Vec<AggregateId>, resource_provider_generation: i64 },
}

async fn show(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    let (provider, _) = service.provider(id_of("resource provider", &uuid)?).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(body(&provider, version)))
}

async fn replace(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    uuid: web::Path<String>,
    wanted: Json<Wanted>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    let (generation, aggregates) = match (wanted.into_inner(), version.at_least(WITH_GENERATION)) {
        (Wanted::Bare(aggregates), false) => (None, aggregates),
        (Wanted::Seen { aggregates, resource_provider_generation }, true) => (Some(resource_provider_generation), aggregates),
        _ => return Err(super::invalid("The body is a list of aggregates below 1.19, and names the generation from there on")),
    };
    if aggregates.len() > AGGREGATES_MAX {
        return Err(super::invalid(format!("JSON does not validate: a provider is in at most {AGGREGATES_MAX} aggregates")));
    }
    if aggregates.iter().collect::<BTreeSet<_>>().len() < aggregates.len() {
        return Err(super::invalid("JSON does not validate: an aggregate is named twice"));
    }
    let set = service.set_aggregates(id_of("resource provider", &uuid)?, generation, aggregates.clone()).await;
    let (provider, _) = set.map_err(refusal)?;
    // The answer keeps the order of the request.
    Ok(HttpResponse::Ok().json(body(&Provider { aggregates, ..provider }, version)))
}

fn body(provider: &Provider, version: ApiVersion) -> Value {
    let mut value = json!({"aggregates": provider.aggregates});
    if version.at_least(WITH_GENERATION) {
        value["resource_provider_generation"] = json!(provider.generation);
    }
    value
}
