//! Opens the data of a stopped service, for the audit and other commands. Makes nothing that is missing, and cleans up nothing, unlike a
//! start.

use std::collections::BTreeSet;
use std::sync::Arc;

use cellshift_embedded::image::EmbeddedImage;
use cellshift_embedded::network::EmbeddedNetwork;
use cellshift_embedded::placement::EmbeddedPlacement;
use cellshift_embedded::volume::EmbeddedVolume;
use uuid::Uuid;

use super::deployment::{self, url_of};
use super::{BootstrapError, topology};
use crate::config::Config;
use crate::db::api::ApiDb;
use crate::db::cell::CellDb;
use crate::db::deployment::Part;
use crate::db::place::place_of;
use crate::db::{Db, DbError};
use crate::domain::reason;
use crate::env::Env;
use crate::services::image::ImageService;

/// A cell whose database could be opened.
pub struct StoredCell {
    pub uuid: Uuid,
    pub name: String,
    pub db: CellDb,
}

/// The databases and services of a held data directory.
pub struct Stored {
    /// The deployment's id.
    pub deployment: Uuid,
    pub api: ApiDb,
    pub cells: Vec<StoredCell>,
    /// The cells whose database could not be opened: id, name and reason.
    pub silent_cells: Vec<(Uuid, String, String)>,
    pub images: Arc<EmbeddedImage>,
    pub network: Arc<EmbeddedNetwork>,
    pub volumes: Arc<EmbeddedVolume>,
    pub placement: Arc<EmbeddedPlacement>,
}

/// Opens the parts if they belong together. Brings an older schema up to date and marks the databases, as a start does.
pub async fn open_stored(config: &Config, env: &Env) -> Result<Stored, BootstrapError> {
    open(config, env, false).await
}

/// Opens as [`open_stored`] does, and adds the cells that the next start would add: maps them and makes their databases.
pub async fn migrate_stored(config: &Config, env: &Env) -> Result<Stored, BootstrapError> {
    open(config, env, true).await
}

async fn open(config: &Config, env: &Env, adds_cells: bool) -> Result<Stored, BootstrapError> {
    let data = &config.data_dir;
    let mut deployment = deployment::identify(config, env).await?;
    if deployment.is_new {
        let place = place_of(&url_of(config, Part::Api), data);
        let reason = reason!("there is nothing in {place}: the service has never been started with this data directory");
        return Err(DbError::Unavailable { name: "api".into(), reason }.into());
    }
    deployment.begin(config, env).await?;
    let api = ApiDb::new(deployment.open(config, env, Part::Api).await?);
    let services: Db = deployment.open(config, env, Part::Services).await?;
    deployment.note_marked(&api, Part::Services).await?;
    let (mut cells, mut silent_cells) = (Vec::new(), Vec::new());
    let mut mappings = api.cell_mappings().await?;
    let before: BTreeSet<Uuid> = mappings.iter().map(|mapping| mapping.uuid).collect();
    if adds_cells {
        topology::ensure_mappings(config, env, &api).await?;
        mappings = api.cell_mappings().await?;
    }
    for mapping in &mut mappings {
        let configured = config.database.cells.get(&mapping.name).cloned();
        mapping.database_url = configured.unwrap_or_else(|| topology::in_this_directory(config, &mapping.name, &mapping.database_url));
        let url = mapping.database_url.clone();
        // A cell that was mapped before had a database, which is not created again.
        let db = deployment.unopened_cell(mapping, url, before.contains(&mapping.uuid), env);
        let (uuid, name) = (mapping.uuid, mapping.name.clone());
        match db.open_now().await {
            Ok(()) => {
                deployment.note_marked(&api, Part::Cell(uuid)).await?;
                cells.push(StoredCell { uuid, name, db: CellDb::new(db) });
            }
            Err(error) => silent_cells.push((uuid, name, error.to_string())),
        }
    }
    deployment.finish(config, env, &mappings).await?;
    let images = Arc::new(EmbeddedImage::over(services.clone(), env.clone(), &data.join("images")));
    let for_volumes: Arc<dyn ImageService> = images.clone();
    let volumes = Arc::new(EmbeddedVolume::over(services.clone(), env.clone(), &data.join("volumes"), for_volumes));
    let (network, placement) = (Arc::new(EmbeddedNetwork::new(services.clone())), Arc::new(EmbeddedPlacement::new(services)));
    Ok(Stored { deployment: deployment.id, api, cells, silent_cells, images, network, volumes, placement })
}
