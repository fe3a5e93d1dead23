//! Tests of the door: authentication, refusals and failures.

use actix_web::test::{TestRequest, call_service, init_service, read_body};
use async_trait::async_trait;
use futures::FutureExt;
use serde_json::{Value, json};

use super::*;
use crate::http::auth::Caller;
use crate::http::microversion::ApiVersion;
use crate::services::ServiceError;

struct OneToken;

#[async_trait]
impl Authenticator for OneToken {
    async fn validate(&self, token: &str) -> Result<RequestContext, ServiceError> {
        match token {
            "good" => Ok(RequestContext { user_id: "alice".into(), project_id: "demo".into(), ..RequestContext::default() }),
            "down" => Err(ServiceError::Unavailable { service: "identity", reason: "it is asleep".into() }),
            _ => Err(ServiceError::NotFound("no such token".into())),
        }
    }

    async fn knows_project(&self, id: &str) -> Result<bool, ServiceError> {
        Ok(!id.starts_with("no-such"))
    }
}

fn wiring() -> Wiring {
    let parts: Part = Arc::new(|config| {
        config
            .service(web::resource("/compute/v2.1/who").route(web::get().to(async |caller: Caller, version: ApiVersion| {
                HttpResponse::Ok().json(json!({"user": caller.0.user_id, "request": caller.0.request_id, "version": version.0.to_string()}))
            })))
            .service(web::resource("/compute/v2.1/panic").route(web::get().to(async || -> HttpResponse { panic!("out of cheese") })))
            .service(
                web::resource("/compute/v2.1/echo")
                    .route(web::post().to(async |body: crate::http::json::Json<Value>| HttpResponse::Ok().json(&*body))),
            )
            .service(web::resource("/compute/v2.1/slow").route(web::get().to(async || {
                futures::future::pending::<()>().await;
                HttpResponse::Ok().finish()
            })))
            .service(web::resource("/network/v2.0/panic").route(web::get().to(async || -> HttpResponse { panic!("out of cheese") })));
    });
    Wiring {
        env: Env::system(),
        authenticator: Arc::new(OneToken),
        policy: Arc::new(PolicyFile::built_in().unwrap()),
        anonymous: None,
        in_flight: InFlight::new(2),
        transfers: Transfers(InFlight::new(100)),
        arrivals: Arrivals::generous(1000),
        clients: Clients::default(),
        cell_timeout: std::time::Duration::from_secs(5),
        parts: vec![parts],
    }
}

fn get(path: &str) -> TestRequest {
    TestRequest::get().uri(path).insert_header(("X-Auth-Token", "good"))
}

/// Returns status, headers and JSON body as a client sees them, also for an error that reached the outermost layer.
async fn answer(wiring: &Wiring, request: TestRequest) -> (u16, Vec<(String, String)>, Value) {
    let service = init_service(app(wiring.clone())).await;
    let (status, headers, bytes) = match actix_web::test::try_call_service(&service, request.to_request()).await {
        Ok(response) => {
            let (status, headers) = (response.status(), response.headers().clone());
            (status, headers, read_body(response).await)
        }
        Err(error) => {
            let response = error.error_response();
            let (status, headers) = (response.status(), response.headers().clone());
            (status, headers, actix_web::body::to_bytes(response.into_body()).await.ok().unwrap())
        }
    };
    let headers = headers.iter().map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned())).collect();
    (status.as_u16(), headers, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str()).unwrap_or_default()
}

#[actix_web::test]
async fn a_valid_token_names_the_caller_and_the_request_has_an_id() {
    let (status, headers, body) =
        answer(&wiring(), get("/compute/v2.1/who").insert_header(("OpenStack-API-Version", "compute 2.56"))).await;
    assert_eq!((status, &body["user"], &body["version"]), (200, &json!("alice"), &json!("2.56")));
    let id = header(&headers, "x-openstack-request-id");
    assert!(id.starts_with("req-") && id.len() == 40);
    assert_eq!((header(&headers, "x-compute-request-id"), body["request"].as_str().unwrap()), (id, id));
    assert_eq!(header(&headers, "openstack-api-version"), "compute 2.56");
    assert_eq!(header(&headers, "x-openstack-nova-api-version"), "2.56");
    assert_eq!(headers.iter().filter(|(n, _)| n == "vary").count(), 2);
}

