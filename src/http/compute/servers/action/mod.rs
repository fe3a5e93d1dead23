//! `POST /servers/{id}/action`: the only key of the body names the action.

mod admin;
mod consoles;
mod create_image;
mod deferred_delete;
mod evacuate;
mod fixed_ip;
mod floating_ip;
mod guest_told;
mod live_migration;
mod lock;
mod power;
mod rebuild;
mod rescue;
mod resize;
mod security_group;
mod shelve;

use actix_web::{HttpRequest, web};

use super::ComputeApi;
use crate::domain::context::RequestContext;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::compute::answer::{Answer, bad_request};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::removed;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

/// A requested action.
struct ActionRequest<'a> {
    api: &'a ComputeApi,
    catalog: &'a Catalog,
    caller: &'a RequestContext,
    version: ApiVersion,
    /// The server's id as the path has it.
    id: &'a str,
    /// The body, whose only key is the action's name.
    body: &'a Document,
    base: String,
}

/// Answers `POST /servers/{id}/action`.
pub async fn action(
    request: HttpRequest,
    api: web::Data<ComputeApi>,
    catalog: web::Data<Catalog>,
    Caller(caller): Caller,
    version: ApiVersion,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    let Some(object) = body.as_object() else {
        return Err(bad_request("Malformed request body: it must be a JSON object."));
    };
    let mut names = object.keys();
    let (Some(name), None) = (names.next(), names.next()) else {
        return Err(bad_request("Malformed request body: it must have exactly one key, the action's name."));
    };
    let asked =
        ActionRequest { api: &api, catalog: &catalog, caller: &caller, version, id: &id, body: &body, base: base_url::of(&request) };
    match name.as_str() {
        "os-start" => power::start(&asked).await,
        "os-stop" => power::stop(&asked).await,
        "reboot" => power::reboot(&asked).await,
        "pause" => power::pause(&asked).await,
        "unpause" => power::unpause(&asked).await,
        "suspend" => power::suspend(&asked).await,
        "resume" => power::resume(&asked).await,
        "rescue" => rescue::rescue(&asked).await,
        "unrescue" => rescue::unrescue(&asked).await,
        "trigger_crash_dump" => guest_told::crash_dump(&asked).await,
        "changePassword" => guest_told::change_password(&asked).await,
        "os-getVNCConsole" => consoles::vnc(&asked).await,
        "os-getSPICEConsole" => consoles::spice(&asked).await,
        "os-getSerialConsole" => consoles::serial(&asked).await,
        "os-getRDPConsole" => Err(removed::gone("29.0.0")),
        "rebuild" => rebuild::rebuild(&asked).await,
        "resize" => resize::resize(&asked).await,
        "confirmResize" => resize::confirm(&asked).await,
        "revertResize" => resize::revert(&asked).await,
        "migrate" => resize::migrate(&asked).await,
        "os-migrateLive" => live_migration::migrate(&asked).await,
        "createImage" => create_image::snapshot(&asked).await,
        "createBackup" => create_image::backup(&asked).await,
        "shelve" => shelve::shelve(&asked).await,
        "shelveOffload" => shelve::offload(&asked).await,
        "unshelve" => shelve::unshelve(&asked).await,
        "evacuate" => evacuate::evacuate(&asked).await,
        "lock" => lock::lock(&asked).await,
        "unlock" => lock::unlock(&asked).await,
        "addSecurityGroup" => security_group::add(&asked).await,
        "removeSecurityGroup" => security_group::remove(&asked).await,
        "addFixedIp" => fixed_ip::add(&asked).await,
        "removeFixedIp" => fixed_ip::remove(&asked).await,
        "addFloatingIp" => floating_ip::add(&asked).await,
        "removeFloatingIp" => floating_ip::remove(&asked).await,
        "forceDelete" => deferred_delete::force_delete(&asked).await,
        "restore" => deferred_delete::restore(&asked).await,
        "injectNetworkInfo" => admin::inject_network_info(&asked).await,
        "resetNetwork" => Err(removed::gone("23.0.0")),
        "os-resetState" => admin::reset_state(&asked).await,
        "os-getConsoleOutput" => admin::console_output(&asked).await,
        unknown => Err(bad_request(format!("There is no such action: {unknown}"))),
    }
}
