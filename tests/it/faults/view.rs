//! A view of a server that contains what each participant knows of it: a failed operation must leave the view unchanged.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use uuid::Uuid;

use cellshift::actors::root::Tree;
use cellshift::domain::host_trial::{HostTrial, TrialOutcome};
use cellshift::domain::instance::Instance;
use cellshift::saga::steps::shelf;
use cellshift::services::network::PortBinding;

use crate::cloud::PATIENCE;

/// Names and values.
pub type View = BTreeMap<String, String>;

/// The visible record and its cell; none if the server is gone.
pub async fn record(tree: &Tree, server: Uuid) -> Option<(String, Instance)> {
    let world = &tree.world;
    let mapping = world.api.instance_mapping(server).await.ok()?;
    let cell = world.cell_name(mapping.cell_uuid?).ok()?.to_owned();
    let instance = world.cells[&cell].db.instance(server).await.ok()?;
    Some((cell, instance))
}

/// Returns the server as its users, the services and the hosts see it.
pub async fn view(tree: &Tree, server: Uuid) -> View {
    let world = &tree.world;
    let mut view = View::new();
    let mut add = |name: String, value: String| {
        view.insert(name, value);
    };
    if let Some((cell, instance)) = record(tree, server).await {
        add("host".into(), format!("{:?}", instance.host));
        add("zone".into(), format!("{:?}", instance.availability_zone));
        add("state".into(), format!("{} {:?} {:?}", instance.vm_state, instance.task_state, instance.power_state));
        add(
            "flavor".into(),
            format!("{} old {:?} new {:?}", instance.flavor.name, instance.old_flavor.is_some(), instance.new_flavor.is_some()),
        );
        add("image".into(), instance.image_ref.clone());
        let (image, shelved) = (shelf::image_of(&instance.system_metadata), shelf::shelved_at(&instance.system_metadata));
        add("shelf".into(), format!("{} {}", image.is_some(), shelved.is_some()));
        add("old state".into(), format!("{:?}", instance.old_vm_state));
        for device in world.cells[&cell].db.block_devices(server).await.expect("devices") {
            add(format!("device {:?}", device.device_name), format!("{:?}", device.volume_id));
        }
        add("cell".into(), cell);
    }
    if let Ok(spec) = world.api.request_spec(server).await {
        add("request spec".into(), format!("{} {:?}", spec.flavor.name, spec.image_id));
    }
    let owner = world.operations.ownership(server).await.expect("ownership").and_then(|row| row.owner);
    add("owner".into(), format!("{owner:?}"));
    let providers = world.placement.providers().await.expect("providers");
    for held in world.placement.all_allocations().await.expect("allocations") {
        // A test has one server at a time, so a migration's holdings are its server's.
        for (provider, amounts) in held.allocations {
            let name = providers.iter().find(|provider_row| provider_row.uuid == provider).map_or("?", |provider_row| &provider_row.name);
            add(format!("allocation {} {name}", held.consumer_type), format!("{amounts:?}"));
        }
    }
    for (index, port) in world.network.ports_of(server).await.expect("ports").into_iter().enumerate() {
        let providers = |binding: &PortBinding| binding.allocation().map_or_else(String::new, ToString::to_string);
        let bindings: BTreeMap<_, _> = port.bindings.iter().map(|binding| (&binding.host, (&binding.status, providers(binding)))).collect();
        add(format!("port {index}"), format!("{} {bindings:?} with {} addresses", port.status, port.fixed_ips.len()));
    }
    let mut attachments: BTreeMap<Uuid, Vec<String>> = BTreeMap::new();
    for attachment in world.volumes.attachments_of(server).await.expect("attachments") {
        attachments.entry(attachment.volume_id).or_default().push(format!("{:?} {}", attachment.host, attachment.status));
    }
    for (index, (_, mut hosts)) in attachments.into_iter().enumerate() {
        hosts.sort();
        add(format!("volume {index}"), hosts.join(", "));
    }
    for (host, guest) in guests(tree, server).await {
        add(format!("guest {host}"), guest);
    }
    view
}

/// Returns what each host has of the server: the guest and the claimed room.
async fn guests(tree: &Tree, server: Uuid) -> BTreeMap<String, String> {
    let mut states = BTreeMap::new();
    for cell in &tree.cells {
        for (host, _) in cell.hosts.hosts() {
            let Ok(report) = tree.world.hosts.report(&cell.name, &host, PATIENCE).await else {
                states.insert(host, "does not answer".to_owned());
                continue;
            };
            let guest = report.guests.iter().find(|guest| guest.server == server).map(|guest| {
                format!("{} {:?} volumes {} ports {}", guest.defined, guest.power_state, guest.volumes.len(), guest.ports.len())
            });
            let claims: Vec<String> =
                report.claims.iter().map(|(_, claim)| format!("{:?} with {} functions", claim.room, claim.functions.len())).collect();
            if guest.is_some() || !claims.is_empty() {
                states.insert(host, format!("{guest:?} claims {claims:?}"));
            }
        }
    }
    states
}

/// Returns the bytes of the server's root disk on the host that its record names, or in the image of a shelved server without a host.
pub async fn root_disk(tree: &Tree, server: Uuid) -> Option<Vec<u8>> {
    let (cell, instance) = record(tree, server).await?;
    if let (None, Some(image)) = (&instance.host, shelf::image_of(&instance.system_metadata)) {
        let (_, data) = tree.world.images.download(image).await.ok()?;
        return Some(data.try_collect::<Vec<_>>().await.ok()?.concat());
    }
    let trial = tree.cell(&cell)?.hosts.trial(&instance.host?, HostTrial::Disks { server }, PATIENCE).await;
    let Ok(Ok(TrialOutcome::Disks(disks))) = trial else { return None };
    let root = disks.into_iter().find(|disk| disk.name == "disk")?;
    std::fs::read(root.path).ok()
}

/// Makes the guest write bytes that no other guest has written.
pub async fn guest_writes(tree: &Tree, server: Uuid, bytes: &str) {
    let Some((cell, Instance { host: Some(host), .. })) = record(tree, server).await else { return };
    let Some(cell) = tree.cell(&cell) else { return };
    // A guest that is off writes nothing.
    let write = HostTrial::GuestWrite { server, bytes: bytes.as_bytes().to_vec() };
    let _ = cell.hosts.trial(&host, write, PATIENCE).await;
}

/// Returns the state without hosts and ids: two servers with the same history have the same.
pub fn gist(view: &View) -> View {
    let hostless =
        |name: &String| ["state", "flavor", "image", "shelf", "cell", "old state", "request spec", "zone"].contains(&name.as_str());
    let mut gist: View = view.iter().filter(|(name, _)| hostless(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
    for kind in ["allocation", "port", "volume", "guest", "device"] {
        gist.insert(format!("{kind}s"), view.keys().filter(|name| name.starts_with(kind)).count().to_string());
    }
    gist
}