#[actix_web::test]
async fn nobody_else_gets_in_and_each_api_says_so_in_its_form() {
    for (path, pointer) in [
        ("/compute/v2.1/who", "/unauthorized/message"),
        ("/compute/v2.1/nothing", "/unauthorized/message"),
        ("/identity/v3/users", "/error/message"),
        ("/network/v2.0/ports", "/NeutronError/message"),
        ("/image/v2/images", "/message"),
        ("/placement/resource_providers", "/errors/0/detail"),
        ("/volume/v3/volumes", "/unauthorized/message"),
        ("/ops/v1/cells", "/unauthorized/message"),
    ] {
        for request in [TestRequest::get(), TestRequest::get().insert_header(("X-Auth-Token", "bad"))] {
            let (status, headers, body) = answer(&wiring(), request.uri(path)).await;
            assert_eq!(status, 401, "{path}");
            assert_eq!(body.pointer(pointer).unwrap(), "The request you have made requires authentication.", "{path}: {body}");
            assert!(header(&headers, "x-openstack-request-id").starts_with("req-"), "{path}");
            assert!(header(&headers, "www-authenticate").starts_with("Keystone"), "{path}");
        }
    }
    let (status, headers, _) = answer(&wiring(), TestRequest::get().uri("/compute/v2.1/who").insert_header(("X-Auth-Token", "down"))).await;
    assert_eq!((status, header(&headers, "retry-after")), (503, "5"), "a sleeping identity service is not the caller's fault");
}

#[actix_web::test]
async fn without_tokens_a_request_acts_as_the_configured_caller() {
    let anonymous = RequestContext { user_id: "anybody".into(), ..RequestContext::default() };
    let (status, _, body) = answer(&Wiring { anonymous: Some(anonymous), ..wiring() }, TestRequest::get().uri("/compute/v2.1/who")).await;
    assert_eq!((status, &body["user"]), (200, &json!("anybody")));
}

#[actix_web::test]
async fn version_documents_need_no_token_and_lead_to_each_other() {
    for path in ["/compute", "/compute/"] {
        let (status, _, body) = answer(&wiring(), TestRequest::get().uri(path).insert_header(("Host", "cloud.example:8774"))).await;
        assert_eq!(status, 200);
        let versions = body["versions"].as_array().unwrap();
        assert_eq!((&versions[1]["version"], &versions[1]["min_version"]), (&json!("2.104"), &json!("2.1")));
        for version in versions {
            let href = version["links"][0]["href"].as_str().unwrap().strip_prefix("http://cloud.example:8774").unwrap();
            let (status, _, document) = answer(&wiring(), TestRequest::get().uri(href)).await;
            assert_eq!((status, &document["version"]["id"]), (200, &version["id"]));
        }
    }
    let (status, _, _) = answer(&wiring(), TestRequest::get().uri("/healthcheck")).await;
    assert_eq!(status, 200);
}

#[actix_web::test]
async fn a_body_is_json_by_its_media_type() {
    let wiring = wiring();
    let echo = |kind: &'static str, body: &'static str| {
        let request = TestRequest::post().uri("/compute/v2.1/echo").insert_header(("X-Auth-Token", "good")).set_payload(body);
        if kind.is_empty() { request } else { request.insert_header(("Content-Type", kind)) }
    };
    for (kind, body, status) in [
        ("application/json", "{\"a\": 1}", 200),
        ("Application/JSON; charset=utf-8", "{\"a\": 1}", 200),
        ("application/vnd.openstack.compute+json", "{\"a\": 1}", 200),
        ("", "{\"a\": 1}", 200),
        ("application/xml", "{\"a\": 1}", 415),
        ("application/jsonp", "{\"a\": 1}", 415),
        ("text/plain;charset=UTF-8", "{\"a\": 1}", 415),
        ("application/x-www-form-urlencoded", "{\"a\":", 415),
        ("application/xml", "", 400),
    ] {
        let (got, _, answer) = answer(&wiring, echo(kind, body)).await;
        assert_eq!(got, status, "{kind} {body}: {answer}");
        if status == 415 {
            assert!(answer["badMediaType"]["message"].as_str().unwrap().starts_with("Unsupported Content-Type "), "{answer}");
        }
    }
}

