//! The default cloud's aggregates, flavors, image and networks. They are made once; deleted ones stay deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{BootstrapError, CellPlan, Services, at, sample_networks};
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::db::api::cell_mappings::CELL0;
use crate::domain::context::RequestContext;
use crate::domain::flavor::Flavor;
use crate::env::Env;
use crate::services::image::ImageService;
use crate::services::image::embedded::NewImage;

/// The file whose presence says that the samples were made.
const MARKER: &str = "samples-made";

/// The sizes of the samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Samples {
    /// The bytes of the image `tiny`, in whole blocks of 32.
    pub image_bytes: usize,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { image_bytes: 4 * 1024 * 1024 }
    }
}

/// The parts that are already open.
pub(super) struct Made<'a> {
    pub api: &'a ApiDb,
    pub services: &'a Services,
    pub cells: &'a [CellPlan],
}

/// The metadata key that ties flavors to aggregates.
const GENERATION: &str = "generation";

pub(super) async fn make_once(
    data: &Path,
    env: &Env,
    wanted: Samples,
    made: &Made<'_>,
    new_hosts: &BTreeSet<String>,
) -> Result<(), BootstrapError> {
    let Made { api, services, cells } = *made;
    let marker = data.join(MARKER);
    let done = marker.exists();
    place_hosts(env, api, cells, |host| !done || new_hosts.contains(host)).await?;
    if done {
        return Ok(());
    }
    for flavor in flavors() {
        match api.create_flavor(flavor).await {
            Ok(_) | Err(DbError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let admin_project = services.identity.ensure_project("admin").await?.id;
    make_image(env, services, &admin_project, wanted).await?;
    let outside = services.identity.ensure_project("service").await?.id;
    sample_networks::make(&services.network, &admin_project, &outside).await?;
    std::fs::write(&marker, "").map_err(at(&marker))
}

/// Makes a zone per cell, and aggregates for the generations of hardware: cell1 is the old one.
async fn place_hosts(env: &Env, api: &ApiDb, cells: &[CellPlan], is_new: impl Fn(&str) -> bool) -> Result<(), BootstrapError> {
    for cell in cells.iter().filter(|cell| cell.uuid != CELL0) {
        let generation = if cell.name == "cell1" { "gen1" } else { "gen2" };
        for host in cell.hosts.iter().map(String::as_str).filter(|host| is_new(host)) {
            place_host(env, api, &cell.name, Some(&cell.name), host).await?;
            let hardware = place_host(env, api, generation, None, host).await?;
            let metadata = BTreeMap::from([(GENERATION.to_owned(), Some(generation.to_owned()))]);
            api.set_aggregate_metadata(hardware, metadata).await?;
        }
    }
    Ok(())
}

/// Adds the host to the aggregate with this name, or makes the aggregate.
async fn place_host(env: &Env, api: &ApiDb, name: &str, zone: Option<&str>, host: &str) -> Result<i32, BootstrapError> {
    let aggregate = match api.aggregates().await?.into_iter().find(|aggregate| aggregate.name == name) {
        Some(aggregate) => aggregate,
        None => api.create_aggregate(env.uuid(), name, zone).await?,
    };
    if !aggregate.hosts.contains(host) {
        api.add_aggregate_host(aggregate.id, host).await?;
    }
    Ok(aggregate.id)
}

/// Returns two flavors per generation, tied to it, and two for any host.
fn flavors() -> Vec<Flavor> {
    let flavor = |name: &str, vcpus, memory_mb, root_gb, generation: Option<&str>| Flavor {
        id: name.to_owned(),
        name: name.to_owned(),
        vcpus,
        memory_mb,
        root_gb,
        extra_specs: generation
            .map(|value| (format!("aggregate_instance_extra_specs:{GENERATION}"), value.to_owned()))
            .into_iter()
            .collect(),
        is_public: true,
        ..Flavor::default()
    };
    vec![
        flavor("m1.tiny", 1, 512, 1, None),
        flavor("m1.small", 1, 2048, 2, None),
        flavor("gen1.small", 1, 1024, 1, Some("gen1")),
        flavor("gen1.large", 2, 4096, 4, Some("gen1")),
        flavor("gen2.small", 1, 1024, 1, Some("gen2")),
        flavor("gen2.large", 2, 4096, 4, Some("gen2")),
    ]
}

async fn make_image(env: &Env, services: &Services, project: &str, wanted: Samples) -> Result<(), BootstrapError> {
    let admin = RequestContext {
        project_id: project.to_owned(),
        roles: ["admin", "manager", "member", "reader"].map(str::to_owned).to_vec(),
        ..RequestContext::default()
    };
    let present = services.images.list(&admin, Default::default()).await?;
    let unfinished = present.iter().find(|image| image.name.as_deref() == Some("tiny"));
    let id = match unfinished {
        Some(image) if image.status == "active" => return Ok(()),
        Some(image) => image.id,
        None => {
            let new = NewImage {
                name: Some("tiny".into()),
                visibility: Some("public".into()),
                disk_format: Some("raw".into()),
                container_format: Some("bare".into()),
                ..NewImage::default()
            };
            services.images.create(&admin, new).await?.id
        }
    };
    let bytes = env.run_blocking(move || image_bytes(wanted.image_bytes)).await;
    services.images.upload(id, Box::pin(futures::stream::iter([Ok(bytes)]))).await?;
    Ok(())
}

/// Returns constant bytes in which no two blocks are equal, so that a copy with a hole or a swap has another checksum.
fn image_bytes(size: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(size);
    for block in (0_u64..).take(size / 32) {
        bytes.extend_from_slice(&Sha256::digest(block.to_be_bytes()));
    }
    Bytes::from(bytes)
}
