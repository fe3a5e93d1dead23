//! The allocations that a request wants for a consumer, in the form of each microversion.

use std::collections::BTreeMap;

use cellshift_web::error::ApiError;
use cellshift_web::microversion::ApiVersion;
use cellshift_web::schema::object;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::placement::routes::{invalid, refusal};
use crate::placement::{AMOUNT_MAX, Allocations, EmbeddedPlacement, PlacementService, UNTYPED};

/// The minor version from which a consumer has a project and a user.
const OWNERS: u16 = 8;
/// The minor version from which a consumer's allocations are keyed by provider.
const BY_PROVIDER: u16 = 12;
pub(in crate::placement) const CONSUMER_GENERATIONS: u16 = 28;
const MAPPINGS: u16 = 34;
pub(in crate::placement) const CONSUMER_TYPES: u16 = 38;
/// The minor versions at which the form of what a request wants changes.
pub(in crate::placement) const CHANGES: &[u16] = &[0, OWNERS, BY_PROVIDER, 13, CONSUMER_GENERATIONS, MAPPINGS, CONSUMER_TYPES];
/// The maximum length of a project's or user's id and of a consumer type.
pub(in crate::placement) const LENGTH_MAX: usize = 255;
/// The form of a consumer type.
pub(in crate::placement) const TYPES: &str = "^[A-Z0-9_]+$";
/// The project and user of a consumer that was made before consumers had them (placement 1.8).
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// Describes the requested allocations of one consumer. `may_be_none`: no allocations remove the consumer.
pub(in crate::placement) fn schema(minor: u16, may_be_none: bool) -> Value {
    let amount = json!({"type": "integer", "minimum": 1, "maximum": AMOUNT_MAX});
    let resources = json!({
        "type": "object", "minProperties": 1, "patternProperties": {"^[A-Z0-9_]+$": amount}, "additionalProperties": false,
    });
    let allocations = match minor >= BY_PROVIDER {
        true => by_provider(&resources, may_be_none),
        false => {
            let provider = object(&json!({"uuid": {"type": "string", "format": "uuid"}}), &["uuid"]);
            let one = object(&json!({"resource_provider": provider, "resources": resources}), &["resource_provider", "resources"]);
            json!({"type": "array", "minItems": 1, "items": one})
        }
    };
    let mut properties = json!({"allocations": allocations});
    let mut required = vec!["allocations"];
    if minor >= OWNERS {
        for name in ["project_id", "user_id"] {
            properties[name] = json!({"type": "string", "minLength": 1, "maxLength": LENGTH_MAX});
            required.push(name);
        }
    }
    if minor >= CONSUMER_GENERATIONS {
        properties["consumer_generation"] = json!({"type": ["integer", "null"]});
        required.push("consumer_generation");
    }
    if minor >= MAPPINGS {
        let providers = json!({"type": "array", "minItems": 1, "items": {"type": "string", "format": "uuid"}});
        properties["mappings"] = json!({
            "type": "object", "minProperties": 1, "patternProperties": {"^[a-zA-Z0-9_-]{0,64}$": providers}, "additionalProperties": false,
        });
    }
    if minor >= CONSUMER_TYPES {
        properties["consumer_type"] = json!({"type": "string", "pattern": TYPES, "minLength": 1, "maxLength": LENGTH_MAX});
        required.push("consumer_type");
    }
    object(&properties, &required)
}

fn by_provider(resources: &Value, may_be_none: bool) -> Value {
    // A generation is part of what was read, and not judged.
    let one = object(&json!({"resources": resources, "generation": {"type": "integer"}}), &["resources"]);
    json!({
        "type": "object",
        "minProperties": if may_be_none { 0 } else { 1 },
        "patternProperties": {"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$": one},
        "additionalProperties": false,
    })
}

/// True for a consumer type that a request may name.
pub(in crate::placement) fn is_type(text: &str) -> bool {
    (1..=LENGTH_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// The allocations that a request wants for a consumer. Fits [`schema`].
#[derive(Deserialize)]
pub(in crate::placement) struct Body {
    allocations: Amounts,
    project_id: Option<String>,
    user_id: Option<String>,
    /// Null means a new consumer.
    consumer_generation: Option<i64>,
    consumer_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Amounts {
    ByProvider(BTreeMap<Uuid, OfProvider>),
    Listed(Vec<Listed>),
}

#[derive(Deserialize)]
struct OfProvider {
    resources: BTreeMap<String, i64>,
}

#[derive(Deserialize)]
struct Listed {
    resource_provider: Named,
    resources: BTreeMap<String, i64>,
}

#[derive(Deserialize)]
struct Named {
    uuid: Uuid,
}

/// Converts the requested allocations of several consumers, by id.
pub(in crate::placement) async fn changes(
    service: &EmbeddedPlacement,
    bodies: Map<String, Value>,
    version: ApiVersion,
) -> Result<Vec<Allocations>, ApiError> {
    let mut changes = Vec::new();
    for (consumer, bodies) in bodies {
        let consumer = id(&consumer)?;
        let bodies = Body::deserialize(bodies).map_err(|why| invalid(format!("JSON does not validate: {why}")))?;
        changes.push(change(service, consumer, bodies, version).await?);
    }
    Ok(changes)
}

/// Parses a consumer's id.
pub(in crate::placement) fn id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| invalid(format!("Malformed consumer_uuid: {text}")))
}

/// Converts the request for the service. Below 1.28 a caller has no generations and replaces any present allocations.
pub(in crate::placement) async fn change(
    service: &EmbeddedPlacement,
    consumer: Uuid,
    body: Body,
    version: ApiVersion,
) -> Result<Allocations, ApiError> {
    let stored = service.allocations_of(consumer).await.map_err(refusal)?;
    let consumer_generation = match version.at_least(CONSUMER_GENERATIONS) {
        true => body.consumer_generation,
        false => stored.as_ref().and_then(|stored| stored.consumer_generation),
    };
    let allocations = match body.allocations {
        Amounts::ByProvider(map) => map.into_iter().map(|(uuid, amounts)| (uuid, amounts.resources)).collect(),
        Amounts::Listed(list) => list.into_iter().map(|listed| (listed.resource_provider.uuid, listed.resources)).collect(),
    };
    let held = stored.as_ref();
    let owner = |owner_id: Option<String>, held: Option<&String>| owner_id.or_else(|| held.cloned()).unwrap_or_else(|| NOBODY.to_owned());
    Ok(Allocations {
        consumer,
        consumer_generation,
        project_id: owner(body.project_id, held.map(|held| &held.project_id)),
        user_id: owner(body.user_id, held.map(|held| &held.user_id)),
        consumer_type: body.consumer_type.unwrap_or_else(|| held.map_or(UNTYPED, |held| &held.consumer_type).to_owned()),
        allocations,
    })
}
