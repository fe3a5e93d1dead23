//! The door of `cellshift-web` before this crate's APIs, for their tests. The program's own door has more: its log, its pages, its clock.

use std::sync::Arc;

use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::{App, Error, HttpRequest, HttpResponse, test, web};
use cellshift_domain::microversion::Microversion;
use cellshift_embedded::apis as embedded;
use cellshift_embedded::image::routes::takes_a_stream;
use cellshift_embedded::testkit::{ApiFixture, Part};
use cellshift_env::Env;
use cellshift_neighbours::identity::Authenticator;
use cellshift_web::apis::{self, Api, Apis};
use cellshift_web::arrival::Arrivals;
use cellshift_web::clients::Clients;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::limits::{InFlight, Transfers};
use cellshift_web::{arrival, limits, microversion, null_characters, panic, request_id};

static APIS: Apis = Apis {
    all: &[embedded::IDENTITY, embedded::IMAGE, embedded::NETWORK, embedded::PLACEMENT, embedded::VOLUME],
    other: Api { segment: "", form: ErrorForm::Compute, versions: |_| None, id_header: None, serves_unscoped: false },
    unversioned: Microversion::new(2, 1),
    is_open: |method, path| embedded::is_open(method, path.trim_end_matches('/')),
    takes_a_stream,
    is_socket: |_| false,
};

/// The dependencies of the door, and the APIs behind it.
#[derive(Clone)]
pub struct Door {
    pub env: Env,
    pub authenticator: Arc<dyn Authenticator>,
    /// The maximum size of a body in bytes.
    pub max_body: usize,
    pub part: Part,
}

/// Makes a worker's application.
pub fn app(
    door: Door,
) -> App<
    impl ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse<impl MessageBody>, Error = actix_web::Error, InitError = ()>,
> {
    App::new()
        .configure(move |config| configure(config, &door))
        .default_service(web::to(nothing_here))
        .wrap(from_fn(null_characters::refuse))
        .wrap(from_fn(microversion::negotiate))
        .wrap(from_fn(limits::admit))
        .wrap(from_fn(arrival::receive))
        .wrap(from_fn(panic::catch))
        .wrap(from_fn(request_id::assign))
}

fn configure(config: &mut web::ServiceConfig, door: &Door) {
    config
        .app_data(web::Data::new(door.env.clone()))
        .app_data(web::Data::from(door.authenticator.clone()))
        .app_data(InFlight::new(100))
        .app_data(Transfers(InFlight::new(100)))
        .app_data(Arrivals::generous(door.max_body))
        .app_data(Clients::default())
        .app_data(&APIS);
    limits::configure_bodies(config, door.max_body);
    (door.part)(config);
}

/// Makes the HTTP application over these services.
pub async fn served(
    world: &ApiFixture,
) -> impl Service<actix_http::Request, Response = ServiceResponse<impl MessageBody + use<>>, Error = Error> + use<> {
    let authenticator = world.identity.clone();
    test::init_service(app(Door { env: world.env.clone(), authenticator, max_body: 1 << 16, part: world.part() })).await
}

/// Starts a service's API, and returns both with the token of a member.
pub async fn with_member(
    world: ApiFixture,
) -> (ApiFixture, impl Service<actix_http::Request, Response = ServiceResponse<impl MessageBody>, Error = Error>, String) {
    let app = served(&world).await;
    let demo = world.token("demo").await;
    (world, app, demo)
}

/// Starts a service's API, and returns both with the tokens of a member and of an administrator.
pub async fn with_users(
    world: ApiFixture,
) -> (ApiFixture, impl Service<actix_http::Request, Response = ServiceResponse<impl MessageBody>, Error = Error>, String, String) {
    let (world, app, demo) = with_member(world).await;
    let admin = world.token("admin").await;
    (world, app, demo, admin)
}

async fn nothing_here(request: HttpRequest) -> Result<HttpResponse, ApiError> {
    Err(ApiError::unrouted(apis::form(&request), StatusCode::NOT_FOUND, "The resource could not be found."))
}
