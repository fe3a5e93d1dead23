//! Assembles the APIs behind their common door and serves them.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpRequest, HttpResponse, web};

use super::apis::{self, APIS};
use super::arrival::Arrivals;
use super::auth::Anonymous;
use super::clients::Clients;
use super::error::ApiError;
use super::limits::{CellTimeout, InFlight, Transfers};
use super::{access_log, arrival, compute, limits, microversion, null_characters, panic, request_id, ui};
use crate::domain::context::RequestContext;
use crate::env::Env;
use crate::policy_file::PolicyFile;
use crate::services::identity::Authenticator;

/// Registers one API: its routes and its handlers' data. Called once per worker.
pub type Part = Arc<dyn Fn(&mut web::ServiceConfig) + Send + Sync>;

/// The dependencies of the door, and the APIs behind it.
#[derive(Clone)]
pub struct Wiring {
    pub env: Env,
    pub authenticator: Arc<dyn Authenticator>,
    pub policy: Arc<PolicyFile>,
    /// The identity of requests without a token; none refuses them.
    pub anonymous: Option<RequestContext>,
    pub in_flight: InFlight,
    pub transfers: Transfers,
    pub arrivals: Arrivals,
    pub clients: Clients,
    /// The maximum time that a request may wait for cells.
    pub cell_timeout: Duration,
    pub parts: Vec<Part>,
}

/// The reason why the service cannot listen.
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

/// Binds the address before anything is started behind it, so that no other program can take it.
pub fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => ListenError::InUse(address),
        std::io::ErrorKind::AddrNotAvailable => ListenError::NotOurs(address),
        std::io::ErrorKind::PermissionDenied => ListenError::NotPermitted(address),
        _ => ListenError::Other(address, error),
    })
}

/// Makes a worker's application. The middlewares, from the outside: the page's session, id and form of errors, log, the page's refusals,
/// panics, authentication and body, limits, versions, the clock for calls to cells, null characters.
pub fn app(
    wiring: Wiring,
) -> App<
    impl ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse<impl MessageBody>, Error = actix_web::Error, InitError = ()>,
> {
    App::new()
        .configure(move |config| configure(config, &wiring))
        .default_service(web::to(nothing_here))
        .wrap(from_fn(null_characters::refuse))
        .wrap(from_fn(limits::time))
        .wrap(from_fn(microversion::negotiate))
        .wrap(from_fn(limits::admit))
        .wrap(from_fn(arrival::receive))
        .wrap(from_fn(panic::catch))
        .wrap(from_fn(ui::refuse))
        .wrap(from_fn(access_log::record))
        .wrap(from_fn(request_id::assign))
        .wrap(from_fn(ui::enter))
}

/// Registers all routes, and what their handlers share.
pub fn configure(config: &mut web::ServiceConfig, wiring: &Wiring) {
    config
        .app_data(web::Data::new(wiring.env.clone()))
        .app_data(web::Data::from(wiring.authenticator.clone()))
        .app_data(web::Data::from(wiring.policy.clone()))
        .app_data(wiring.in_flight.clone())
        .app_data(wiring.transfers.clone())
        .app_data(wiring.arrivals.clone())
        .app_data(wiring.clients.clone())
        .app_data(&APIS)
        .app_data(CellTimeout(wiring.cell_timeout))
        .route(limits::HEALTH_CHECK, web::get().to(healthcheck));
    if let Some(context) = &wiring.anonymous {
        config.app_data(web::Data::new(Anonymous(context.clone())));
    }
    limits::configure_bodies(config, wiring.arrivals.max_body);
    compute::versions::configure(config);
    for part in &wiring.parts {
        config.configure(|config| part(config));
    }
}

async fn healthcheck() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("OK")
}

async fn nothing_here(request: HttpRequest) -> Result<HttpResponse, ApiError> {
    Err(ApiError::unrouted(apis::form(&request), StatusCode::NOT_FOUND, "The resource could not be found."))
}

#[cfg(test)]
mod tests;
