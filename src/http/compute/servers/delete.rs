//! `DELETE /servers/{id}` (spec §2.6).

use actix_web::http::StatusCode;
use actix_web::web;

use super::ComputeApi;
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, empty};
use crate::saga::context::{Kind, Request};

/// The handler.
pub async fn delete(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:servers:delete").await?;
    api.begin(&caller, Kind::Delete, &located.instance, Request::Delete).await?;
    empty(StatusCode::NO_CONTENT)
}
