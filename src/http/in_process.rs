//! The APIs without a socket: requests pass the same door and reach the same handlers, on the caller's thread.

use std::rc::Rc;

use actix_web::body::to_bytes;
use actix_web::dev::Service;
use actix_web::http::Method;
use actix_web::http::header::HeaderName;
use actix_web::test::{TestRequest, init_service};
use futures::future::LocalBoxFuture;
use serde_json::Value;

use super::server::{Wiring, app};

type Answer = (u16, Value);
type Serve = dyn Fn(TestRequest) -> LocalBoxFuture<'static, Answer>;

/// The APIs' application. Cheap to clone, for one thread.
#[derive(Clone)]
pub struct InProcess {
    serve: Rc<Serve>,
}

impl InProcess {
    /// Starts the wired APIs.
    pub async fn new(wiring: Wiring) -> InProcess {
        let service = Rc::new(init_service(app(wiring)).await);
        let serve = move |request: TestRequest| -> LocalBoxFuture<'static, Answer> {
            let service = service.clone();
            Box::pin(async move {
                let response = match service.call(request.to_request()).await {
                    Ok(response) => response.into_parts().1.map_into_boxed_body(),
                    Err(error) => error.error_response(),
                };
                let status = response.status().as_u16();
                let body = to_bytes(response.into_body()).await.unwrap_or_default();
                (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
            })
        };
        InProcess { serve: Rc::new(serve) }
    }

    /// Sends a request, and returns the status and the JSON body, which is null if there is none.
    pub async fn send(&self, method: Method, path: &str, version: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = TestRequest::with_uri(path).method(method);
        request = request.insert_header((HeaderName::from_static("openstack-api-version"), version));
        if let Some(body) = body {
            request = request.set_json(body);
        }
        (self.serve)(request).await
    }
}
