//! The operators' API, `/ops/v1`: cells and hosts, enrolments of hosts, queued deletes, moves that wait for their users, the destinations of
//! servers, drains, moves of server groups, migrations with their journals, one server as the audit sees it, the audit, notifications as they
//! happen, the last hour, chaos experiments if they are enabled, and the reset of a cloud to develop against.

mod aggregates;
mod audit;
mod cells;
mod chaos;
mod debts;
mod destinations;
mod dev;
mod drains;
mod enrolments;
mod group_moves;
mod healing;
mod history;
mod hosts;
mod live;
mod migrations;
mod names;
mod nats_config;
mod notifications;
mod queued_deletes;
mod recent;
mod servers;
mod summary;
mod unconfirmed;
mod unknown;

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

pub use self::dev::Resets;
pub use self::enrolments::{AgentCell, AgentCells};
pub use self::history::{History, keep as keep_history};
pub use self::live::Watch;
pub use self::recent::Recent;
use super::base_url;
use super::compute::catalog::Catalog;
use crate::actors::notifier::NotifierHandle;
use crate::chaos::experiment::service::Chaos;
use crate::db::api::operations::Operations;
use crate::http::schema::Schema;
use crate::virt::Hosts;

/// The schemas of the operators' requests, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] =
    &[("POST /ops/v1/aggregates/sync", &aggregates::BODY), ("POST /ops/v1/drains", &drains::request::BODY)];

/// The handlers' data beside the [`Catalog`]. Share it as `web::Data`.
pub struct Operators {
    pub operations: Operations,
    pub hosts: Arc<dyn Hosts>,
    pub notifier: NotifierHandle,
    /// Tells streams how operations change.
    pub watch: Watch,
    /// The answers that open pages share.
    pub recent: Recent,
    /// The last hour; [`keep_history`] fills it.
    pub history: History,
    /// Becomes true when the service stops: endless answers end then.
    pub stopping: watch::Receiver<bool>,
    /// The maximum number of entries in one page.
    pub max_limit: u32,
    /// Each reader of notifications holds a permit.
    pub event_streams: Arc<Semaphore>,
    /// The number of these permits.
    pub max_event_streams: usize,
    /// A deep audit takes its only permit, so that one runs at a time.
    pub deep_audits: Arc<Semaphore>,
    /// The directory of the service's files, whose lost ones an audit names.
    pub data_dir: PathBuf,
    /// None unless the configuration enables it.
    pub chaos: Option<Chaos>,
    /// None unless the cloud's data go with it.
    pub resets: Option<Resets>,
    /// The cells whose hosts are agents on NATS.
    pub agents: AgentCells,
}

impl Operators {
    /// Returns the page size for a request.
    fn page_size(&self, requested: Option<u32>) -> u32 {
        requested.unwrap_or(self.max_limit).clamp(1, self.max_limit)
    }
}

/// Returns the link to the page after these ids, with the same size and filters; none if this page is not full.
fn next_page(request: &HttpRequest, size: u32, ids: &[impl Display], filters: &[(&str, Option<String>)]) -> Option<Value> {
    let marker = ids.last().filter(|_| ids.len() == size as usize)?;
    let mut href = format!("{}{}?limit={size}&marker={marker}", base_url::of(request), request.path());
    for (key, value) in filters {
        href.extend(value.iter().map(|value| format!("&{key}={value}")));
    }
    Some(json!([{"rel": "next", "href": href}]))
}

/// Registers the API. It needs [`Operators`], [`Catalog`] and, for the audit, [`crate::saga::world::World`] as `web::Data`.
pub fn configure(config: &mut web::ServiceConfig) {
    config.service(
        web::scope("/ops/v1")
            .service(web::resource("/aggregates/sync").route(web::post().to(aggregates::sync)))
            .service(web::resource("/audit").route(web::get().to(audit::show)))
            .service(web::resource("/cells").route(web::get().to(cells::list)))
            .service(web::resource("/cells/{name}").route(web::put().to(cells::update)))
            .service(web::resource("/cells/{name}/nats-config").route(web::get().to(nats_config::show)))
            .service(web::resource("/chaos/actors").route(web::get().to(chaos::actors)))
            .service(
                web::resource("/chaos/experiment")
                    .route(web::get().to(chaos::show))
                    .route(web::post().to(chaos::load))
                    .route(web::delete().to(chaos::stop)),
            )
            .service(web::resource("/chaos/experiments").route(web::get().to(chaos::shipped)))
            .service(web::resource("/chaos/faults").route(web::get().to(chaos::faults)).route(web::post().to(chaos::inject)))
            .service(web::resource("/chaos/faults/{id}").route(web::delete().to(chaos::end)))
            .service(web::resource("/chaos/trials").route(web::post().to(chaos::make_trial)))
            .service(web::resource("/dev/reset").route(web::get().to(dev::show)).route(web::post().to(dev::begin)))
            .service(web::resource("/drains").route(web::get().to(drains::list)).route(web::post().to(drains::create)))
            .service(web::resource("/drains/{id}").route(web::get().to(drains::show)))
            .service(web::resource("/drains/{id}/servers").route(web::get().to(drains::servers)))
            .service(web::resource("/drains/{id}/cancel").route(web::post().to(drains::cancel)))
            .service(web::resource("/drains/{id}/pause").route(web::post().to(drains::pause)))
            .service(web::resource("/drains/{id}/resume").route(web::post().to(drains::resume)))
            .service(web::resource("/drains/{id}/undo").route(web::post().to(drains::undo)))
            .service(web::resource("/enrolments").route(web::get().to(enrolments::list)))
            .service(
                web::resource("/enrolments/{host}").route(web::put().to(enrolments::enrol)).route(web::delete().to(enrolments::remove)),
            )
            .service(web::resource("/history").route(web::get().to(history::show)))
            .service(web::resource("/hosts").route(web::get().to(hosts::list)))
            .service(web::resource("/hosts/{name}").route(web::get().to(hosts::show)))
            .service(web::resource("/migrations").route(web::get().to(migrations::list)))
            .service(web::resource("/migrations/{uuid}").route(web::get().to(migrations::show)))
            .service(web::resource("/migrations/{uuid}/debts/retry").route(web::post().to(debts::retry)))
            .service(web::resource("/notifications").route(web::get().to(notifications::follow)))
            .service(web::resource("/queued-deletes").route(web::get().to(queued_deletes::list)))
            .service(
                web::resource("/server-groups/{id}/moves")
                    .route(web::get().to(group_moves::list))
                    .route(web::post().to(group_moves::create)),
            )
            .service(web::resource("/server-groups/{id}/moves/stop").route(web::post().to(group_moves::stop)))
            .service(web::resource("/servers/unhealed").route(web::get().to(healing::list)))
            .service(web::resource("/servers/{id}").route(web::get().to(servers::show)))
            .service(web::resource("/servers/{id}/heal").route(web::post().to(healing::heal)))
            .service(web::resource("/servers/{id}/destinations").route(web::get().to(destinations::show)))
            .service(web::resource("/summary").route(web::get().to(summary::show)))
            .service(web::resource("/unconfirmed-moves").route(web::get().to(unconfirmed::list)))
            .service(web::resource("/openapi.json").route(web::get().to(openapi))),
    );
}

type Shared<T> = web::Data<T>;

const OPENAPI: &str = include_str!("openapi.json");

async fn openapi() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(OPENAPI)
}

#[cfg(test)]
mod tests;
