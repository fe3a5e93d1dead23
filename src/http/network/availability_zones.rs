//! Availability zones of network agents, and providers of other services. This service has none.

use actix_web::{HttpRequest, HttpResponse, web};

use super::query::ListQuery;
use super::reader;
use crate::http::auth::Caller;
use crate::http::error::ApiError;

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
