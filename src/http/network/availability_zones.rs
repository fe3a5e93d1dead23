//! Availability zones of network agents, and the agents. This service has none.

use actix_web::{HttpRequest, HttpResponse, web};

use super::query::ListQuery;
use super::reader;
use crate::http::auth::Caller;
use crate::http::error::ApiError;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    for collection in ["availability_zones", "agents"] {
        cfg.service(web::resource(format!("/network/v2.0/{collection}")).route(web::get().to(list)));
    }
}

async fn list(caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    let collection = request.path().rsplit('/').next().unwrap_or_default();
    ListQuery::of(&request)?.answer(&request, collection, Vec::new())
}
