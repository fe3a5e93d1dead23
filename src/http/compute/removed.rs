//! Resources that Nova removed: 410 for every authenticated caller and any body.

use actix_web::http::{Method, StatusCode};
use actix_web::web;

use super::answer::Answer;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, ErrorForm};

/// The paths, their former methods, and the release of Nova that removed them.
const REMOVED: &[(&str, &[&str], &str)] = &[
    ("/os-agents", &["GET", "POST"], "22.0.0"),
    ("/os-agents/{id}", &["PUT", "DELETE"], "22.0.0"),
    ("/os-cells", &["GET", "POST"], "20.0.0"),
    ("/os-cells/capacities", &["GET"], "20.0.0"),
    ("/os-cells/detail", &["GET"], "20.0.0"),
    ("/os-cells/info", &["GET"], "20.0.0"),
    ("/os-cells/sync_instances", &["POST"], "20.0.0"),
    ("/os-cells/{id}", &["GET", "PUT", "DELETE"], "20.0.0"),
    ("/os-cells/{id}/capacities", &["GET"], "20.0.0"),
    ("/os-certificates", &["POST"], "16.0.0"),
    ("/os-certificates/{id}", &["GET"], "16.0.0"),
    ("/os-cloudpipe", &["GET", "POST"], "16.0.0"),
    ("/os-cloudpipe/{id}", &["PUT"], "16.0.0"),
    ("/os-fixed-ips/{id}", &["GET"], "18.0.0"),
    ("/os-fixed-ips/{id}/action", &["POST"], "18.0.0"),
    ("/os-floating-ip-dns", &["GET"], "18.0.0"),
    ("/os-floating-ip-dns/{domain}", &["PUT", "DELETE"], "18.0.0"),
    ("/os-floating-ip-dns/{domain}/entries/{id}", &["GET", "PUT", "DELETE"], "18.0.0"),
    ("/os-floating-ips-bulk", &["GET", "POST"], "18.0.0"),
    ("/os-floating-ips-bulk/{id}", &["GET", "PUT"], "18.0.0"),
    ("/os-fping", &["GET"], "18.0.0"),
    ("/os-fping/{id}", &["GET"], "18.0.0"),
    ("/os-security-group-default-rules", &["GET", "POST"], "21.0.0"),
    ("/os-security-group-default-rules/{id}", &["GET", "DELETE"], "21.0.0"),
    ("/servers/{id}/os-virtual-interfaces", &["GET"], "18.0.0"),
];

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    for (path, methods, release) in REMOVED {
        let resource = methods.iter().fold(web::resource(*path), |resource, method| {
            let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
            resource.route(web::method(method).to(move |caller: Caller| refuse(caller, release)))
        });
        config.service(resource);
    }
}

async fn refuse(_: Caller, release: &str) -> Answer {
    Err(gone(release))
}

/// Makes a 410 for what Nova removed in a release.
pub fn gone(release: &str) -> ApiError {
    let message = format!("This resource is no longer available: Nova removed it in release {release}, and nothing took its place here.");
    ApiError::new(ErrorForm::Compute, StatusCode::GONE, message)
}
