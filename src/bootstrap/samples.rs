//! A new cloud's aggregates, flavors, image and networks, named as its preset says. They are made once; deleted ones stay deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use cellshift_embedded::image::NewImage;

use super::{BootstrapError, CellPlan, Services, file_error, sample_networks};
use crate::config::{Config, Preset};
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::domain::cell_mapping::CELL0;
use crate::domain::context::RequestContext;
use crate::domain::flavor::Flavor;
use crate::env::Env;
use crate::reconcilers::aggregate_members::{self, MembersError};
use crate::services::image::ImageService;

/// The file whose presence says that the samples were made. It names their preset, if this is not the default one.
const MARKER: &str = "samples-made";
const DEVSTACK: &str = "devstack\n";

/// The sizes of the samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Samples {
    /// The bytes of the image, in whole blocks of 32.
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

/// Makes the samples unless an earlier start has. Returns their preset.
pub(super) async fn make_once(
    config: &Config,
    env: &Env,
    samples: Samples,
    made: &Made<'_>,
    new_hosts: &BTreeSet<String>,
) -> Result<Preset, BootstrapError> {
    let Made { api, services, cells } = *made;
    let marker = config.data_dir.join(MARKER);
    let done = made_as(&marker)?;
    let preset = done.unwrap_or(config.preset);
    if preset == Preset::Cellshift {
        place_hosts(env, api, cells, |host| done.is_none() || new_hosts.contains(host)).await?;
        if done.is_none() || !new_hosts.is_empty() {
            add_members(api, services).await;
        }
    }
    if done.is_some() {
        return Ok(preset);
    }
    for flavor in flavors(preset) {
        match api.create_flavor(flavor).await {
            Ok(_) | Err(DbError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let admin_project = services.identity.ensure_project("admin").await?.id;
    make_image(env, services, &admin_project, (image_name(preset), samples)).await?;
    let outside = services.identity.ensure_project("service").await?.id;
    sample_networks::make(&services.network, &admin_project, &outside).await?;
    std::fs::write(&marker, if preset == Preset::Devstack { DEVSTACK } else { "" }).map_err(file_error(&marker))?;
    Ok(preset)
}

/// Returns the preset of the samples that an earlier start has made.
fn made_as(marker: &Path) -> Result<Option<Preset>, BootstrapError> {
    match std::fs::read_to_string(marker) {
        Ok(text) if text == DEVSTACK => Ok(Some(Preset::Devstack)),
        Ok(_) => Ok(Some(Preset::Cellshift)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(BootstrapError::File { path: marker.to_owned(), source }),
    }
}

/// Returns the name of the preset's image.
pub fn image_name(preset: Preset) -> &'static str {
    match preset {
        Preset::Cellshift => "tiny",
        Preset::Devstack => "cirros-0.6.3-x86_64-disk",
    }
}

/// Puts the new hosts' providers into the aggregates of the hosts. Those of a cell that does not answer yet get there when it does.
async fn add_members(api: &ApiDb, services: &Services) {
    let placement = services.placement.as_ref();
    let added = match aggregate_members::compare(api, placement).await {
        Ok(differences) => aggregate_members::add(placement, &differences.missing).await.map_err(MembersError::from),
        Err(error) => Err(error),
    };
    if let Err(error) = added {
        log::warn!("placement may lack hosts of aggregates: {error}. Add them with cellshift sync-aggregates.");
    }
}

/// Makes a zone per cell, and aggregates for the generations of hardware: cell1 is the old one.
async fn place_hosts(env: &Env, api: &ApiDb, cells: &[CellPlan], is_new: impl Fn(&str) -> bool) -> Result<(), BootstrapError> {
    for cell in cells.iter().filter(|cell| cell.uuid != CELL0) {
        let generation = if cell.name == "cell1" { "gen1" } else { "gen2" };
        let hosts: Vec<String> = cell.hosts.iter().filter(|host| is_new(host)).cloned().collect();
        if hosts.is_empty() {
            continue;
        }
        place_together(env, api, (&cell.name, Some(&cell.name)), hosts.clone()).await?;
        let hardware = place_together(env, api, (generation, None), hosts).await?;
        let metadata = BTreeMap::from([(GENERATION.to_owned(), Some(generation.to_owned()))]);
        api.set_aggregate_metadata(hardware, metadata).await?;
    }
    Ok(())
}

/// Adds the hosts to the aggregate with this name and zone, or makes the aggregate.
async fn place_together(env: &Env, api: &ApiDb, (name, zone): (&str, Option<&str>), hosts: Vec<String>) -> Result<i32, BootstrapError> {
    let aggregate = match api.aggregates().await?.into_iter().find(|aggregate| aggregate.name == name) {
        Some(aggregate) => aggregate,
        None => api.create_aggregate(env.uuid(), name, zone).await?,
    };
    api.add_aggregate_hosts(aggregate.id, hosts).await?;
    Ok(aggregate.id)
}

fn flavors(preset: Preset) -> Vec<Flavor> {
    match preset {
        Preset::Cellshift => flavors_of_generations(),
        Preset::Devstack => DEVSTACK_FLAVORS.iter().map(devstack_flavor).collect(),
    }
}

/// The flavors of DevStack: id, name, virtual processors, memory in MiB, root disk in GiB.
const DEVSTACK_FLAVORS: [(&str, &str, i32, i32, i32); 10] = [
    ("1", "m1.tiny", 1, 512, 1),
    ("2", "m1.small", 1, 2048, 20),
    ("3", "m1.medium", 2, 4096, 40),
    ("4", "m1.large", 4, 8192, 80),
    ("5", "m1.xlarge", 8, 16384, 160),
    ("c1", "cirros256", 1, 256, 1),
    ("d1", "ds512M", 1, 512, 5),
    ("d2", "ds1G", 1, 1024, 10),
    ("d3", "ds2G", 2, 2048, 10),
    ("d4", "ds4G", 4, 4096, 20),
];

fn devstack_flavor(&(id, name, vcpus, memory_mb, root_gb): &(&str, &str, i32, i32, i32)) -> Flavor {
    Flavor { id: id.to_owned(), name: name.to_owned(), vcpus, memory_mb, root_gb, is_public: true, ..Flavor::default() }
}

/// Returns two flavors per generation, tied to it, and two for any host.
fn flavors_of_generations() -> Vec<Flavor> {
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

async fn make_image(env: &Env, services: &Services, project: &str, (name, samples): (&str, Samples)) -> Result<(), BootstrapError> {
    let admin = RequestContext {
        project_id: project.to_owned(),
        roles: ["admin", "manager", "member", "reader"].map(str::to_owned).to_vec(),
        ..RequestContext::default()
    };
    let present = services.images.list(&admin, Default::default()).await?;
    let unfinished = present.iter().find(|image| image.name.as_deref() == Some(name));
    let id = match unfinished {
        Some(image) if image.status == "active" => return Ok(()),
        Some(image) => image.id,
        None => {
            let new = NewImage {
                name: Some(name.into()),
                visibility: Some("public".into()),
                disk_format: Some("raw".into()),
                container_format: Some("bare".into()),
                ..NewImage::default()
            };
            services.images.create(&admin, new).await?.id
        }
    };
    let bytes = env.run_blocking(move || image_bytes(samples.image_bytes)).await;
    services.images.upload(id, Box::pin(futures::stream::iter([Ok(bytes)]))).await?;
    Ok(())
}

/// Returns constant bytes in which no two blocks are equal, so that a copy with a hole or a swap has another checksum.
fn image_bytes(size: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(size);
    for block in (1_u64..).take(size / 32) {
        bytes.extend_from_slice([block.to_be_bytes(); 4].as_flattened());
    }
    Bytes::from(bytes)
}
