//! Assembles the APIs behind their common door and serves them.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{Server, ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};

use super::auth::Anonymous;
use super::error::{ApiError, ErrorForm};
use super::limits::{CellTimeout, InFlight};
use super::policy_file::PolicyEnforcer;
use super::{access_log, auth, compute, limits, microversion, panic, request_id};
use crate::domain::context::RequestContext;
use crate::env::Env;
use crate::services::identity::Authenticator;

/// Registers one API: its routes and the data that its handlers ask for. Called once per worker.
pub type Part = Arc<dyn Fn(&mut web::ServiceConfig) + Send + Sync>;

/// What the door needs, and the APIs behind it.
#[derive(Clone)]
pub struct Wiring {
    pub env: Env,
    pub authenticator: Arc<dyn Authenticator>,
    pub policy: Arc<PolicyEnforcer>,
    /// Who a request without a token acts as; none refuses it.
    pub anonymous: Option<RequestContext>,
    pub in_flight: InFlight,
    /// The largest body that a handler takes whole, in bytes.
    pub max_body: usize,
    /// How long a request may wait for cells.
    pub cell_timeout: Duration,
    pub parts: Vec<Part>,
}

/// Why the service cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{0} is in use by another program: stop that one, or choose another address with --listen")]
    InUse(SocketAddr),
    #[error("{0} is not an address of this machine: choose another with --listen")]
    NotOurs(SocketAddr),
    #[error("listening on {0} is not permitted: choose a port above 1023 with --listen")]
    NotPermitted(SocketAddr),
    #[error("cannot listen on {0}: {1}")]
    Other(SocketAddr, std::io::Error),
}

/// Takes the address, so that nobody else can, before anything is started behind it.
pub fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => ListenError::InUse(address),
        std::io::ErrorKind::AddrNotAvailable => ListenError::NotOurs(address),
        std::io::ErrorKind::PermissionDenied => ListenError::NotPermitted(address),
        _ => ListenError::Other(address, error),
    })
}

/// One worker's application. The middlewares, from the outside: id and form of errors, log, limits, panics, authentication,
/// versions, the clock of its calls on cells.
pub fn app(
    wiring: Wiring,
) -> App<
    impl ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse<impl MessageBody>, Error = actix_web::Error, InitError = ()>,
> {
    App::new()
        .configure(move |config| configure(config, &wiring))
        .default_service(web::to(nothing_here))
        .wrap(from_fn(limits::time))
        .wrap(from_fn(microversion::negotiate))
        .wrap(from_fn(auth::authenticate))
        .wrap(from_fn(panic::catch))
        .wrap(from_fn(limits::admit))
        .wrap(from_fn(access_log::record))
        .wrap(from_fn(request_id::assign))
}

fn configure(config: &mut web::ServiceConfig, wiring: &Wiring) {
    config
        .app_data(web::Data::new(wiring.env.clone()))
        .app_data(web::Data::from(wiring.authenticator.clone()))
        .app_data(web::Data::from(wiring.policy.clone()))
        .app_data(wiring.in_flight.clone())
        .app_data(CellTimeout(wiring.cell_timeout))
        .route("/healthcheck", web::get().to(healthcheck));
    if let Some(context) = &wiring.anonymous {
        config.app_data(web::Data::new(Anonymous(context.clone())));
    }
    limits::configure_bodies(config, wiring.max_body);
    compute::versions::configure(config);
    for part in &wiring.parts {
        config.configure(|config| part(config));
    }
}

/// How long a connection without a request stays open. Longer than clients keep theirs: a connection that the service closes
/// while the next request is on its way fails that request.
const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// How long the head of a request may take to arrive. A machine that is busy for some seconds must not turn clients away before
/// their requests are read.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// Serves on the listener with this many workers, each with at most `blocking` threads for work that blocks. The future ends
/// after a graceful stop through the server's handle: requests at work get `grace` seconds.
pub fn start(wiring: Wiring, listener: TcpListener, workers: usize, blocking: usize, grace: u64) -> std::io::Result<Server> {
    let server = HttpServer::new(move || app(wiring.clone()))
        .workers(workers)
        .worker_max_blocking_threads(blocking)
        .disable_signals()
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(HEAD_PATIENCE)
        .shutdown_timeout(grace)
        .listen(listener)?;
    Ok(server.run())
}

async fn healthcheck() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("OK")
}

async fn nothing_here(request: HttpRequest) -> Result<HttpResponse, ApiError> {
    Err(ApiError::new(ErrorForm::for_path(request.path()), StatusCode::NOT_FOUND, "The resource could not be found."))
}

#[cfg(test)]
mod tests;
