//! The roles for the image and the volume API: readers may read, members may write, on all paths.

use actix_web::HttpMessage;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;

use crate::apis;
use crate::auth::Caller;
use crate::error::ApiError;

/// Middleware: answers 403 to a caller without the role that the method needs. A request without a caller asks for a version document,
/// because authentication admits no other.
pub async fn by_method<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let role = if [Method::GET, Method::HEAD].contains(request.method()) { "reader" } else { "member" };
    let may = request.extensions().get::<Caller>().is_none_or(|caller| caller.0.has_role(role) || caller.0.is_admin());
    if !may {
        let message = format!("Policy doesn't allow this to be performed: it needs the role {role}.");
        let refusal = ApiError::new(apis::form(request.request()), StatusCode::FORBIDDEN, message);
        return Ok(request.error_response(refusal));
    }
    Ok(next.call(request).await?.map_into_boxed_body())
}
