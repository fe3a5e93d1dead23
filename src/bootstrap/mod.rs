//! Opens all parts of a service, and on the first start makes the default cloud.
//!
//! Each part can run again after an earlier or interrupted run, so the next start finishes an interrupted first start. Only a cell's
//! database may be silent: then the cell is down, and is set up when its database answers.

mod accounts;
mod agents;
mod cell_setup;
mod controller;
mod deployment;
mod host_records;
mod policy_file;
mod sample_networks;
mod samples;
pub mod seat;
mod stored;
mod topology;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use crate::actors::agents::HostRecorder;
use crate::actors::cell::Silent;
use crate::config::{Config, Preset};
use crate::db::api::ApiDb;
use crate::db::api::operations::Operations;
use crate::db::cell::CellDb;
use crate::db::deployment::Part;
use crate::db::deployment::seat::{Process, Wish};
use crate::db::{Db, DbError};
use crate::env::Env;
use crate::http::ops::Resets;
use crate::policy_file::{PolicyFile, PolicyFileError};
use crate::saga::clear_contexts;
use crate::services::ServiceError;
use crate::services::image::ImageService;
use cellshift_embedded::identity::EmbeddedIdentity;
use cellshift_embedded::image::EmbeddedImage;
use cellshift_embedded::network::EmbeddedNetwork;
use cellshift_embedded::placement::EmbeddedPlacement;
use cellshift_embedded::transaction::Transactions;
use cellshift_embedded::volume::EmbeddedVolume;
pub use deployment::judge::Mismatch;
use deployment::{Deployment, url_of};
use samples::Made;
pub use samples::{Samples, image_name};
use seat::SeatKeeper;
pub use stored::{Stored, StoredCell, migrate_stored, open_stored};

/// The reason why a cloud cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error("{0}")]
    Database(#[from] DbError),
    #[error("{0}")]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Policy(#[from] PolicyFileError),
    #[error(transparent)]
    Refused(#[from] Mismatch),
    #[error("{} cannot be written: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{key} is {limit}, and there are more: {there}. A start removes none: leave the option out, or give at least {least}")]
    Fewer { key: &'static str, limit: u32, there: String, least: u32 },
    #[error("nats.{cell}: there is no cell {cell}, and this start makes none")]
    NoSuchCell { cell: String },
    #[error(
        "nats.{cell}: {} has hosts of cell {cell} that ran in this process, and their guests would be forgotten. Move their servers to another \
         cell first, or leave nats.{cell} out", dir.display()
    )]
    HostsHere { cell: String, dir: PathBuf },
    #[error(
        "the hosts of cell {cell} are agents ({} says so), and the configuration has no nats.{cell}: this process would start second hosts of \
         the same names", mark.display()
    )]
    AgentsElsewhere { cell: String, mark: PathBuf },
    #[error("compute.network_of_hosts.{host}: there is no host {host}, and this start makes none")]
    NoSuchHost { host: String },
    #[error("{} is not a clouds.yaml: {reason}; mend it or delete it, then new passwords are made", path.display())]
    CloudsFile { path: PathBuf, reason: String },
}

/// The embedded services.
#[derive(Clone)]
pub struct Services {
    /// The database that they all share.
    pub db: Db,
    pub identity: Arc<EmbeddedIdentity>,
    pub images: Arc<EmbeddedImage>,
    pub network: Arc<EmbeddedNetwork>,
    pub volumes: Arc<EmbeddedVolume>,
    pub placement: Arc<EmbeddedPlacement>,
}

/// A cell, opened or to be opened when its database answers.
#[derive(Clone)]
pub struct CellPlan {
    pub uuid: Uuid,
    pub name: String,
    pub db: CellDb,
    /// The directory of its hosts' files.
    pub dir: PathBuf,
    /// The hosts that run in this process, ordered by name; none in cell0.
    pub hosts: Vec<String>,
    /// Set if the cell's hosts are agents.
    pub agents: Option<AgentsPlan>,
    /// Set if its database does not answer: the setup to do later.
    pub silent: Option<Silent>,
}

/// The agents of a cell.
#[derive(Clone)]
pub struct AgentsPlan {
    /// The hosts that are mapped to the cell, ordered by name.
    pub hosts: Vec<String>,
    /// Records the hosts that report.
    pub recorder: Arc<dyn HostRecorder>,
}

/// All stored parts, opened; nothing runs yet.
#[derive(Clone)]
pub struct Cloud {
    pub env: Env,
    pub config: Config,
    /// The deployment's id, which never changes.
    pub deployment: Uuid,
    /// The name with which this controller holds operations.
    pub controller: String,
    /// Keeps this process's seat; none in a simulation.
    pub seat: Option<SeatKeeper>,
    /// The preset with which its first start named its samples.
    pub preset: Preset,
    pub api: ApiDb,
    /// cell0 first.
    pub cells: Vec<CellPlan>,
    pub services: Services,
    pub policy: Arc<PolicyFile>,
    /// Resets the cloud, if its data go with it.
    pub resets: Option<Resets>,
}

