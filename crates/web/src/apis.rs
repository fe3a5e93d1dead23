//! The APIs behind the door, as the program that opens the door describes them. The door itself knows none of them.

use actix_web::HttpRequest;
use actix_web::dev::ServiceRequest;
use actix_web::http::Method;
use cellshift_domain::microversion::{Microversion, VersionedApi};

use crate::error::ErrorForm;

/// An API.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// The first segment of its paths: `identity` in `/identity/v3/users`.
    pub segment: &'static str,
    /// The form of its errors.
    pub form: ErrorForm,
    /// Returns the versions from which clients of this path choose; none if the path has no versions.
    pub versions: fn(&str) -> Option<&'static VersionedApi>,
    /// A header of its answers that has the request's id beside `x-openstack-request-id`, in lower case.
    pub id_header: Option<&'static str>,
    /// True if a token without a project is enough, even for a caller who is no administrator.
    pub serves_unscoped: bool,
}

/// All APIs, and the requests that the door treats in a way of their own. The program registers `&'static Apis` as the application's data.
pub struct Apis {
    /// Each has a segment of its own.
    pub all: &'static [Api],
    /// The API of all other paths.
    pub other: Api,
    /// The version that a handler gets if the path has no versions.
    pub unversioned: Microversion,
    /// True for a path that needs no token.
    pub is_open: fn(&Method, &str) -> bool,
    /// True for a request whose body its handler reads as it comes. The body may be large, and any bytes.
    pub takes_a_stream: fn(&Method, &str) -> bool,
    /// True for a request that becomes a WebSocket.
    pub is_socket: fn(&ServiceRequest) -> bool,
}

/// The APIs of an application that registers none: every path has errors in the form of compute, and needs a token.
pub(crate) const NONE: Apis = Apis {
    all: &[],
    other: Api { segment: "", form: ErrorForm::Compute, versions: |_| None, id_header: None, serves_unscoped: false },
    unversioned: Microversion::new(1, 0),
    is_open: |_, _| false,
    takes_a_stream: |_, _| false,
    is_socket: |_| false,
};

impl Apis {
    /// Returns the APIs that the request's application serves.
    pub fn of(request: &HttpRequest) -> &'static Apis {
        request.app_data::<&'static Apis>().copied().unwrap_or(&NONE)
    }

    /// Returns the API that a path belongs to.
    pub fn at(&self, path: &str) -> &Api {
        let segment = path.split('/').nth(1).unwrap_or_default();
        self.all.iter().find(|api| api.segment == segment).unwrap_or(&self.other)
    }
}

/// Returns the API of the request's path.
pub fn of(request: &HttpRequest) -> &'static Api {
    Apis::of(request).at(request.path())
}

/// Returns the form of errors of the request's API.
pub fn form(request: &HttpRequest) -> ErrorForm {
    of(request).form
}
