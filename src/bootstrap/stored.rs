//! Opens what a stopped service has stored, for the audit: nothing is made that is not there.

use std::sync::Arc;

use uuid::Uuid;

use super::{BootstrapError, open_db, topology};
use crate::config::Config;
use crate::db::api::ApiDb;
use crate::db::cell::CellDb;
use crate::db::{DbError, Schema};
use crate::env::Env;
use crate::services::image::ImageService;
use crate::services::image::embedded::EmbeddedImage;
use crate::services::network::EmbeddedNetwork;
use crate::services::placement::EmbeddedPlacement;
use crate::services::volume::embedded::EmbeddedVolume;

/// A cell whose database opened.
pub struct StoredCell {
    pub uuid: Uuid,
    pub name: String,
    pub db: CellDb,
}

/// The databases and services of a data directory that the caller holds.
pub struct Stored {
    pub api: ApiDb,
    pub cells: Vec<StoredCell>,
    /// Cells whose database did not open: id, name and why.
    pub silent_cells: Vec<(Uuid, String, String)>,
    pub images: Arc<EmbeddedImage>,
    pub network: Arc<EmbeddedNetwork>,
    pub volumes: Arc<EmbeddedVolume>,
    pub placement: Arc<EmbeddedPlacement>,
}

/// Opens them. A schema of an older release is brought up to date, as at a start.
pub async fn open_stored(config: &Config, env: &Env) -> Result<Stored, BootstrapError> {
    let data = &config.data_dir;
    let (api_file, services_file) = (data.join("api.db"), data.join("services.db"));
    for (url, file) in [(&config.database.api, &api_file), (&config.database.services, &services_file)] {
        if url.is_none() && !file.is_file() {
            let reason = format!("there is no {}: the service has never been started with this data directory", file.display());
            return Err(DbError::Unavailable { name: "api".into(), reason }.into());
        }
    }
    let api = ApiDb::new(open_db("api", config.database.api.as_deref(), &api_file, Schema::Api, env)?);
    let services = open_db("services", config.database.services.as_deref(), &services_file, Schema::Services, env)?;
    let (mut cells, mut silent_cells) = (Vec::new(), Vec::new());
    for mapping in api.cell_mappings().await? {
        let url = config.database.cells.get(&mapping.name).cloned().unwrap_or_else(|| topology::in_this_directory(config, &mapping));
        let missing = !crate::db::connection::is_postgres(&url) && !std::path::Path::new(&url).is_file();
        let opened = match missing {
            true => Err(DbError::Unavailable { name: mapping.name.clone(), reason: format!("there is no {url}") }),
            false => open_db(&mapping.name, Some(&url), data, Schema::Cell, env),
        };
        match opened {
            Ok(db) => cells.push(StoredCell { uuid: mapping.uuid, name: mapping.name, db: CellDb::new(db) }),
            Err(error) => silent_cells.push((mapping.uuid, mapping.name, error.to_string())),
        }
    }
    let images = Arc::new(EmbeddedImage::open(services.clone(), env.clone(), &data.join("images")).await?);
    let for_volumes: Arc<dyn ImageService> = images.clone();
    let volumes = Arc::new(EmbeddedVolume::open(services.clone(), env.clone(), &data.join("volumes"), for_volumes).await?);
    let (network, placement) = (Arc::new(EmbeddedNetwork::new(services.clone())), Arc::new(EmbeddedPlacement::new(services)));
    Ok(Stored { api, cells, silent_cells, images, network, volumes, placement })
}
