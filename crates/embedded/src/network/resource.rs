//! The requests that the resources of the network API have alike: list, show, create, update and delete. A resource says what it is called, which
//! methods of the service answer, and how it looks; [`resource`] declares that. The order of checks is the same for all: the body or the query,
//! the caller's role, the id, and then the service's own rules.

use actix_web::{HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};
use uuid::Uuid;

use super::EmbeddedNetwork;
use super::query::ListQuery;
use super::records::{Attributes, Scope};
use super::routes::{Call, Creation, attributes, creation, id_of, reader, refusal, writer};
use crate::ServiceError;

/// A resource that clients list, show, create, update and delete.
pub(super) trait Resource: Sized + 'static {
    /// The resource in messages.
    const KIND: &'static str;
    /// The path of the list.
    const PATH: &'static str;
    /// The key of one in a body.
    const NAME: &'static str;
    /// The key of a list in a body.
    const COLLECTION: &'static str;

    /// Returns those that the scope may see, and all that the query's filters admit among them.
    async fn list(service: &EmbeddedNetwork, scope: Scope, query: &ListQuery) -> Result<Vec<Self>, ServiceError>;

    async fn find(service: &EmbeddedNetwork, scope: Scope, id: Uuid) -> Result<Self, ServiceError>;

    async fn create(service: &EmbeddedNetwork, scope: Scope, attributes: Attributes) -> Result<Self, ServiceError>;

    /// Returns the new state.
    async fn update(service: &EmbeddedNetwork, scope: Scope, id: Uuid, changes: Attributes) -> Result<Self, ServiceError>;

    async fn delete(service: &EmbeddedNetwork, scope: Scope, id: Uuid) -> Result<(), ServiceError>;

    /// Returns the API's view.
    fn body(&self, caller: &Caller) -> Result<Value, ApiError>;
}

/// A resource of which one request may create several.
pub(super) trait Several: Resource {
    /// Creates all, or none.
    async fn create_all(service: &EmbeddedNetwork, scope: Scope, all: Vec<Attributes>) -> Result<Vec<Self>, ServiceError>;
}

/// Implements [`Resource`] for a record by the service's methods and a function that makes its body.
macro_rules! resource {
    (
        $record:ty, kind: $kind:literal, path: $path:literal, name: $name:literal, collection: $collection:literal,
        list: $list:ident, find: $find:ident, create: $create:ident, update: $update:ident, delete: $delete:ident, body: $body:ident
    ) => {
        impl $crate::network::resource::Resource for $record {
            const KIND: &'static str = $kind;
            const PATH: &'static str = concat!("/network/v2.0/", $path);
            const NAME: &'static str = $name;
            const COLLECTION: &'static str = $collection;

            async fn list(
                service: &$crate::network::EmbeddedNetwork,
                scope: $crate::network::records::Scope,
                _: &$crate::network::query::ListQuery,
            ) -> Result<Vec<$record>, $crate::ServiceError> {
                service.$list(scope).await
            }

            $crate::network::resource::single!($record, find: $find, create: $create, update: $update, delete: $delete, body: $body);
        }
    };
}
pub(super) use resource;

/// Implements the methods of [`Resource`] that are about a single one.
macro_rules! single {
    ($record:ty, find: $find:ident, create: $create:ident, update: $update:ident, delete: $delete:ident, body: $body:ident) => {
        async fn find(
            service: &$crate::network::EmbeddedNetwork,
            scope: $crate::network::records::Scope,
            id: uuid::Uuid,
        ) -> Result<$record, $crate::ServiceError> {
            service.$find(scope, id).await
        }

        async fn create(
            service: &$crate::network::EmbeddedNetwork,
            scope: $crate::network::records::Scope,
            attributes: $crate::network::records::Attributes,
        ) -> Result<$record, $crate::ServiceError> {
            service.$create(scope, attributes).await
        }

        async fn update(
            service: &$crate::network::EmbeddedNetwork,
            scope: $crate::network::records::Scope,
            id: uuid::Uuid,
            changes: $crate::network::records::Attributes,
        ) -> Result<$record, $crate::ServiceError> {
            service.$update(scope, id, changes).await
        }

        async fn delete(
            service: &$crate::network::EmbeddedNetwork,
            scope: $crate::network::records::Scope,
            id: uuid::Uuid,
        ) -> Result<(), $crate::ServiceError> {
            service.$delete(scope, id).await
        }

        fn body(&self, caller: &cellshift_web::auth::Caller) -> Result<serde_json::Value, cellshift_web::error::ApiError> {
            $body(self, caller)
        }
    };
}
pub(super) use single;

