//! Floating IPs, which this service does not support: lists are empty, and creation is refused.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::query::ListQuery;
use super::{error, reader, writer};
use crate::http::auth::Caller;
use crate::http::error::ApiError;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/floatingips").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/network/v2.0/floatingips/{id}")
            .route(web::get().to(nothing))
            .route(web::put().to(nothing))
            .route(web::delete().to(nothing)),
    );
}

async fn list(caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    let collection = request.path().rsplit('/').next().unwrap_or_default();
    ListQuery::of(&request)?.answer(&request, collection, Vec::new())
}

async fn create(caller: Caller) -> Result<HttpResponse, ApiError> {
    writer(&caller)?;
    Err(error(StatusCode::NOT_IMPLEMENTED, "This network service has networks and ports, but no floating IPs."))
}

async fn nothing(caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    reader(&caller)?;
    Err(error(StatusCode::NOT_FOUND, format!("Floating IP {id} could not be found.")))
}
