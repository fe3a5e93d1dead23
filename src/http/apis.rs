//! The APIs behind the door: their paths, the forms of their errors, and their versions.

use actix_web::http::Method;

use super::compute::servers::consoles;
use super::error::ErrorForm;
use super::{host_bytes, ui};
use crate::domain::microversion::{COMPUTE, VersionedApi};
use cellshift_embedded::apis as embedded;
use cellshift_embedded::image;
pub use cellshift_web::apis::form;
use cellshift_web::apis::{Api, Apis};

/// The API of paths that belong to none.
const OTHER: Api = Api { segment: "", form: ErrorForm::Compute, versions: |_| None, id_header: None, serves_unscoped: false };

/// The APIs of this program.
pub static APIS: Apis = Apis {
    all: &[
        Api { segment: "compute", id_header: Some("x-compute-request-id"), versions: versions_of_compute, ..OTHER },
        embedded::IDENTITY,
        embedded::IMAGE,
        embedded::NETWORK,
        embedded::PLACEMENT,
        embedded::VOLUME,
    ],
    other: OTHER,
    unversioned: COMPUTE.min,
    is_open,
    takes_a_stream,
    is_socket: consoles::is_socket,
};

/// v2 is the API before microversions: it has one version and ignores the header.
fn versions_of_compute(path: &str) -> Option<&'static VersionedApi> {
    (path.split('/').nth(2) != Some("v2")).then_some(&COMPUTE)
}

/// True for requests whose body is an image's bytes.
fn takes_a_stream(method: &Method, path: &str) -> bool {
    image::routes::takes_a_stream(method, path) || host_bytes::takes_a_stream(method, path)
}

/// True for requests that need no token: version documents, issuing tokens, the health checks, the files of the page.
fn is_open(method: &Method, path: &str) -> bool {
    // The right to an image's bytes is a host's ticket.
    if ui::is_open(method, path) || host_bytes::is_open(method, path) {
        return true;
    }
    let path = path.trim_end_matches('/');
    if embedded::is_open(method, path) {
        return true;
    }
    let documents = [
        "",
        "/healthcheck",
        "/ready",
        "/compute",
        "/compute/v2",
        "/compute/v2.1",
        // Its token is in the query.
        consoles::SOCKET,
        "/ops/v1/openapi.json",
    ];
    (method == Method::GET || method == Method::HEAD) && documents.contains(&path)
}
