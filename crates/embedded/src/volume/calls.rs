//! The calls that the resources of this API have alike: list, list with details, show and delete.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::microversion::ApiVersion;
use serde_json::{Value, json};

use crate::volume::EmbeddedVolume;
use crate::volume::paging::{self, Listed, Query};

/// A request to this API, and its sender.
pub(super) struct Call {
    pub request: HttpRequest,
    pub version: ApiVersion,
    pub service: web::Data<EmbeddedVolume>,
    pub caller: Caller,
}

impl FromRequest for Call {
    type Error = actix_web::Error;
    type Future = Ready<Result<Call, actix_web::Error>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let version = ApiVersion::from_request(request, payload).into_inner();
        let service = web::Data::from_request(request, payload).into_inner();
        let caller = Caller::from_request(request, payload).into_inner();
        ready(service.and_then(|service| Ok(Call { request: request.clone(), version: version?, service, caller: caller? })))
    }
}

/// A thing that clients list, show and delete. Each call first refuses a caller who may not make it.
pub(super) trait Shown: Listed + 'static {
    /// The key of one in an answer.
    const NAME: &'static str;
    /// The status of the answer to a deletion.
    const DELETED: StatusCode = StatusCode::ACCEPTED;

    /// Returns those that the caller may see and the query's filters admit, newest first.
    async fn matching(call: &Call, query: &Query) -> Result<Vec<Self>, ApiError>;

    async fn show(call: &Call, id: &str) -> Result<Self, ApiError>;

    async fn delete(call: &Call, id: &str, query: &Query) -> Result<(), ApiError>;

    /// Returns the entry of a list without details.
    fn summary(&self, call: &Call) -> Value;

    /// Returns the entry of a list with details, which is also what one shows of itself.
    fn detail(&self, call: &Call) -> Value {
        self.summary(call)
    }

    /// Returns the body of an answer that shows one.
    fn body(&self, call: &Call) -> Value {
        json!({Self::NAME: self.detail(call)})
    }
}

pub(super) async fn list<T: Shown>(call: Call, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    listed(&call, &query, T::summary).await
}

pub(super) async fn list_details<T: Shown>(call: Call, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    listed(&call, &query, T::detail).await
}

/// Answers with the page that the query asks for.
async fn listed<T: Shown>(call: &Call, query: &Query, entry: fn(&T, &Call) -> Value) -> Result<HttpResponse, ApiError> {
    let page = paging::page(T::matching(call, query).await?, query)?;
    let entries = page.entries.iter().map(|shown| entry(shown, call)).collect();
    Ok(HttpResponse::Ok().json(paging::body(&call.request, call.version, &page, entries)))
}

pub(super) async fn show<T: Shown>(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let shown = T::show(&call, &id).await?;
    Ok(HttpResponse::Ok().json(shown.body(&call)))
}

pub(super) async fn delete<T: Shown>(call: Call, id: web::Path<String>, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    T::delete(&call, &id, &query).await?;
    Ok(HttpResponse::build(T::DELETED).finish())
}
