//! Lists of flavors: filters, order, pages.

use std::cmp::Ordering;

use actix_web::{HttpRequest, web};
use serde_json::json;

use super::view;
use crate::domain::flavor::{FlavorRecord, FlavorScope};
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, bad_request, ok};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::query::Query;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::http::schema::strict_bool;

/// Answers `GET /flavors`.
pub async fn brief(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    answer(caller, version, &api, &request, false).await
}

/// Answers `GET /flavors/detail`.
pub async fn detailed(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    answer(caller, version, &api, &request, true).await
}

async fn answer(caller: Caller, version: ApiVersion, api: &Catalog, request: &HttpRequest, whole: bool) -> Answer {
    let query = Query::of(request)?;
    check_parameters(&query, version)?;
    let page = query.page(api.max_limit)?;
    let records = page.cut(selected(api, &caller, version, &query).await?, |record| record.flavor.id.clone())?;
    let extra_specs = whole && view::shows_extra_specs(api, &caller, version);
    let views: Vec<_> = records
        .iter()
        .map(|record| match whole {
            true => view::full(request, version, record, extra_specs),
            false => view::brief(request, version, record),
        })
        .collect();
    let mut body = json!({"flavors": views});
    let collection = if whole { "flavors/detail" } else { "flavors" };
    if let Some(next) = page.next(request, &query, collection, records.len(), records.last().map(|record| record.flavor.id.clone())) {
        body["flavors_links"] = next;
    }
    ok(&body)
}

const SORT_KEYS: &[&str] = &[
    "created_at",
    "description",
    "disabled",
    "ephemeral_gb",
    "flavorid",
    "id",
    "is_public",
    "memory_mb",
    "name",
    "root_gb",
    "rxtx_factor",
    "swap",
    "updated_at",
    "vcpu_weight",
    "vcpus",
];

fn check_parameters(query: &Query, version: ApiVersion) -> Result<(), ApiError> {
    if version.at_least(102) {
        query.only(&["limit", "marker", "is_public", "minRam", "minDisk", "sort_key", "sort_dir", "name"])?;
    } else if version.at_least(75) {
        query.only(&["limit", "marker", "is_public", "minRam", "minDisk", "sort_key", "sort_dir"])?;
    }
    let gone = |key: &str| key == "rxtx_factor" && version.at_least(102);
    if let Some(key) = query.all("sort_key").into_iter().find(|key| !SORT_KEYS.contains(key) || gone(key)) {
        return Err(bad_request(format!("Invalid input for query parameters sort_key. Value: {key}.")));
    }
    if let Some(direction) = query.all("sort_dir").into_iter().find(|direction| !["asc", "desc"].contains(direction)) {
        return Err(bad_request(format!("Invalid input for query parameters sort_dir. Value: {direction}.")));
    }
    Ok(())
}

/// Returns the flavors that a query selects, in its order.
async fn selected(api: &Catalog, caller: &Caller, version: ApiVersion, query: &Query) -> Result<Vec<FlavorRecord>, ApiError> {
    let admin = api.is_admin(caller);
    let least = |key: &str| match query.get(key).map(str::parse::<i64>) {
        None => Ok(i64::MIN),
        Some(Ok(number)) => Ok(number),
        Some(Err(_)) => Err(bad_request(format!("Invalid {key} filter [{}]", query.get(key).unwrap_or_default()))),
    };
    let (ram, disk) = (least("minRam")?, least("minDisk")?);
    let name = query.get("name").filter(|_| version.at_least(102));
    let mut records = api.api.flavors(scope(caller, query, admin)?).await?;
    records.retain(|record| {
        let flavor = &record.flavor;
        (admin || !flavor.disabled)
            && i64::from(flavor.memory_mb) >= ram
            && i64::from(flavor.root_gb) >= disk
            && name.is_none_or(|name| name == flavor.name)
    });
    let key = query.get("sort_key").unwrap_or("flavorid");
    let descending = query.get("sort_dir") == Some("desc");
    records.sort_by(|a, b| {
        let order = compare(key, a, b).then(a.id.cmp(&b.id));
        if descending { order.reverse() } else { order }
    });
    Ok(records)
}

/// Selects the flavors that the caller may use. Operators may select others; `none` selects all.
fn scope(caller: &Caller, query: &Query, admin: bool) -> Result<FlavorScope, ApiError> {
    let usable = FlavorScope::OfProject(caller.0.project_id.clone());
    match query.get("is_public").filter(|_| admin) {
        None => Ok(usable),
        Some(text) if text.eq_ignore_ascii_case("none") => Ok(FlavorScope::All),
        Some(text) => match strict_bool(text) {
            Ok(true) => Ok(usable),
            Ok(false) => Ok(FlavorScope::Private),
            Err(_) => Err(bad_request(format!("Invalid is_public filter [{text}]"))),
        },
    }
}

fn compare(key: &str, a: &FlavorRecord, b: &FlavorRecord) -> Ordering {
    let (x, y) = (&a.flavor, &b.flavor);
    match key {
        "created_at" => a.created_at.cmp(&b.created_at),
        "updated_at" => a.updated_at.cmp(&b.updated_at),
        "description" => x.description.cmp(&y.description),
        "disabled" => x.disabled.cmp(&y.disabled),
        "ephemeral_gb" => x.ephemeral_gb.cmp(&y.ephemeral_gb),
        "is_public" => x.is_public.cmp(&y.is_public),
        "memory_mb" => x.memory_mb.cmp(&y.memory_mb),
        "name" => x.name.cmp(&y.name),
        "root_gb" => x.root_gb.cmp(&y.root_gb),
        "rxtx_factor" => a.rxtx_factor.total_cmp(&b.rxtx_factor),
        "swap" => x.swap_mb.cmp(&y.swap_mb),
        "vcpus" => x.vcpus.cmp(&y.vcpus),
        "id" => a.id.cmp(&b.id),
        "flavorid" => x.id.cmp(&y.id),
        // Clients may name `vcpu_weight`, but no flavor has it.
        _ => Ordering::Equal,
    }
}
