//! `trigger_crash_dump`, from 2.17, and `changePassword`: commands to the running guest.

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::ActionRequest;
use crate::domain::guest_secrets::GuestSecrets;
use crate::http::compute::answer::{Answer, empty, no_such_resource};
use crate::http::compute::body::{ALWAYS, Body, SecretText};
use crate::saga::context::{ChangePasswordRequest, Request};

pub(super) static CRASH_DUMP: Body<()> = Body::within("trigger_crash_dump", ALWAYS);
pub(super) static CHANGE_PASSWORD: Body<NewPassword> = Body::within("changePassword", ALWAYS);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPassword {
    #[serde(rename = "adminPass")]
    #[schemars(with = "String")]
    admin_pass: SecretText,
}

pub(super) async fn crash_dump(action: &ActionRequest<'_>) -> Answer {
    if !action.version.at_least(17) {
        return Err(no_such_resource());
    }
    action.read(&CRASH_DUMP).await?;
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:servers:trigger_crash_dump").await?;
    action.api.begin(action.caller, &located.instance, Request::CrashDump).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn change_password(action: &ActionRequest<'_>) -> Answer {
    let NewPassword { admin_pass } = action.read(&CHANGE_PASSWORD).await?;
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:os-admin-password").await?;
    let secrets = GuestSecrets { admin_pass: Some(admin_pass.0), ..GuestSecrets::default() };
    let request = ChangePasswordRequest { sealed: Some(secrets.sealed(|bytes| action.api.env.seal(bytes))) };
    action.api.begin(action.caller, &located.instance, Request::ChangePassword(request)).await?;
    empty(StatusCode::ACCEPTED)
}
