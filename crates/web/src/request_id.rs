//! Request ids: each request gets one, and each answer, error and log line contains it.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpRequest, web};
use cellshift_env::Env;

use crate::apis;
use crate::error_shape;
use crate::front::talk;

/// The id of the current request.
#[derive(Clone, Debug)]
struct RequestId(String);

/// Returns the request's id (`req-` and a UUID); empty outside [`assign`].
pub fn of(request: &HttpRequest) -> String {
    request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default()
}

/// Middleware, the outermost of the APIs: gives the request its id, adds it to the answer's headers, and gives each error the form of the path's API.
pub async fn assign<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let id = match request.app_data::<web::Data<Env>>() {
        Some(env) => format!("req-{}", env.uuid()),
        None => String::new(),
    };
    let (api, path) = (apis::of(request.request()), request.path().to_owned());
    request.extensions_mut().insert(RequestId(id.clone()));
    let at_work = talk::of(request.request()).map(|talk| talk.begin());
    match next.call(request).await {
        Ok(response) => {
            let mut response = error_shape::of_response(response.map_into_boxed_body(), api, &path, &id);
            put(response.headers_mut(), api.id_header, &id);
            Ok(match at_work {
                Some(at_work) => response.map_body(|_, body| talk::note(body, at_work)),
                None => response,
            })
        }
        // An inner middleware failed and consumed the request, so there is nothing to build an answer on. The error carries the id.
        Err(error) => Err(error_shape::of_error(&error, api, &path, &id).for_request(&id).for_api(api).into()),
    }
}

/// Adds the headers with the request's id. `second` is one that the API's clients look for.
pub fn put(headers: &mut HeaderMap, second: Option<&'static str>, id: &str) {
    let Ok(value) = HeaderValue::from_str(id) else { return };
    if let Some(second) = second {
        headers.insert(HeaderName::from_static(second), value.clone());
    }
    headers.insert(HeaderName::from_static("x-openstack-request-id"), value);
}
