//! A world for tests of hosts and cells: embedded image and network services, an oracle that the test sets, and requests
//! with a fence that rises by itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use uuid::Uuid;

use actix::{Actor, Addr};
use cellshift_embedded::image::EmbeddedImage;
use cellshift_embedded::network::EmbeddedNetwork;

use crate::actors::cell::{CellHandle, CellHosts, CellOptions, CellParts, HostDirectory};
use crate::actors::compute_host::tickets::Tickets;
use crate::actors::compute_host::{HostOptions, HostServices, OwnershipOracle};
use crate::actors::hosts_here::{HostSpec, HostsHere, HostsHereOptions, HostsHereParts, simulated_hypervisors};
use crate::chaos::borders::FaultyBorders;
use crate::chaos::drivers::FaultyDrivers;
use crate::db::cell::CellDb;
use crate::db::{Db, Schema};
use crate::domain::fence::Fence;
use crate::domain::flavor::{Flavor, Resources};
use crate::domain::guest::{DiskSource, GuestSpec, GuestVif, GuestVolume};
use crate::domain::host_network::HostNetwork;
use crate::domain::host_protocol::{GuestReport, HostAnswer, HostCommand, HostQuery, HostReply, HostReport, HostRequest};
use crate::domain::host_transfer::HostTransfer;
use crate::domain::host_trial::HostTrial;
use crate::domain::notification::Notification;
use crate::env::{Blocking, Env, RandomIds, SystemClock};
use crate::saga::notifications::{Notifications, NotifyError};
use crate::services::image::{Image, ImageService};
use crate::services::network::{HostKey, NetworkService, NewPort};
use crate::virt::HostUnreachable;

pub(in crate::actors) const DEADLINE: Duration = Duration::from_secs(20);
pub(in crate::actors) const IMAGE: &[u8] = b"bytes of an image";

/// Answers with the values that the test sets; none at first.
#[derive(Default)]
pub(in crate::actors) struct ScriptedOracle {
    pub owned: Mutex<BTreeMap<(String, Uuid), (i64, i64)>>,
    /// Servers of which a later attempt has begun.
    pub overtaken: Mutex<Vec<Uuid>>,
    /// Servers that are forgotten.
    pub forgotten: Mutex<Vec<Uuid>>,
    /// The transfers that servers' operations have hosts make; none if nobody can tell.
    pub transfers: Mutex<Option<Vec<(Uuid, HostTransfer)>>>,
}

#[async_trait]
impl OwnershipOracle for ScriptedOracle {
    async fn may_run(&self, _: &str, host: &str, server: Uuid) -> Option<(i64, i64)> {
        self.owned.lock().get(&(host.to_owned(), server)).copied()
    }

    async fn is_latest(&self, fence: Fence) -> Option<bool> {
        Some(!self.overtaken.lock().contains(&fence.server))
    }

    async fn forgotten(&self, servers: Vec<Uuid>) -> Vec<Uuid> {
        let forgotten = self.forgotten.lock();
        servers.into_iter().filter(|server| forgotten.contains(server)).collect()
    }

    async fn may_move(&self, server: Uuid, transfer: &HostTransfer) -> Option<bool> {
        self.transfers.lock().as_ref().map(|transfers| transfers.contains(&(server, transfer.clone())))
    }
}

/// Keeps notifications for the test to look at.
#[derive(Default)]
pub(in crate::actors) struct Outbox {
    pub notifications: Mutex<Vec<Notification>>,
}

#[async_trait]
impl Notifications for Outbox {
    async fn emit(&self, notification: Notification) -> Result<u64, NotifyError> {
        let mut notifications = self.notifications.lock();
        notifications.push(notification);
        Ok(notifications.len() as u64)
    }
}

pub(in crate::actors) struct HostFixture {
    pub env: Env,
    pub dir: tempfile::TempDir,
    pub images: Arc<EmbeddedImage>,
    pub network: Arc<EmbeddedNetwork>,
    pub oracle: Arc<ScriptedOracle>,
    /// The notifications of the cells.
    pub outbox: Arc<Outbox>,
    pub faults: FaultyDrivers,
    attempt: AtomicI64,
}

/// On one thread and in memory, as a simulation.
pub(in crate::actors) async fn world() -> HostFixture {
    world_on(Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline)).await
}

