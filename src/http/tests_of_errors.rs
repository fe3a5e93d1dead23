//! Tests that answers tell nothing of databases and disks.

use std::io;
use std::path::Path;

use actix_web::http::StatusCode;
use cellshift_embedded::bytes_on_disk::disk_failed;

use super::error::{ApiError, ErrorForm};
use crate::db::fixture::errors_from_inside;
use crate::domain::reason;
use crate::domain::reason::Inside;
use crate::services::ServiceError;
use crate::virt::VirtError;

#[track_caller]
fn plain(text: &str) {
    for word in ["/", "UNIQUE", "constraint", "ports", "os error", "⟪"] {
        assert!(!text.contains(word), "{text}");
    }
    assert!(text.len() > 10, "something is said: {text:?}");
}

#[test]
fn a_callers_own_words_come_back_whole() {
    let name = "⟪web⟫";
    let conflict = ServiceError::Conflict(reason!("{name} is taken: {}", Inside("UNIQUE")));
    assert_eq!(ApiError::from_service(ErrorForm::Network, conflict).message, "⟪web⟫ is taken");
    assert_eq!(ApiError::new(ErrorForm::Compute, StatusCode::BAD_REQUEST, format!("{name} is bad")).message, "⟪web⟫ is bad");
}

#[test]
fn no_error_of_a_database_or_disk_tells_of_the_inside() {
    for cause in errors_from_inside() {
        plain(&ApiError::from(cause).message);
    }
    for cause in errors_from_inside() {
        let service = ServiceError::from_db("network", cause);
        plain(&ApiError::from_service(ErrorForm::Network, service).message);
    }
    for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::StorageFull, io::ErrorKind::NotFound] {
        let error = disk_failed("image", Path::new("/var/lib/images"), &kind.into());
        let api = ApiError::from_service(ErrorForm::Image, error);
        plain(&api.message);
        assert!(api.inside().is_some_and(|whole| whole.contains("/var/lib/images")), "the log has it");
    }
    let host = VirtError::io("cannot take over the disks")(io::Error::other("/var/lib/guests: Permission denied (os error 13)"));
    plain(&ApiError::new(ErrorForm::Compute, StatusCode::SERVICE_UNAVAILABLE, reason!("{host}")).message);
}
