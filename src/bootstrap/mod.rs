//! Opens everything that a service is made of, and on the first start makes the default cloud.
//!
//! Every part copes with having run before, wholly or half: a first start that is interrupted is finished by the next. A cell's
//! database alone may be away: the cell is down then, and set up when it answers.

mod accounts;
mod cell_setup;
mod controller;
mod deployment;
mod policy_file;
mod samples;
mod stored;
mod topology;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use crate::actors::cell::Silent;
use crate::config::Config;
use crate::db::api::ApiDb;
use crate::db::api::operations::Operations;
use crate::db::cell::CellDb;
use crate::db::deployment::Part;
use crate::db::{Db, DbError};
use crate::env::Env;
use crate::http::policy_file::{PolicyEnforcer, PolicyFileError};
use crate::saga::clear_contexts;
use crate::services::ServiceError;
use crate::services::identity::EmbeddedIdentity;
use crate::services::image::ImageService;
use crate::services::image::embedded::EmbeddedImage;
use crate::services::network::EmbeddedNetwork;
use crate::services::placement::EmbeddedPlacement;
use crate::services::transaction::Transactions;
use crate::services::volume::embedded::EmbeddedVolume;
use deployment::Deployment;
pub use deployment::judge::Refusal;
use samples::Made;
pub use samples::Samples;
pub use stored::{Stored, StoredCell, migrate_stored, open_stored};

/// Why a cloud cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error("{0}")]
    Database(#[from] DbError),
    #[error("{0}")]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Policy(#[from] PolicyFileError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{} cannot be written: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{key} is {asked}, and there are more: {there}. A start removes none: leave the option out, or give at least {least}")]
    Fewer { key: &'static str, asked: u32, there: String, least: u32 },
    #[error("{} is not a clouds.yaml: {reason}; mend it or delete it, then new passwords are made", path.display())]
    CloudsFile { path: PathBuf, reason: String },
}

/// The embedded services.
#[derive(Clone)]
pub struct Services {
    /// The database that all of them keep their records in.
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
    /// Where its hosts keep their files.
    pub dir: PathBuf,
    /// In the order of their names; none in cell0.
    pub hosts: Vec<String>,
    /// Its database does not answer, and gets later what a start does there.
    pub silent: Option<Silent>,
}

/// All that is stored, opened; nothing runs yet.
#[derive(Clone)]
pub struct Cloud {
    pub env: Env,
    pub config: Config,
    /// Whose all of this is; the same for all time.
    pub deployment: Uuid,
    /// The name under which this controller holds operations.
    pub controller: String,
    pub api: ApiDb,
    /// cell0 first.
    pub cells: Vec<CellPlan>,
    pub services: Services,
    pub policy: Arc<PolicyEnforcer>,
}

impl Cloud {
    /// Every database by its name, and each service's share of theirs: what an experiment may take down.
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

/// Opens the databases, services, cells and policy of a data directory that the caller holds; makes what is missing.
pub async fn open(config: Config, env: Env) -> Result<Cloud, BootstrapError> {
    open_with(config, env, Samples::default()).await
}

/// As [`open`], with samples of the caller's size.
pub async fn open_with(config: Config, env: Env, wanted: Samples) -> Result<Cloud, BootstrapError> {
    let data = config.data_dir.clone();
    let mut deployment = deployment::identify(&config, &env).await?;
    policy_file::make_if_missing(&config.policy_file()).map_err(at(&config.policy_file()))?;
    let policy = Arc::new(PolicyEnforcer::open(&config.policy_file())?);
    deployment.begin(&config, &env).await?;
    let controller = controller::name(&data, &env)?;
    let api = ApiDb::new(deployment.open(&config, &env, Part::Api).await?);
    clear_contexts::erase(&Operations::new(api.db().clone())).await?;
    let services = open_services(&config, &env, &deployment).await?;
    deployment.note_marked(&api, Part::Services).await?;
    let (cells, new_hosts) = topology::ensure_cells(&config, &env, &api, &services, &deployment).await?;
    accounts::ensure(&config, &env, &services.identity).await?;
    samples::make_once(&data, &env, wanted, &Made { api: &api, services: &services, cells: &cells }, &new_hosts).await?;
    deployment.finish(&config, &env, &api.cell_mappings().await?).await?;
    let deployment = deployment.id;
    Ok(Cloud { env, config, deployment, controller, api, cells, services, policy })
}

async fn open_services(config: &Config, env: &Env, deployment: &Deployment) -> Result<Services, BootstrapError> {
    let data = &config.data_dir;
    let db = deployment.open(config, env, Part::Services).await?;
    let identity = Arc::new(EmbeddedIdentity::open(db.clone(), env.clone(), &config.token_keys(), config.identity.settings()).await?);
    // One database under a name for each, so that an experiment can make one service fail alone.
    let images = Arc::new(EmbeddedImage::open(db.named("image"), env.clone(), &data.join("images")).await?);
    let for_volumes: Arc<dyn ImageService> = images.clone();
    let volumes = Arc::new(EmbeddedVolume::open(db.named("volume"), env.clone(), &data.join("volumes"), for_volumes).await?);
    let network = Arc::new(EmbeddedNetwork::new(db.named("network")).with_limits(config.network.clone()));
    let placement = Arc::new(EmbeddedPlacement::new(db.named("placement")));
    Ok(Services { db, identity, images, network, volumes, placement })
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> BootstrapError {
    let path = path.to_owned();
    move |source| BootstrapError::File { path, source }
}

#[cfg(test)]
mod tests;
