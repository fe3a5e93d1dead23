//! The reshaper: inventories move between providers together with what is allocated of them.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Unread;
use cellshift_web::schema::{Schema, object};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::ServiceError;
use crate::placement::Reshaped;
use crate::placement::allocations::bodies::{self as consumers, CHANGES};
use crate::placement::allocations::routes::several_schema;
use crate::placement::body;
use crate::placement::inventories::routes as inventories;
use crate::placement::query::coded;
use crate::placement::routes::{Call, refusal};

const SINCE: u16 = 30;

pub(in crate::placement) static RESHAPE: Schema = Schema::new(CHANGES, |minor| {
    let inventories = json!({
        "type": "object",
        "patternProperties": {"^[0-9a-fA-F-]{32,36}$": inventories::all_schema()},
        "additionalProperties": false,
    });
    object(&json!({"inventories": inventories, "allocations": several_schema(minor, 0)}), &["inventories", "allocations"])
});

pub(in crate::placement) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/reshaper").route(web::post().to(reshape)));
}

#[derive(Deserialize)]
struct Body {
    inventories: BTreeMap<Uuid, inventories::All>,
    allocations: Map<String, Value>,
}

async fn reshape(call: Call, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let document = body::read(body, &RESHAPE, call.version).await?;
    let Body { inventories, allocations } = body::parsed(&document)?;
    let mut providers = BTreeMap::new();
    for (uuid, all) in inventories {
        // A provider that is not there is a mistake in the body, not in the path.
        call.service.provider(uuid).await.map_err(|error| absent(uuid, error))?;
        let (generation, inventories) = inventories::read_all(uuid, all, call.version)?;
        providers.insert(uuid, Reshaped { generation, inventories });
    }
    let changes = consumers::changes(&call.service, allocations, call.version).await?;
    call.service.reshape(providers, changes).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn absent(uuid: Uuid, error: ServiceError) -> ApiError {
    let ServiceError::NotFound(_) = error else { return refusal(error) };
    coded("placement.resource_provider.not_found", format!("Resource provider {uuid} in inventories not found."))
}
