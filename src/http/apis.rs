//! The APIs behind the door: their paths, the forms of their errors, and their versions.

use actix_web::http::Method;

use super::compute::servers::consoles;
use super::error::ErrorForm;
use super::{image, ui};
use crate::domain::microversion::{COMPUTE, PLACEMENT, VOLUME, VersionedApi};
pub use cellshift_web::apis::form;
use cellshift_web::apis::{Api, Apis};

/// The APIs of this program.
pub static APIS: Apis = Apis {
    all: &[
        Api { id_header: Some("x-compute-request-id"), versions: versions_of_compute, ..api("compute", ErrorForm::Compute) },
        Api { serves_unscoped: true, ..api("identity", ErrorForm::Identity) },
        api("image", ErrorForm::Image),
        api("network", ErrorForm::Network),
        Api { versions: |_| Some(&PLACEMENT), ..api("placement", ErrorForm::Placement) },
        Api { versions: |_| Some(&VOLUME), ..api("volume", ErrorForm::Compute) },
    ],
    other: api("", ErrorForm::Compute),
    unversioned: COMPUTE.min,
    is_open,
    takes_a_stream: image::takes_a_stream,
    is_socket: consoles::is_socket,
};

/// Describes an API without versions.
const fn api(segment: &'static str, form: ErrorForm) -> Api {
    Api { segment, form, versions: |_| None, id_header: None, serves_unscoped: false }
}

/// v2 is the API before microversions: it has one version and ignores the header.
fn versions_of_compute(path: &str) -> Option<&'static VersionedApi> {
    (path.split('/').nth(2) != Some("v2")).then_some(&COMPUTE)
}

/// True for paths that need no token: version documents, issuing tokens, the health checks, the files of the page.
fn is_open(method: &Method, path: &str) -> bool {
    if ui::is_open(method, path) {
        return true;
    }
    let path = path.trim_end_matches('/');
    if method == Method::POST {
        return path == "/identity/v3/auth/tokens";
    }
    let documents = [
        "",
        "/healthcheck",
        "/ready",
        "/identity",
        "/identity/v3",
        "/compute",
        "/compute/v2",
        "/compute/v2.1",
        // Its token is in the query.
        consoles::SOCKET,
        "/image",
        "/network",
        "/volume",
        "/volume/v3",
        "/placement",
        "/ops/v1/openapi.json",
    ];
    (method == Method::GET || method == Method::HEAD) && documents.contains(&path)
}
