//! The usage of a provider and of a project.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use serde_json::{Map, Value, json};

use crate::placement::allocations::bodies::{LENGTH_MAX, TYPES, is_type};
use crate::placement::query::{Parameters, bad};
use crate::placement::routes::{Call, refusal};
use crate::placement::{UNTYPED, Usage};

/// The minor version from which usages are separated by consumer type.
const CONSUMER_TYPES: u16 = 38;
/// The value of `consumer_type` that means the consumers of all types together.
const ALL: &str = "all";

pub(in crate::placement) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/resource_providers/{uuid}/usages").route(web::get().to(of_provider)))
        .service(web::resource("/usages").route(web::get().to(of_project)));
}

async fn of_provider(call: Call, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let (provider, _) = call.provider(&uuid).await?;
    Ok(HttpResponse::Ok().json(json!({"resource_provider_generation": provider.generation, "usages": provider.usages})))
}

async fn of_project(call: Call) -> Result<HttpResponse, ApiError> {
    call.admit(9)?;
    let whose = Parameters::of(&call.request, &[("project_id", 0), ("user_id", 0), ("consumer_type", CONSUMER_TYPES)], call.version)?;
    let id = |name: &str| match whose.one(name)? {
        Some("") => Err(bad(format!("'{name}' is too short. Failed validating 'minLength'"))),
        Some(id) if id.chars().count() > LENGTH_MAX => {
            Err(bad(format!("'{name}' has more than {LENGTH_MAX} characters. Failed validating 'maxLength'")))
        }
        value => Ok(value.map(str::to_owned)),
    };
    let project = id("project_id")?.ok_or_else(|| bad("'project_id' is a required property"))?;
    let usages = call.service.usages(project, id("user_id")?).await.map_err(refusal)?;
    if !call.version.at_least(CONSUMER_TYPES) {
        return Ok(HttpResponse::Ok().json(json!({"usages": together(usages).sums})));
    }
    let by_type: BTreeMap<String, Usage> = match whose.one("consumer_type")? {
        None => usages,
        Some(ALL) => [(ALL.to_owned(), together(usages))].into(),
        Some(name) if name == UNTYPED || is_type(name) => usages.into_iter().filter(|(kind, _)| kind == name).collect(),
        Some(other) => return Err(bad(format!("'{other}' does not match '{TYPES}'"))),
    };
    let views = by_type.into_iter().map(|(kind, usage)| {
        let mut value = json!(usage.sums);
        value["consumer_count"] = json!(usage.consumers);
        (kind, value)
    });
    Ok(HttpResponse::Ok().json(json!({"usages": views.collect::<Map<String, Value>>()})))
}

/// Returns the usage of the consumers of all types.
fn together(usages: BTreeMap<String, Usage>) -> Usage {
    let mut all = Usage::default();
    for usage in usages.into_values() {
        all.consumers += usage.consumers;
        for (class, amount) in usage.sums {
            let sum = all.sums.entry(class).or_insert(0);
            *sum = sum.saturating_add(amount);
        }
    }
    all
}
