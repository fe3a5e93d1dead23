//! Servers: `access` finds the request's server and checks the caller's rights, `view` writes it, and `rules` describes fields of
//! bodies. The other files are the resources under `/servers`.

pub mod access;
mod action;
pub mod consoles;
mod create;
mod delete;
mod devices;
mod diagnostics;
mod floating;
mod instance_actions;
mod interfaces;
mod ips;
pub mod links;
mod list;
pub mod metadata;
mod migrations;
mod new_ports;
mod partial;
mod password;
pub mod quota;
pub mod rules;
mod security_groups;
mod show;
mod tags;
mod topology;
mod update;
pub mod view;
mod volume_attachments;

use std::sync::Arc;

use actix_web::web;

use crate::cell_registry::CellRegistry;
use crate::env::Env;
use crate::http::schema::Schema;
use crate::policy_file::PolicyFile;
use crate::saga::operations::BeginOperation;
use crate::services::image::ImageService;
use crate::services::network::NetworkService;
use crate::services::volume::VolumeService;

pub use create::networks::service_error as network_error;

/// Returns the schemas of bodies on servers, by request.
pub fn schemas() -> Vec<(&'static str, &'static Schema)> {
    let own: &[(&str, &Schema)] = &[("POST /servers", &create::body::CREATE.schema), ("PUT /servers/{}", &update::UPDATE.schema)];
    [
        own,
        action::SCHEMAS,
        consoles::SCHEMAS,
        interfaces::SCHEMAS,
        metadata::SCHEMAS,
        migrations::SCHEMAS,
        tags::SCHEMAS,
        volume_attachments::SCHEMAS,
    ]
    .concat()
}

/// The handlers' data. Share it as `web::Data`.
pub struct ComputeApi {
    pub registry: CellRegistry,
    /// The conductor, which starts operations.
    pub operations: Arc<dyn BeginOperation>,
    pub images: Arc<dyn ImageService>,
    pub network: Arc<dyn NetworkService>,
    pub volumes: Arc<dyn VolumeService>,
    pub policy: Arc<PolicyFile>,
    pub env: Env,
    pub consoles: consoles::Consoles,
    pub options: Options,
}

/// The API's options from the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The zone of hosts that no aggregate puts into a zone.
    pub default_availability_zone: String,
    /// True if a deleted server can be restored for a while.
    pub reclaims_later: bool,
    /// If true, answers to create and rebuild have `adminPass`.
    pub enable_instance_password: bool,
    /// The maximum number of entries in one page of a list.
    pub max_limit: usize,
    /// If true, a list that cannot name its missing cells leaves them out; otherwise it is refused.
    pub skip_down_cells: bool,
    /// The scheduler's filters. A hint for another filter is refused.
    pub scheduler_filters: Vec<String>,
    /// If true, a server that is shelved leaves its host in the same operation.
    pub offloads_at_once: bool,
}

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/servers").route(web::get().to(list::index)).route(web::post().to(create::create)))
        .service(web::resource("/servers/detail").route(web::get().to(list::detail)))
        .service(
            web::resource("/servers/{id}")
                .route(web::get().to(show::show))
                .route(web::put().to(update::update))
                .route(web::delete().to(delete::delete)),
        )
        .service(web::resource("/servers/{id}/action").route(web::post().to(action::action)))
        .service(web::resource("/servers/{id}/diagnostics").route(web::get().to(diagnostics::show)));
    metadata::routes(config);
    tags::routes(config);
    ips::routes(config);
    instance_actions::routes(config);
    security_groups::routes(config);
    migrations::routes(config);
    volume_attachments::routes(config);
    interfaces::routes(config);
    consoles::routes(config);
    password::routes(config);
    topology::routes(config);
}
