//! Gives the web framework's errors (unknown paths, wrong methods, malformed bodies) the form of the path's API.

use actix_web::ResponseError;
use actix_web::body::BoxBody;
use actix_web::dev::ServiceResponse;
use actix_web::http::{StatusCode, header};
use actix_web::{HttpMessage, HttpResponse};

use crate::apis::Api;
use crate::error::{ApiError, ErrorForm};
use crate::microversion::ApiVersion;

/// Replaces the body of an error that lacks the form of the path's API.
pub fn of_response(response: ServiceResponse<BoxBody>, api: &Api, path: &str, request_id: &str) -> ServiceResponse<BoxBody> {
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let replacement = match response.response().error() {
        Some(error) => match error.as_error::<ApiError>().inspect(|api_error| api_error.log_inside(path, request_id)) {
            // Only placement's body contains the request id and depends on the version, which the error's maker did not know.
            Some(api_error) if api_error.form == ErrorForm::Placement && api_error.request_id.is_none() => api_error.clone(),
            Some(_) => return response,
            None => of_error(error, api, path, request_id),
        },
        None if response.headers().contains_key(header::CONTENT_TYPE) => return response,
        None if status == StatusCode::METHOD_NOT_ALLOWED => {
            let message = format!("The method {} is not allowed for this resource.", response.request().method());
            ApiError::unrouted(api.form, status, message)
        }
        None => ApiError::unrouted(api.form, status, usual_message(status)),
    };
    let version = response.request().extensions().get::<ApiVersion>().copied();
    let error = replacement.for_request(request_id).for_version(version);
    let mut shaped: HttpResponse = error.error_response();
    for (name, value) in response.headers() {
        if ![header::CONTENT_TYPE, header::CONTENT_LENGTH].contains(name) && !shaped.headers().contains_key(name) {
            shaped.headers_mut().append(name.clone(), value.clone());
        }
    }
    response.into_response(shaped)
}

/// Converts any error for the path's API. The details of a server error go to the log only.
pub fn of_error(error: &actix_web::Error, api: &Api, path: &str, request_id: &str) -> ApiError {
    if let Some(api_error) = error.as_error::<ApiError>() {
        api_error.log_inside(path, request_id);
        return api_error.clone();
    }
    let status = error.as_response_error().status_code();
    let message = match status.is_server_error() {
        true => {
            log::error!(request_id = request_id; "a request to {path} failed: {error}");
            usual_message(status).to_owned()
        }
        false => error.to_string(),
    };
    ApiError::new(api.form, status, message)
}

fn usual_message(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "The resource could not be found.",
        StatusCode::INTERNAL_SERVER_ERROR => "Unexpected API Error. The request id is in the answer's headers and in the log.",
        other => other.canonical_reason().unwrap_or("Error"),
    }
}
