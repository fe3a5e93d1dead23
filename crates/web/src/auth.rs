//! Authentication: each path needs a valid `X-Auth-Token`, except for a few open ones.

use std::future::{Ready, ready};

use actix_web::dev::{Payload, ServiceRequest};
use actix_web::http::StatusCode;
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use cellshift_domain::context::RequestContext;
use cellshift_neighbours::ServiceError;
use cellshift_neighbours::identity::Authenticator;

use crate::apis::{self, Api, Apis};
use crate::error::{ApiError, ErrorForm};
use crate::limits::InFlight;
use crate::{request_id, spans};

/// The caller that the token names. As a handler's parameter it answers 401 in the form of the path's API if there is no caller.
#[derive(Clone, Debug)]
pub struct Caller(pub RequestContext);

impl FromRequest for Caller {
    type Error = ApiError;
    type Future = Ready<Result<Caller, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(request.extensions().get::<Caller>().cloned().ok_or_else(|| unauthorized(apis::form(request))))
    }
}

/// Answers 400 unless a project with this id exists, before anything is stored or shown for it. The caller's own project needs no look-up.
pub async fn require_project(identity: &dyn Authenticator, caller: &Caller, form: ErrorForm, id: &str) -> Result<(), ApiError> {
    if caller.0.project_id == id || identity.knows_project(id).await.map_err(|error| ApiError::from_service(form, error))? {
        return Ok(());
    }
    Err(ApiError::new(form, StatusCode::BAD_REQUEST, format!("Project ID {id} is not a valid project.")))
}

/// The rights of a request without a token. Without this such a request is refused.
#[derive(Clone, Debug)]
pub struct Anonymous(pub RequestContext);

/// Authenticates the sender of the request; none on an open path. Borrows nothing from the request, because its body is read meanwhile.
/// Counts as in flight, because validating a token is work.
pub fn judge(request: &ServiceRequest) -> impl Future<Output = Result<Option<RequestContext>, ApiError>> + use<> {
    let api = apis::of(request.request());
    let open = (Apis::of(request.request()).is_open)(request.method(), request.path());
    let token = request.headers().get("X-Auth-Token").cloned();
    let anonymous = request.app_data::<web::Data<Anonymous>>().cloned();
    let authenticator = request.app_data::<web::Data<dyn Authenticator>>().cloned();
    let in_flight = request.app_data::<InFlight>().cloned();
    let (request_id, trace) = (request_id::of(request.request()), spans::of(request.request()));
    async move {
        let mut context = match (token, anonymous) {
            _ if open => return Ok(None),
            (Some(token), _) => {
                let token = token.to_str().map_err(|_| unauthorized(api.form))?;
                let authenticator = authenticator.ok_or_else(|| unauthorized(api.form))?;
                let _entered = in_flight.map(|limit| limit.enter(api.form)).transpose()?;
                let context = authenticator.validate(token).await.map_err(|error| refused(api.form, error))?;
                require_scope(api, &context)?;
                context
            }
            (None, Some(anonymous)) => anonymous.0.clone(),
            (None, None) => return Err(unauthorized(api.form)),
        };
        context.request_id = request_id;
        context.trace = trace;
        Ok(Some(context))
    }
}

/// Refuses a token without a project, except for an API that needs none, and except a system-scoped token of an administrator.
fn require_scope(api: &Api, context: &RequestContext) -> Result<(), ApiError> {
    if api.serves_unscoped || !context.project_id.is_empty() || (context.system_scope && context.is_admin()) {
        return Ok(());
    }
    let message = "This needs a token that is scoped to a project: ask the identity service for one with auth.scope.project.";
    Err(ApiError::new(api.form, StatusCode::FORBIDDEN, message))
}

fn unauthorized(form: ErrorForm) -> ApiError {
    let mut error = ApiError::new(form, StatusCode::UNAUTHORIZED, "The request you have made requires authentication.");
    error.challenge = true;
    error
}

fn refused(form: ErrorForm, error: ServiceError) -> ApiError {
    match error {
        ServiceError::Unavailable { .. } => ApiError::from_service(form, error),
        _ => unauthorized(form),
    }
}