/// With [`Env::system`]: as a service, with files and the blocking pool.
pub(in crate::actors) async fn world_on(env: Env) -> HostFixture {
    let (env, dir) = (FaultyBorders::of(env), tempfile::tempdir().unwrap());
    let services = Db::open("services", &database(dir.path(), "services"), Schema::Services, &env).unwrap();
    let images = Arc::new(EmbeddedImage::open(services.clone(), env.clone(), &dir.path().join("images")).await.unwrap());
    let network = Arc::new(EmbeddedNetwork::new(services));
    let (oracle, outbox, faults) = (Arc::default(), Arc::default(), FaultyDrivers::default());
    HostFixture { env, dir, images, network, oracle, outbox, faults, attempt: AtomicI64::new(0) }
}

/// No ticks, quick resumption, trials.
pub(in crate::actors) fn options() -> HostsHereOptions {
    let resume_interval = Duration::from_millis(20);
    let hosts = HostOptions { tick: Duration::ZERO, resume_interval, trials: true, ..HostOptions::default() };
    HostsHereOptions { hosts, ..HostsHereOptions::default() }
}

impl HostFixture {
    /// The handle of a cell with a database of its own.
    pub fn handle(&self, cell: &str) -> CellHandle {
        let db = CellDb::new(Db::open(cell, &database(self.dir.path(), cell), Schema::Cell, &self.env).unwrap());
        CellHandle::new(self.env.uuid(), cell, db, &self.env)
    }

    /// Returns the parts of a cell's actor.
    pub fn cell_parts(&self, cell: &str) -> CellParts {
        CellParts { env: self.env.clone(), handle: self.handle(cell), options: CellOptions::default(), notifications: self.outbox.clone() }
    }

    /// Returns the parts of the actor of hosts `<cell>-host1` and `<cell>-host2`.
    pub fn hosts_parts(&self, cell: &CellHandle, options: HostsHereOptions) -> HostsHereParts {
        let capacity = Resources { vcpu: 4, memory_mb: 8192, disk_gb: 100 };
        let name = &cell.name;
        HostsHereParts {
            env: self.env.clone(),
            handle: cell.hosts_here.clone(),
            dir: self.cell_dir(name),
            hosts: [1, 2]
                .map(|n| HostSpec { name: format!("{name}-host{n}"), capacity, functions: HostNetwork::default().functions() })
                .into(),
            options,
            upward: Arc::new(self.services()),
            hypervisors: self.faults.over(simulated_hypervisors()),
            escalations: None,
            roster: Default::default(),
        }
    }

    /// Returns what a controller answers hosts from.
    pub fn services(&self) -> HostServices {
        HostServices {
            images: self.images.clone(),
            network: self.network.clone(),
            owners: self.oracle.clone(),
            hosts: Arc::new(CellHosts::new(&self.env)),
            tickets: Arc::new(Tickets::new(self.env.clone(), "http://cloud".into())),
        }
    }

    /// Starts the hosts of a cell; they live as long as the address.
    pub async fn cell(&self, cell: &str, options: HostsHereOptions) -> (CellHandle, Addr<HostsHere>) {
        let handle = self.handle(cell);
        let hosts = start(self.hosts_parts(&handle, options)).await;
        (handle, hosts)
    }

    /// The next attempt at this epoch.
    pub fn fence(&self, server: Uuid, epoch: i64) -> Fence {
        Fence { server, epoch, attempt: self.attempt.fetch_add(1, Ordering::SeqCst) + 1 }
    }

    /// A request under the next attempt of epoch 1, for an operation named by the server.
    pub fn request(&self, server: Uuid, command: HostCommand) -> HostRequest {
        HostRequest::new(self.fence(server, 1), server, command)
    }

    pub fn cell_dir(&self, cell: &str) -> std::path::PathBuf {
        self.dir.path().join("cells").join(cell)
    }

    /// An image without bytes.
    pub async fn queued_image(&self) -> Uuid {
        let id = self.env.uuid();
        let image = Image::queued(id, "demo", self.env.now());
        self.images.create_image(self.fence(id, 1), image).await.unwrap();
        id
    }

    pub async fn image(&self) -> Uuid {
        let id = self.queued_image().await;
        self.images.upload(id, Box::pin(futures::stream::iter([Ok(Bytes::from_static(IMAGE))]))).await.unwrap();
        id
    }

