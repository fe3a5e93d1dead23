//! Start, stop, reboot, pause, unpause, suspend and resume.

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::ActionRequest;
use crate::http::compute::answer::{Answer, empty};
use crate::http::compute::body::rules::rules;
use crate::http::compute::body::{ALWAYS, Body};
use crate::saga::context::Request;

pub(super) static REBOOT: Body<Reboot> = Body::within("reboot", ALWAYS);

rules! {
    /// The kinds of reboots.
    RebootType = json!({"enum": ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reboot {
    #[serde(rename = "type")]
    #[schemars(with = "RebootType")]
    kind: String,
}

pub(super) async fn start(action: &ActionRequest<'_>) -> Answer {
    begin(action, "os_compute_api:servers:start", Request::Start).await
}

pub(super) async fn stop(action: &ActionRequest<'_>) -> Answer {
    begin(action, "os_compute_api:servers:stop", Request::Stop).await
}

pub(super) async fn reboot(action: &ActionRequest<'_>) -> Answer {
    let hard = action.read(&REBOOT).await?.kind.eq_ignore_ascii_case("hard");
    begin(action, "os_compute_api:servers:reboot", Request::Reboot { hard }).await
}

pub(super) async fn pause(action: &ActionRequest<'_>) -> Answer {
    begin(action, "os_compute_api:os-pause-server:pause", Request::Pause).await
}

pub(super) async fn unpause(action: &ActionRequest<'_>) -> Answer {
    begin(action, "os_compute_api:os-pause-server:unpause", Request::Unpause).await
}

pub(super) async fn suspend(action: &ActionRequest<'_>) -> Answer {
    begin(action, "os_compute_api:os-suspend-server:suspend", Request::Suspend).await
}

pub(super) async fn resume(action: &ActionRequest<'_>) -> Answer {
    begin(action, "os_compute_api:os-suspend-server:resume", Request::Resume).await
}

async fn begin(action: &ActionRequest<'_>, rule: &str, request: Request) -> Answer {
    let located = action.api.locate_unlocked(action.caller, action.id, rule).await?;
    action.api.begin(action.caller, &located.instance, request).await?;
    empty(StatusCode::ACCEPTED)
}