/// Implements [`Several`] for a record by the service's method.
macro_rules! several {
    ($record:ty, $create_all:ident) => {
        impl $crate::network::resource::Several for $record {
            async fn create_all(
                service: &$crate::network::EmbeddedNetwork,
                scope: $crate::network::records::Scope,
                all: Vec<$crate::network::records::Attributes>,
            ) -> Result<Vec<$record>, $crate::ServiceError> {
                service.$create_all(scope, all).await
            }
        }
    };
}
pub(super) use several;

/// Registers the five requests of a resource.
pub(super) fn configure<R: Resource>(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource(R::PATH).route(web::get().to(list::<R>)).route(web::post().to(create::<R>))).service(one::<R>());
}

/// Registers the five requests of a resource, of which one request may create several.
pub(super) fn configure_several<R: Several>(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource(R::PATH).route(web::get().to(list::<R>)).route(web::post().to(create_all::<R>))).service(one::<R>());
}

fn one<R: Resource>() -> actix_web::Resource {
    let one = web::resource(format!("{}/{{id}}", R::PATH)).route(web::get().to(show::<R>));
    one.route(web::put().to(update::<R>)).route(web::delete().to(delete::<R>))
}

async fn list<R: Resource>(call: Call) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&call.request)?;
    let all = R::list(&call.service, reader(&call.caller)?, &query).await.map_err(refusal)?;
    query.answer(&call.request, R::COLLECTION, bodies(&all, &call.caller)?)
}

async fn show<R: Resource>(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&call.request)?;
    let resource = R::find(&call.service, reader(&call.caller)?, id_of(R::KIND, &id)?).await.map_err(refusal)?;
    Ok(query.one(R::NAME, resource.body(&call.caller)?))
}

async fn create<R: Resource>(call: Call, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    create_one::<R>(&call, attributes(body, R::NAME)?).await
}

async fn create_one<R: Resource>(call: &Call, attributes: Attributes) -> Result<HttpResponse, ApiError> {
    let created = R::create(&call.service, writer(&call.caller)?, attributes).await.map_err(refusal)?;
    Ok(HttpResponse::Created().json(json!({R::NAME: created.body(&call.caller)?})))
}

async fn create_all<R: Several>(call: Call, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    match creation(body, R::NAME, R::COLLECTION)? {
        Creation::One(attributes) => create_one::<R>(&call, attributes).await,
        Creation::Several(all) => {
            let created = R::create_all(&call.service, writer(&call.caller)?, all).await.map_err(refusal)?;
            Ok(HttpResponse::Created().json(json!({R::COLLECTION: bodies(&created, &call.caller)?})))
        }
    }
}

async fn update<R: Resource>(call: Call, id: web::Path<String>, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    let changes = attributes(body, R::NAME)?;
    let updated = R::update(&call.service, writer(&call.caller)?, id_of(R::KIND, &id)?, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({R::NAME: updated.body(&call.caller)?})))
}

async fn delete<R: Resource>(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    R::delete(&call.service, writer(&call.caller)?, id_of(R::KIND, &id)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn bodies<R: Resource>(all: &[R], caller: &Caller) -> Result<Vec<Value>, ApiError> {
    all.iter().map(|one| one.body(caller)).collect()
}
