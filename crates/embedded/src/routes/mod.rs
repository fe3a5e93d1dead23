//! The services' APIs over HTTP, one folder per service, and what the door must know of them.

pub mod identity;
pub mod image;
pub use crate::network::routes as network;
pub use crate::placement::routes as placement;
pub mod request_bodies;
pub mod volume;

use actix_web::http::Method;
use cellshift_domain::microversion;
use cellshift_web::apis::Api;
use cellshift_web::error::ErrorForm;

/// The identity API, as the door needs it described. Whoever logs in has no project yet.
pub const IDENTITY: Api = Api { serves_unscoped: true, ..api("identity", ErrorForm::Identity) };
/// The image API.
pub const IMAGE: Api = api("image", ErrorForm::Image);
/// The network API.
pub const NETWORK: Api = api("network", ErrorForm::Network);
/// The placement API.
pub const PLACEMENT: Api = Api { versions: |_| Some(&microversion::PLACEMENT), ..api("placement", ErrorForm::Placement) };
/// The volume API, whose errors have the form of compute's.
pub const VOLUME: Api = Api { versions: |_| Some(&microversion::VOLUME), ..api("volume", ErrorForm::Compute) };

/// Describes an API without versions.
const fn api(segment: &'static str, form: ErrorForm) -> Api {
    Api { segment, form, versions: |_| None, id_header: None, serves_unscoped: false }
}

/// True for requests that need no token: version documents, and issuing tokens. The path is without a slash at its end.
pub fn is_open(method: &Method, path: &str) -> bool {
    let documents = ["/identity", "/identity/v3", "/image", "/network", "/volume", "/volume/v3", "/placement"];
    match *method {
        Method::POST => path == "/identity/v3/auth/tokens",
        Method::GET | Method::HEAD => documents.contains(&path),
        _ => false,
    }
}
