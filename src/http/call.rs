//! The part of a request that most handlers take: who asks in which version, and the data of the API.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};

use super::auth::Caller;
use super::compute::catalog::Catalog;
use super::microversion::ApiVersion;

/// A request to a part of the API whose handlers share `A`.
pub struct Call<A: ?Sized + 'static> {
    pub request: HttpRequest,
    pub api: web::Data<A>,
    pub catalog: web::Data<Catalog>,
    pub caller: Caller,
    pub version: ApiVersion,
}

impl<A: ?Sized + 'static> Call<A> {
    fn of(request: &HttpRequest) -> Result<Call<A>, actix_web::Error> {
        Ok(Call {
            api: web::Data::extract(request).into_inner()?,
            catalog: web::Data::extract(request).into_inner()?,
            caller: Caller::extract(request).into_inner()?,
            version: ApiVersion::extract(request).into_inner()?,
            request: request.clone(),
        })
    }
}

impl<A: ?Sized + 'static> FromRequest for Call<A> {
    type Error = actix_web::Error;
    type Future = Ready<Result<Call<A>, actix_web::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Call::of(request))
    }
}
