//! All traits, and the traits of a provider.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use cellshift_web::json::Unread;
use cellshift_web::schema::{Schema, object};
use serde::Deserialize;
use serde_json::json;

use crate::placement::body;
use crate::placement::query::{Parameters, bad};
use crate::placement::routes::{Call, error, provider_id, refusal};

const SINCE: u16 = 6;
/// The maximum number of traits in one request.
const TRAITS_MAX: usize = 1000;

pub(in crate::placement) static REPLACE: Schema = Schema::fixed(|_| {
    let trait_name = json!({"type": "string", "pattern": "^[A-Z0-9_]+$", "minLength": 1, "maxLength": 255});
    object(
        &json!({
            "resource_provider_generation": {"type": "integer"},
            "traits": {"type": "array", "items": trait_name, "uniqueItems": true, "maxItems": TRAITS_MAX},
        }),
        &["resource_provider_generation", "traits"],
    )
});

pub(in crate::placement) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/traits").route(web::get().to(list)))
        .service(web::resource("/traits/{name}").route(web::get().to(show)).route(web::put().to(create)).route(web::delete().to(delete)))
        .service(
            web::resource("/resource_providers/{uuid}/traits")
                .route(web::get().to(of_provider))
                .route(web::put().to(replace))
                .route(web::delete().to(clear)),
        );
}

#[derive(Deserialize)]
struct Body {
    resource_provider_generation: i64,
    traits: Vec<String>,
}

async fn list(call: Call) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let filters = Parameters::of(&call.request, &[("name", 0), ("associated", 0)], call.version)?;
    let mut traits = call.service.traits().await.map_err(refusal)?;
    let name = filters.one("name")?;
    match name.map(|name| name.split_once(':')) {
        None => {}
        Some(Some(("in", names))) => {
            let choice: BTreeSet<&str> = names.split(',').collect();
            traits.retain(|name| choice.contains(name.as_str()));
        }
        Some(Some(("startswith", prefix))) => traits.retain(|name| name.starts_with(prefix)),
        Some(_) => {
            let form = "Expected name query string parameter in form: ?name=[in|startswith]:[name1,name2|prefix].";
            return Err(bad(format!("Badly formatted name parameter. {form} Got: \"{}\"", name.unwrap_or_default())));
        }
    }
    if let Some(associated) = filters.one("associated")? {
        let is_associated = match associated.to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            _ => return Err(bad("The query parameter \"associated\" only accepts \"true\" or \"false\"")),
        };
        let tree = call.service.provider_tree().await.map_err(refusal)?;
        let used: BTreeSet<&String> = tree.iter().flat_map(|(provider, _)| &provider.traits).collect();
        traits.retain(|name| used.contains(name) == is_associated);
    }
    Ok(HttpResponse::Ok().json(json!({"traits": traits})))
}

async fn show(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    if call.service.traits().await.map_err(refusal)?.contains(&name) {
        return Ok(HttpResponse::NoContent().finish());
    }
    Err(error(StatusCode::NOT_FOUND, format!("No such trait(s): {name}.")))
}

async fn create(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let location = ("Location", format!("{}/placement/traits/{name}", base_url::of(&call.request)));
    let is_new = call.service.create_trait(name.into_inner()).await.map_err(refusal)?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    Ok(HttpResponse::build(status).insert_header(location).finish())
}

async fn delete(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    call.service.delete_trait(name.into_inner()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn of_provider(call: Call, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let (provider, _) = call.provider(&uuid).await?;
    Ok(HttpResponse::Ok().json(json!({"traits": provider.traits, "resource_provider_generation": provider.generation})))
}

async fn replace(call: Call, uuid: web::Path<String>, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let uuid = provider_id(&uuid)?;
    let document = body::read(body, &REPLACE, call.version).await?;
    let Body { resource_provider_generation, traits } = body::parsed(&document)?;
    let (provider, _) = call.service.set_traits(uuid, Some(resource_provider_generation), traits).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"traits": provider.traits, "resource_provider_generation": provider.generation})))
}

async fn clear(call: Call, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    call.service.set_traits(provider_id(&uuid)?, None, Vec::new()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}
