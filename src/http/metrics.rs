//! `/metrics`: all metrics of the service, on the API's listener for callers whom the policy allows, or on a listener of its own.

use std::net::TcpListener;

use actix_web::dev::Server;
use actix_web::{App, HttpResponse, HttpServer, web};

use super::auth::Caller;
use super::error::ApiError;
use super::front::HEAD_PATIENCE;
use crate::domain::policy::Target;
use crate::env::Env;
use crate::metrics::CONTENT_TYPE;
use crate::policy_file::PolicyFile;

/// The path on either listener.
const PATH: &str = "/metrics";

/// The connections that the listener of its own takes: a few scrapers need no more.
const CONNECTIONS: usize = 64;

/// Registers `/metrics` on the API's listener.
pub fn configure(config: &mut web::ServiceConfig) {
    config.service(web::resource(PATH).route(web::get().to(show)));
}

async fn show(caller: Caller, policy: web::Data<PolicyFile>, env: web::Data<Env>) -> Result<HttpResponse, ApiError> {
    policy.authorize("ops:metrics", &caller.0, &Target::own(&caller.0))?;
    Ok(text(env).await)
}

/// Answers with the metrics.
async fn text(env: web::Data<Env>) -> HttpResponse {
    let metrics = env.metrics().clone();
    let text = env.run_blocking(move || metrics.text()).await;
    HttpResponse::Ok().content_type(CONTENT_TYPE).body(text)
}

/// Serves `/metrics` and nothing else on a listener, to everybody who reaches it. The future ends after a stop through the server's handle.
pub fn serve(env: Env, listener: TcpListener) -> std::io::Result<Server> {
    let env = web::Data::new(env);
    let server = HttpServer::new(move || App::new().app_data(env.clone()).route(PATH, web::get().to(text)))
        .workers(1)
        .worker_max_blocking_threads(2)
        .max_connections(CONNECTIONS)
        .client_request_timeout(HEAD_PATIENCE)
        .shutdown_timeout(1)
        .disable_signals();
    Ok(server.listen(listener)?.run())
}
