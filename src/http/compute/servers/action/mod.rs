//! `POST /servers/{id}/action`: the only key of the body names the action.

mod admin;
mod consoles;
mod create_image;
mod deferred_delete;
mod evacuate;
mod fixed_ip;
mod floating_ip;
mod guest_commands;
mod live_migration;
mod lock;
mod power;
mod rebuild;
mod rescue;
mod resize;
mod security_group;
mod shelve;

use actix_web::web;
use serde::de::DeserializeOwned;

use super::ComputeApi;
use crate::domain::context::RequestContext;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request};
use crate::http::compute::body::Body;
use crate::http::compute::catalog::Catalog;
use crate::http::compute::removed;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::Schema;

/// The schemas of the actions, by request.
pub(super) static SCHEMAS: &[(&str, &Schema)] = &[
    ("POST /servers/{}/action#rebuild", &rebuild::REBUILD.schema),
    ("POST /servers/{}/action#resize", &resize::RESIZE.schema),
    ("POST /servers/{}/action#migrate", &resize::MIGRATE.schema),
    ("POST /servers/{}/action#os-migrateLive", &live_migration::MIGRATE_LIVE.schema),
    ("POST /servers/{}/action#unshelve", &shelve::UNSHELVE.schema),
    ("POST /servers/{}/action#evacuate", &evacuate::EVACUATE.schema),
    ("POST /servers/{}/action#reboot", &power::REBOOT.schema),
    ("POST /servers/{}/action#lock", &lock::LOCK.schema),
    ("POST /servers/{}/action#createImage", &create_image::CREATE_IMAGE.schema),
    ("POST /servers/{}/action#createBackup", &create_image::CREATE_BACKUP.schema),
    ("POST /servers/{}/action#addSecurityGroup", &security_group::ADD.schema),
    ("POST /servers/{}/action#removeSecurityGroup", &security_group::REMOVE.schema),
    ("POST /servers/{}/action#addFloatingIp", &floating_ip::ADD.schema),
    ("POST /servers/{}/action#removeFloatingIp", &floating_ip::REMOVE.schema),
    ("POST /servers/{}/action#rescue", &rescue::RESCUE.schema),
    ("POST /servers/{}/action#unrescue", &rescue::UNRESCUE.schema),
    ("POST /servers/{}/action#trigger_crash_dump", &guest_commands::CRASH_DUMP.schema),
    ("POST /servers/{}/action#changePassword", &guest_commands::CHANGE_PASSWORD.schema),
    ("POST /servers/{}/action#os-getVNCConsole", &consoles::VNC.schema),
    ("POST /servers/{}/action#os-getSPICEConsole", &consoles::SPICE.schema),
    ("POST /servers/{}/action#os-getSerialConsole", &consoles::SERIAL.schema),
    ("POST /servers/{}/action#addFixedIp", &fixed_ip::ADD.schema),
    ("POST /servers/{}/action#removeFixedIp", &fixed_ip::REMOVE.schema),
    ("POST /servers/{}/action#os-resetState", &admin::RESET_STATE.schema),
    ("POST /servers/{}/action#os-getConsoleOutput", &admin::CONSOLE_OUTPUT.schema),
];

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

impl ActionRequest<'_> {
    /// Checks and parses the body. 400 unless it fits.
    async fn read<T: DeserializeOwned + Send + 'static>(&self, body: &'static Body<T>) -> Result<T, ApiError> {
        body.read(self.version, self.body).await
    }
}

/// Answers `POST /servers/{id}/action`.
pub async fn action(
    Call { request, api, catalog, caller: Caller(caller), version }: Call<ComputeApi>,
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
    let action =
        ActionRequest { api: &api, catalog: &catalog, caller: &caller, version, id: &id, body: &body, base: base_url::of(&request) };
    match name.as_str() {
        "os-start" => power::start(&action).await,
        "os-stop" => power::stop(&action).await,
        "reboot" => power::reboot(&action).await,
        "pause" => power::pause(&action).await,
        "unpause" => power::unpause(&action).await,
        "suspend" => power::suspend(&action).await,
        "resume" => power::resume(&action).await,
        "rescue" => rescue::rescue(&action).await,
        "unrescue" => rescue::unrescue(&action).await,
        "trigger_crash_dump" => guest_commands::crash_dump(&action).await,
        "changePassword" => guest_commands::change_password(&action).await,
        "os-getVNCConsole" => consoles::vnc(&action).await,
        "os-getSPICEConsole" => consoles::spice(&action).await,
        "os-getSerialConsole" => consoles::serial(&action).await,
        "os-getRDPConsole" => Err(removed::gone("29.0.0")),
        "rebuild" => rebuild::rebuild(&action).await,
        "resize" => resize::resize(&action).await,
        "confirmResize" => resize::confirm(&action).await,
        "revertResize" => resize::revert(&action).await,
        "migrate" => resize::migrate(&action).await,
        "os-migrateLive" => live_migration::migrate(&action).await,
        "createImage" => create_image::snapshot(&action).await,
        "createBackup" => create_image::backup(&action).await,
        "shelve" => shelve::shelve(&action).await,
        "shelveOffload" => shelve::offload(&action).await,
        "unshelve" => shelve::unshelve(&action).await,
        "evacuate" => evacuate::evacuate(&action).await,
        "lock" => lock::lock(&action).await,
        "unlock" => lock::unlock(&action).await,
        "addSecurityGroup" => security_group::add(&action).await,
        "removeSecurityGroup" => security_group::remove(&action).await,
        "addFixedIp" => fixed_ip::add(&action).await,
        "removeFixedIp" => fixed_ip::remove(&action).await,
        "addFloatingIp" => floating_ip::add(&action).await,
        "removeFloatingIp" => floating_ip::remove(&action).await,
        "forceDelete" => deferred_delete::force_delete(&action).await,
        "restore" => deferred_delete::restore(&action).await,
        "injectNetworkInfo" => admin::inject_network_info(&action).await,
        "resetNetwork" => Err(removed::gone("23.0.0")),
        "os-resetState" => admin::reset_state(&action).await,
        "os-getConsoleOutput" => admin::console_output(&action).await,
        unknown => Err(bad_request(format!("There is no such action: {unknown}"))),
    }
}