impl Cloud {
    /// Returns each database by name, and each service's share of it, for experiments.
    pub fn databases(&self) -> BTreeMap<String, Db> {
        let services = &self.services;
        let shared = [
            ("api", self.api.db()),
            ("network", services.network.database()),
            ("volume", services.volumes.database()),
            ("placement", services.placement.database()),
            ("image", services.images.database()),
        ];
        let cells = self.cells.iter().map(|cell| (cell.name.as_str(), cell.db.db()));
        shared.into_iter().chain(cells).map(|(name, db)| (name.to_owned(), db.clone())).collect()
    }
}

/// Opens the databases, services, cells and policy of a held data directory, and makes missing ones.
pub async fn open(config: Config, env: Env) -> Result<Cloud, BootstrapError> {
    open_with(config, env, Samples::default()).await
}

/// Opens as [`open`] does, with samples of this size.
pub async fn open_with(config: Config, env: Env, samples: Samples) -> Result<Cloud, BootstrapError> {
    let data = config.data_dir.clone();
    let mut deployment = deployment::identify(&config, &env).await?;
    agents::check(&config)?;
    let process = seat::process(&config, &env)?;
    if let Some(process) = &process {
        seat::wait_for(process, &url_of(&config, Part::Api), &env).await?;
    }
    policy_file::make_if_missing(&config.policy_file()).map_err(file_error(&config.policy_file()))?;
    let policy = Arc::new(PolicyFile::open(&config.policy_file())?);
    deployment.begin(&config, &env).await?;
    let controller = process.as_ref().map_or_else(|| controller::name(&data, &env), |process| process.name.clone());
    controller::keep(&data, &controller)?;
    let (api, seat) = open_api(&config, &env, &deployment, process).await?;
    let opened = Seated { config, env, deployment, controller, policy, api, seat: seat.clone() }.open(samples).await;
    if let (Err(_), Some(seat)) = (&opened, &seat) {
        seat.abandon().await;
    }
    opened
}

/// A start that has the deployment's seat.
struct Seated {
    config: Config,
    env: Env,
    deployment: Deployment,
    controller: String,
    policy: Arc<PolicyFile>,
    api: ApiDb,
    seat: Option<SeatKeeper>,
}

impl Seated {
    /// Opens what is stored beside the API database, and makes what is missing.
    async fn open(self, samples: Samples) -> Result<Cloud, BootstrapError> {
        let Seated { config, env, mut deployment, controller, policy, api, seat } = self;
        clear_contexts::erase(&Operations::new(api.db().clone())).await?;
        let services = open_services(&config, &env, &deployment).await?;
        deployment.note_marked(&api, Part::Services).await?;
        let (cells, new_hosts) = topology::ensure_cells(&config, &env, &api, &services, &deployment).await?;
        accounts::ensure(&config, &env, &services.identity).await?;
        let stores = Made { api: &api, services: &services, cells: &cells };
        let preset = samples::make_once(&config, &env, samples, &stores, &new_hosts).await?;
        deployment.finish(&config, &env, &api.cell_mappings().await?).await?;
        let deployment = deployment.id;
        Ok(Cloud { env, config, deployment, controller, seat, preset, api, cells, services, policy, resets: None })
    }
}

/// Opens the API database, and takes the deployment's seat before anything else in it is changed.
async fn open_api(
    config: &Config,
    env: &Env,
    deployment: &Deployment,
    process: Option<Process>,
) -> Result<(ApiDb, Option<SeatKeeper>), BootstrapError> {
    let term = config.database.seat.duration();
    let wish = process.clone().map(|process| Wish::new(env, process, term));
    let api = ApiDb::new(deployment.open_seated(config, env, Part::Api, wish).await?);
    let seat = match &process {
        Some(process) => Some(SeatKeeper::start(&api, env, process, term).await?),
        None => None,
    };
    Ok((api, seat))
}

async fn open_services(config: &Config, env: &Env, deployment: &Deployment) -> Result<Services, BootstrapError> {
    let data = &config.data_dir;
    let db = deployment.open(config, env, Part::Services).await?;
    let identity = Arc::new(EmbeddedIdentity::open(db.clone(), env.clone(), &config.token_keys(), config.identity.settings()).await?);
    // Gives the shared database a name per service, so that an experiment can make one service fail alone.
    let images = Arc::new(EmbeddedImage::open(db.named("image"), env.clone(), &data.join("images")).await?);
    let for_volumes: Arc<dyn ImageService> = images.clone();
    let volumes = Arc::new(EmbeddedVolume::open(db.named("volume"), env.clone(), &data.join("volumes"), for_volumes).await?);
    let network = Arc::new(EmbeddedNetwork::new(db.named("network")).with_limits(config.network.clone()));
    let placement = Arc::new(EmbeddedPlacement::new(db.named("placement")));
    Ok(Services { db, identity, images, network, volumes, placement })
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> BootstrapError {
    let path = path.to_owned();
    move |source| BootstrapError::File { path, source }
}

#[cfg(test)]
mod tests;
