//! Servers: `access` finds the one a request is about and judges its caller, `view` writes it, `schemas` are the bodies;
//! the other files are the resources under `/servers`.

mod access;
mod action;
mod create;
mod delete;
mod devices;
mod diagnostics;
mod instance_actions;
mod ips;
pub mod links;
mod list;
mod metadata;
mod migrations;
mod partial;
mod quota;
pub mod schemas;
mod security_groups;
mod show;
mod tags;
mod update;
pub mod view;
mod volume_attachments;

use std::sync::Arc;

use actix_web::web;

use crate::actors::cell_registry::CellRegistry;
use crate::env::Env;
use crate::http::policy_file::PolicyEnforcer;
use crate::saga::operations::BeginOperation;
use crate::services::image::ImageService;
use crate::services::network::NetworkService;
use crate::services::volume::VolumeService;

/// What the handlers need. Share it as `web::Data`.
pub struct ComputeApi {
    pub registry: CellRegistry,
    /// Starts operations: the conductor.
    pub operations: Arc<dyn BeginOperation>,
    pub images: Arc<dyn ImageService>,
    pub network: Arc<dyn NetworkService>,
    pub volumes: Arc<dyn VolumeService>,
    pub policy: Arc<PolicyEnforcer>,
    pub env: Env,
    pub options: Options,
}

/// How the API behaves, from the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The zone of hosts that no aggregate puts into one.
    pub default_availability_zone: String,
    /// Answers to create and rebuild carry `adminPass`.
    pub enable_instance_password: bool,
    /// The most entries in one page of a list.
    pub max_limit: usize,
    /// A list that cannot say what it lacks goes without the cells that are down; else it is refused.
    pub skip_down_cells: bool,
    /// The scheduler's filters: a hint whose filter is not among them is refused.
    pub scheduler_filters: Vec<String>,
}

/// Routes under the compute API's scope.
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
}