#[actix_web::test]
async fn errors_of_all_sorts_have_the_form_of_their_api() {
    let wiring = wiring();
    let post = |body: &'static str| TestRequest::post().uri("/compute/v2.1/echo").insert_header(("X-Auth-Token", "good")).set_payload(body);
    for (request, status, name) in [
        (get("/compute/v2.1/nothing"), 404, "itemNotFound"),
        (get("/compute/v2.1/echo"), 405, "badMethod"),
        (get("/compute/v2.1/who").insert_header(("OpenStack-API-Version", "compute 2.999")), 406, "computeFault"),
        (get("/compute/v2.1/who").insert_header(("OpenStack-API-Version", "compute new")), 400, "badRequest"),
        (post("{\"a\":"), 400, "badRequest"),
        (post("{\"a\": 1}"), 200, "a"),
        (post(r#"{"a": "\\u0000 is text"}"#), 200, "a"),
        (post(r#"{"a": [{"b": "x\u0000"}]}"#), 400, "badRequest"),
        (post(r#"{"a": {"x\u0000": 1}}"#), 400, "badRequest"),
        (get("/compute/v2.1/wh%00o"), 404, "itemNotFound"),
        (get("/compute/v2.1/who?name=a%00b"), 400, "badRequest"),
        (
            TestRequest::post().uri("/compute/v2.1/echo").insert_header(("X-Auth-Token", "good")).set_payload("[".repeat(2000)),
            413,
            "overLimit",
        ),
    ] {
        let (got, headers, body) = answer(&wiring, request).await;
        assert_eq!((got, body.as_object().unwrap().keys().next().unwrap().as_str()), (status, name), "{body}");
        assert!(header(&headers, "content-type").starts_with("application/json"));
        assert!(header(&headers, "x-openstack-request-id").starts_with("req-"));
    }
    let (status, headers, body) = answer(&wiring, get("/placement/nothing")).await;
    assert_eq!((status, body["errors"][0]["request_id"].as_str().unwrap()), (404, header(&headers, "x-openstack-request-id")));
}

#[actix_web::test]
async fn a_panic_is_a_500_that_names_the_request() {
    for (path, pointer) in [("/compute/v2.1/panic", "/computeFault/message"), ("/network/v2.0/panic", "/NeutronError/message")] {
        let (status, headers, body) = answer(&wiring(), get(path)).await;
        let id = header(&headers, "x-openstack-request-id");
        assert_eq!(status, 500);
        assert!(id.starts_with("req-") && body.pointer(pointer).unwrap().as_str().unwrap().contains(id), "{body}");
        assert!(!body.to_string().contains("cheese"), "what went wrong inside is not the caller's business");
    }
}

#[actix_web::test]
async fn past_the_limit_requests_are_told_to_come_back() {
    let wiring = wiring();
    let service = init_service(app(wiring.clone())).await;
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut call = Box::pin(actix_web::test::try_call_service(&service, get("/compute/v2.1/slow").to_request()));
        assert!((&mut call).now_or_never().is_none());
        slow.push(call);
    }
    let (status, headers, body) = answer(&wiring, get("/compute/v2.1/who")).await;
    assert_eq!((status, header(&headers, "retry-after"), body.pointer("/serviceUnavailable/code")), (503, "1", Some(&json!(503))));
    assert_eq!(answer(&wiring, TestRequest::get().uri("/healthcheck")).await.0, 200);
    slow.pop();
    assert_eq!(
        call_service(&service, get("/compute/v2.1/who").to_request()).await.status().as_u16(),
        200,
        "a place is given back however it ends"
    );
}

#[test]
fn an_address_in_use_is_one_clear_sentence() {
    let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = bind(first.local_addr().unwrap()).unwrap_err();
    assert!(error.to_string().contains("in use") && error.to_string().contains("--listen"), "{error}");
}
