//! Start, stop, reboot, pause, unpause, suspend and resume.

use actix_web::http::StatusCode;

use super::ActionRequest;
use crate::http::compute::answer::{Answer, empty};
use crate::http::compute::servers::schemas;
use crate::saga::context::Request;

pub(super) async fn start(asked: &ActionRequest<'_>) -> Answer {
    begin(asked, "os_compute_api:servers:start", Request::Start).await
}

pub(super) async fn stop(asked: &ActionRequest<'_>) -> Answer {
    begin(asked, "os_compute_api:servers:stop", Request::Stop).await
}

pub(super) async fn reboot(asked: &ActionRequest<'_>) -> Answer {
    schemas::REBOOT.check(asked.version, asked.body).await?;
    let hard = asked.body["reboot"]["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("hard"));
    begin(asked, "os_compute_api:servers:reboot", Request::Reboot { hard }).await
}

pub(super) async fn pause(asked: &ActionRequest<'_>) -> Answer {
    begin(asked, "os_compute_api:os-pause-server:pause", Request::Pause).await
}

pub(super) async fn unpause(asked: &ActionRequest<'_>) -> Answer {
    begin(asked, "os_compute_api:os-pause-server:unpause", Request::Unpause).await
}

pub(super) async fn suspend(asked: &ActionRequest<'_>) -> Answer {
    begin(asked, "os_compute_api:os-suspend-server:suspend", Request::Suspend).await
}

pub(super) async fn resume(asked: &ActionRequest<'_>) -> Answer {
    begin(asked, "os_compute_api:os-suspend-server:resume", Request::Resume).await
}

async fn begin(asked: &ActionRequest<'_>, rule: &str, request: Request) -> Answer {
    let located = asked.api.locate_unlocked(asked.caller, asked.id, rule).await?;
    asked.api.begin(asked.caller, &located.instance, request).await?;
    empty(StatusCode::ACCEPTED)
}