    /// A port of the server, bound to the host.
    pub async fn port(&self, server: Uuid, host: &str) -> GuestVif {
        use serde_json::json;
        let scope = || cellshift_embedded::network::records::Scope::admin("ops");
        let map = |value: serde_json::Value| value.as_object().unwrap().clone();
        let network = self.network.create_network(scope(), map(json!({"name": "private", "shared": true}))).await.unwrap();
        self.network.create_subnet(scope(), map(json!({"network_id": network.id, "cidr": "10.0.0.0/24"}))).await.unwrap();
        let new =
            NewPort { id: self.env.uuid(), network_id: network.id, project_id: "demo".into(), fixed_ip: None, security_groups: vec![] };
        let port = self.network.create_port(self.fence(server, 1), new).await.unwrap();
        self.network.create_binding(self.fence(server, 1), port.id, host, HostKey::AllocationIs(None)).await.unwrap();
        GuestVif { port_id: port.id, mac: port.mac_address }
    }

    /// A volume as a file.
    pub fn volume(&self) -> (GuestVolume, std::path::PathBuf) {
        let (volume_id, attachment_id) = (self.env.uuid(), self.env.uuid());
        let path = self.dir.path().join(format!("volume-{volume_id}"));
        std::fs::write(&path, b"").unwrap();
        let connection_info = serde_json::json!({"driver_volume_type": "local", "data": {"path": path}});
        (GuestVolume { volume_id, attachment_id, device_name: "/dev/vdb".into(), boot_index: None, connection_info }, path)
    }

    pub fn spec(&self, server: Uuid, disks: DiskSource) -> GuestSpec {
        GuestSpec {
            server,
            instance_name: "instance-00000001".into(),
            flavor: Flavor { root_gb: 1, ephemeral_gb: 1, swap_mb: 1, ..Flavor::default() },
            disks,
            volumes: vec![],
            vifs: vec![],
            config_drive: serde_json::Value::Null,
            sealed: None,
        }
    }

    /// Sends a command under the next attempt and gives the reply.
    pub async fn ask(&self, hosts: &HostDirectory, host: &str, server: Uuid, command: HostCommand) -> HostReply {
        hosts.request(host, self.request(server, command), DEADLINE).await.unwrap()
    }

    /// A running guest from the image.
    pub async fn run_guest(&self, hosts: &HostDirectory, host: &str, server: Uuid) {
        let spec = self.spec(server, DiskSource::Image { image_id: self.image().await });
        assert_eq!(self.ask(hosts, host, server, HostCommand::PrepareGuest { spec: Box::new(spec) }).await, HostReply::Done);
        assert_eq!(self.ask(hosts, host, server, HostCommand::StartGuest).await, HostReply::Done);
    }

    pub async fn report(&self, hosts: &HostDirectory, host: &str) -> HostReport {
        match hosts.query(host, HostQuery::Report, DEADLINE).await.unwrap() {
            HostAnswer::Report(report) => report,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the host's report of its only guest.
    pub async fn only_guest(&self, hosts: &HostDirectory, host: &str) -> Option<GuestReport> {
        let mut guests = self.report(hosts, host).await.guests;
        assert!(guests.len() <= 1);
        guests.pop()
    }

    /// The bytes of a server's disk on a host.
    pub fn disk(&self, cell: &str, host: &str, server: Uuid, name: &str) -> Vec<u8> {
        let path = self.cell_dir(cell).join("hosts").join(host).join("guests").join(server.to_string()).join(name);
        std::fs::read(path).unwrap()
    }
}

fn database(dir: &Path, name: &str) -> String {
    dir.join(format!("{name}.db")).to_string_lossy().into_owned()
}

/// Starts the actor of a cell's hosts and waits for the hosts.
pub(in crate::actors) async fn start(parts: HostsHereParts) -> Addr<HostsHere> {
    let (directory, hosts) = (parts.handle.hosts().clone(), parts.hosts.clone());
    let address = HostsHere::new(parts, None).start();
    until("the hosts take requests", || async { hosts.iter().all(|host| directory.standing(&host.name).is_up()) }).await;
    address
}

/// Makes a host break down. False if it was not there.
pub(in crate::actors) async fn crash(hosts: &HostDirectory, host: &str) -> bool {
    matches!(hosts.trial(host, HostTrial::Crash, DEADLINE).await, Err(HostUnreachable::Unknown(_)))
}

/// Every file below a directory.
pub(in crate::actors) fn files_below(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return vec![] };
    let mut files = Vec::new();
    for entry in entries.map(Result::unwrap) {
        match entry.path().is_dir() {
            true => files.extend(files_below(&entry.path())),
            false => files.push(entry.path().to_string_lossy().into_owned()),
        }
    }
    files.sort();
    files
}

/// Waits until the condition holds.
pub(in crate::actors) async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    for _ in 0..2000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}
