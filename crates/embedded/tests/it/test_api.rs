//! An application behind the real door, for tests of APIs. The token names the caller's project and role, as in `demo:member`.

use std::sync::Arc;

use actix_web::http::Method;
use actix_web::test::{TestRequest, init_service, read_body, try_call_service};
use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use cellshift_embedded::ServiceError;
use cellshift_embedded::identity::Authenticator;
use cellshift_embedded::testkit::Part;
use cellshift_env::Env;
use serde_json::Value;

use crate::door::{Door, app};

struct TokensAreCallers;

#[async_trait]
impl Authenticator for TokensAreCallers {
    async fn validate(&self, token: &str) -> Result<RequestContext, ServiceError> {
        let (project, role) = token.split_once(':').ok_or_else(|| ServiceError::NotFound("no such token".into()))?;
        let roles: &[&str] = match role {
            "admin" => &["admin", "manager", "member", "reader"],
            "manager" => &["manager", "member", "reader"],
            "member" => &["member", "reader"],
            other => &[other],
        };
        Ok(RequestContext {
            user_id: format!("{role}-of-{project}"),
            project_id: project.into(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            ..RequestContext::default()
        })
    }

    async fn knows_project(&self, id: &str) -> Result<bool, ServiceError> {
        Ok(!id.starts_with("no-such"))
    }
}

/// An API behind the door.
pub struct TestApi {
    door: Door,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Answer {
    /// Returns the body, and panics unless the answer has this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

impl TestApi {
    pub fn new(part: Part) -> TestApi {
        TestApi { door: Door { env: Env::system(), authenticator: Arc::new(TokensAreCallers), max_body: 100_000, part } }
    }

    /// Sends one request with `version` as its `OpenStack-API-Version`.
    pub async fn call(&self, method: &str, path: &str, token: &str, version: Option<&str>, body: Option<Value>) -> Answer {
        let mut request = TestRequest::default().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        request = request.insert_header(("X-Auth-Token", token));
        if let Some(version) = version {
            request = request.insert_header(("OpenStack-API-Version", version));
        }
        if let Some(body) = body {
            request = request.set_json(body);
        }
        self.send(request).await
    }

    /// Sends a request as it is.
    pub async fn send(&self, request: TestRequest) -> Answer {
        let service = init_service(app(self.door.clone())).await;
        let (status, headers, bytes) = match try_call_service(&service, request.to_request()).await {
            Ok(response) => (response.status(), response.headers().clone(), read_body(response).await),
            Err(error) => {
                let response = error.as_response_error().error_response();
                let (status, headers) = (response.status(), response.headers().clone());
                (status, headers, actix_web::body::to_bytes(response.into_body()).await.ok().unwrap())
            }
        };
        Answer {
            status: status.as_u16(),
            headers: headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        }
    }
}
