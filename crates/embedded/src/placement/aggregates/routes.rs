//! Aggregates of a provider: a bare list below 1.19, later with a generation.

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Unread;
use cellshift_web::microversion::ApiVersion;
use cellshift_web::schema::{Schema, object};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::placement::body;
use crate::placement::routes::{Call, refusal};
use crate::placement::{AggregateId, Provider};

const SINCE: u16 = 1;
const WITH_GENERATION: u16 = 19;
/// The maximum number of a provider's aggregates.
const AGGREGATES_MAX: usize = 1000;

pub(in crate::placement) static REPLACE: Schema = Schema::new(&[0, WITH_GENERATION], |minor| {
    let list = json!({"type": "array", "items": {"type": "string", "format": "uuid"}, "uniqueItems": true, "maxItems": AGGREGATES_MAX});
    match minor >= WITH_GENERATION {
        true => object(
            &json!({"aggregates": list, "resource_provider_generation": {"type": "integer"}}),
            &["aggregates", "resource_provider_generation"],
        ),
        false => list,
    }
});

pub(in crate::placement) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/resource_providers/{uuid}/aggregates").route(web::get().to(show)).route(web::put().to(replace)));
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Body {
    Bare(Vec<AggregateId>),
    Seen { aggregates: Vec<AggregateId>, resource_provider_generation: i64 },
}

async fn show(call: Call, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let (provider, _) = call.provider(&uuid).await?;
    Ok(HttpResponse::Ok().json(shown(&provider, call.version)))
}

async fn replace(call: Call, uuid: web::Path<String>, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let (provider, _, document) = call.change_of_provider(&uuid, body, &REPLACE).await?;
    let (generation, aggregates) = match body::parsed(&document)? {
        Body::Bare(aggregates) => (None, aggregates),
        Body::Seen { aggregates, resource_provider_generation } => (Some(resource_provider_generation), aggregates),
    };
    let (provider, _) = call.service.set_aggregates(provider.uuid, generation, aggregates.clone()).await.map_err(refusal)?;
    // The answer keeps the order of the request.
    Ok(HttpResponse::Ok().json(shown(&Provider { aggregates, ..provider }, call.version)))
}

fn shown(provider: &Provider, version: ApiVersion) -> Value {
    let mut value = json!({"aggregates": provider.aggregates});
    if version.at_least(WITH_GENERATION) {
        value["resource_provider_generation"] = json!(provider.generation);
    }
    value
}
