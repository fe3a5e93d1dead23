//! The calls that resources have alike, over HTTP: list, show and delete of all that is [`Shown`], create and update of what is [`Editable`]. A
//! resource says what it is called, who may do what, and how it looks. The reading of requests and the forms of answers are the same for all.

use std::collections::BTreeMap;
use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::http::{Method, StatusCode};
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use cellshift_web::microversion::ApiVersion;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A query, by parameter.
pub(crate) type Query = BTreeMap<String, String>;

/// True if the query does not name this parameter, or names it with this value.
pub(crate) fn is(query: &Query, parameter: &str, value: &str) -> bool {
    query.get(parameter).is_none_or(|text| text == value)
}

/// A request to a service, and its sender.
pub(crate) struct Call<S: 'static> {
    pub request: HttpRequest,
    pub version: ApiVersion,
    pub service: web::Data<S>,
    pub caller: Caller,
}

impl<S: 'static> Call<S> {
    /// Returns the query of the request.
    pub fn query(&self) -> Query {
        web::Query::from_query(self.request.query_string()).map(web::Query::into_inner).unwrap_or_default()
    }
}

impl<S: 'static> FromRequest for Call<S> {
    type Error = actix_web::Error;
    type Future = Ready<Result<Call<S>, actix_web::Error>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let version = ApiVersion::from_request(request, payload).into_inner();
        let service = web::Data::<S>::from_request(request, payload).into_inner();
        let caller = Caller::from_request(request, payload).into_inner();
        ready(service.and_then(|service| Ok(Call { request: request.clone(), version: version?, service, caller: caller? })))
    }
}

/// A service that answers requests for resources `R` in the form of its API.
pub(crate) trait Answers<R>: Sized + 'static {
    /// The status of the answer to a deletion.
    const DELETED: StatusCode;
    /// The method of a request that updates one.
    const UPDATE: Method;

    /// Returns the body of a list with an entry for each resource, or for those on the page that the query asks for.
    fn listed(call: &Call<Self>, query: &Query, all: Vec<R>, entry: Entry<R, Self>) -> Result<Value, ApiError>;
}

/// Returns a resource's entry in a list.
pub(crate) type Entry<R, S> = fn(&R, &Call<S>) -> Value;

/// A resource that clients list, show and delete. Each call first refuses a caller who may not make it.
pub(crate) trait Shown: Sized + 'static {
    type Service: Answers<Self>;

    /// The key of one in a body.
    const NAME: &'static str;
    /// The key of a list in a body.
    const COLLECTION: &'static str;
    /// The path of the list.
    const PATH: &'static str = Self::COLLECTION;
    /// The status of the answer to a deletion.
    const DELETED: StatusCode = <Self::Service as Answers<Self>>::DELETED;

    /// Returns those that the caller may see and the query's filters admit, in the order of the list.
    async fn list(call: &Call<Self::Service>, query: &Query) -> Result<Vec<Self>, ApiError>;

    async fn show(call: &Call<Self::Service>, id: &str) -> Result<Self, ApiError>;

    async fn delete(call: &Call<Self::Service>, id: &str) -> Result<(), ApiError>;

    /// Returns the entry of a list.
    fn view(&self, call: &Call<Self::Service>) -> Value;

    /// Returns the entry of a list with details, which is also what one shows of itself.
    fn detail(&self, call: &Call<Self::Service>) -> Value {
        self.view(call)
    }

    /// Returns the body of an answer that shows one.
    fn body(&self, call: &Call<Self::Service>) -> Value {
        json!({Self::NAME: self.detail(call)})
    }
}

/// A resource that clients also create and update.
pub(crate) trait Editable: Shown {
    /// The body of a request that creates one.
    type New: DeserializeOwned + Send + 'static;
    /// The body of a request that updates one.
    type Change: DeserializeOwned + Send + 'static;
    /// The status of the answer to a creation.
    const CREATED: StatusCode = StatusCode::CREATED;

    async fn create(call: &Call<Self::Service>, body: Self::New) -> Result<Self, ApiError>;

    /// Returns the new state.
    async fn update(call: &Call<Self::Service>, id: &str, body: Self::Change) -> Result<Self, ApiError>;

    /// Returns the body of the answer to a creation.
    fn created(&self, call: &Call<Self::Service>) -> Value {
        self.body(call)
    }

    /// Returns the body of the answer to an update.
    fn updated(&self, call: &Call<Self::Service>) -> Value {
        self.created(call)
    }
}

/// Registers the five routes of a resource.
pub(crate) fn configure<R: Editable>(cfg: &mut web::ServiceConfig) {
    cfg.service(all::<R>()).service(one::<R>());
}

/// Registers the routes of a resource that also has a list with details.
pub(crate) fn configure_with_details<R: Editable>(cfg: &mut web::ServiceConfig) {
    cfg.service(all::<R>()).service(details::<R>()).service(one::<R>());
}

/// Returns the routes of the list.
pub(crate) fn all<R: Editable>() -> actix_web::Resource {
    web::resource(format!("/{}", R::PATH)).route(web::get().to(list::<R>)).route(web::post().to(create::<R>))
}

/// Returns the route of the list with details. It goes before [`one`], which takes its path for an id.
pub(crate) fn details<R: Shown>() -> actix_web::Resource {
    web::resource(format!("/{}/detail", R::PATH)).route(web::get().to(list_details::<R>))
}

/// Returns the routes of a single one.
pub(crate) fn one<R: Editable>() -> actix_web::Resource {
    let one = web::resource(format!("/{}/{{id}}", R::PATH)).route(web::get().to(show::<R>));
    let update = web::method(<R::Service as Answers<R>>::UPDATE).to(update::<R>);
    one.route(update).route(web::delete().to(delete::<R>))
}

/// Lists resources.
pub(crate) async fn list<R: Shown>(call: Call<R::Service>, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    let all = R::list(&call, &query).await?;
    Ok(HttpResponse::Ok().json(R::Service::listed(&call, &query, all, R::view)?))
}

/// Lists resources with details.
pub(crate) async fn list_details<R: Shown>(call: Call<R::Service>, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    let all = R::list(&call, &query).await?;
    Ok(HttpResponse::Ok().json(R::Service::listed(&call, &query, all, R::detail)?))
}

/// Shows a resource.
pub(crate) async fn show<R: Shown>(call: Call<R::Service>, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let shown = R::show(&call, &id).await?;
    Ok(HttpResponse::Ok().json(shown.body(&call)))
}

/// Deletes a resource.
pub(crate) async fn delete<R: Shown>(call: Call<R::Service>, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    R::delete(&call, &id).await?;
    Ok(HttpResponse::build(R::DELETED).finish())
}

async fn create<R: Editable>(call: Call<R::Service>, Json(body): Json<R::New>) -> Result<HttpResponse, ApiError> {
    let created = R::create(&call, body).await?;
    Ok(HttpResponse::build(R::CREATED).json(created.created(&call)))
}

async fn update<R: Editable>(call: Call<R::Service>, id: web::Path<String>, Json(body): Json<R::Change>) -> Result<HttpResponse, ApiError> {
    let updated = R::update(&call, &id, body).await?;
    Ok(HttpResponse::Ok().json(updated.updated(&call)))
}
