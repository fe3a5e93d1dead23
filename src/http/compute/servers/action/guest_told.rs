//! `trigger_crash_dump`, from 2.17, and `changePassword`: the running guest is told.

use actix_web::http::StatusCode;

use super::ActionRequest;
use crate::domain::guest_secrets::GuestSecrets;
use crate::domain::secret::Secret;
use crate::http::compute::answer::{Answer, empty, no_such_resource};
use crate::http::compute::servers::schemas;
use crate::saga::context::{ChangePasswordRequest, Request};

pub(super) async fn crash_dump(asked: &ActionRequest<'_>) -> Answer {
    if !asked.version.at_least(17) {
        return Err(no_such_resource());
    }
    schemas::CRASH_DUMP.check(asked.version, asked.body).await?;
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:servers:trigger_crash_dump").await?;
    asked.api.begin(asked.caller, &located.instance, Request::CrashDump).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn change_password(asked: &ActionRequest<'_>) -> Answer {
    schemas::CHANGE_PASSWORD.check(asked.version, asked.body).await?;
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:os-admin-password").await?;
    let password = asked.body["changePassword"]["adminPass"].as_str().unwrap_or_default().to_owned();
    let secrets = GuestSecrets { admin_pass: Some(Secret::new(password)), ..GuestSecrets::default() };
    let request = ChangePasswordRequest { sealed: Some(secrets.sealed(|bytes| asked.api.env.seal(bytes))) };
    asked.api.begin(asked.caller, &located.instance, Request::ChangePassword(request)).await?;
    empty(StatusCode::ACCEPTED)
}
