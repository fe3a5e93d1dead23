//! Availability zones of network agents. This service has none.

use actix_web::{HttpRequest, HttpResponse, web};

use super::query::ListQuery;
use super::reader;
use crate::http::auth::Caller;
use crate::http::error::ApiError;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/availability_zones").route(web::get().to(list)));
}

async fn list(caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    ListQuery::of(&request)?.answer(&request, "availability_zones", Vec::new())
}
