//! Availability zones of network agents, and providers of other services. This service has none.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;

use super::query::ListQuery;
use super::routes::reader;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/availability_zones").route(web::get().to(list)));
    cfg.service(web::resource("/network/v2.0/service-providers").route(web::get().to(providers)));
}

async fn list(caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    ListQuery::of(&request)?.answer(&request, "availability_zones", Vec::new())
}

async fn providers(caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    ListQuery::of(&request)?.answer(&request, "service_providers", Vec::new())
}
