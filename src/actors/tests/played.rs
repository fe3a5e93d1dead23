//! A world for tests of the actors that run sagas: databases in memory, the embedded services, and one host. The test plays the host
//! through the messages of a real host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_embedded::image::EmbeddedImage;
use cellshift_embedded::network::EmbeddedNetwork;
use cellshift_embedded::placement::EmbeddedPlacement;
use cellshift_embedded::volume::EmbeddedVolume;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::actors::cell::CellHealth;
use crate::chaos::borders::FaultyBorders;
use crate::db::api::debts::NewDebt;
use crate::db::api::leases::LEASE;
use crate::db::api::operations::{Append, NewSaga, Operations};
use crate::db::api::publications::NewServer;
use crate::db::api::{ApiDb, ownership};
use crate::db::cell::{CellDb, CellTxn};
use crate::db::{Db, Schema};
use crate::domain::cell_mapping::CellMapping;
use crate::domain::compute_node::ComputeNode;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;
use crate::domain::flavor::{Flavor, Resources};
use crate::domain::host_protocol::{GuestReport, HostAnswer, HostQuery, HostReply, HostReport, HostRequest, HostSummary};
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::notification::Notification;
use crate::domain::quota_grant::QuotaGrant;
use crate::domain::request_spec::RequestSpec;
use crate::domain::saga_record::JournalEntry;
use crate::domain::saga_state::SagaState;
use crate::domain::server::{PowerState, VmState};
use crate::domain::service::{Service, ServiceChange};
use crate::domain::standing::Standing;
use crate::env::{Blocking, Env, RandomIds, SystemClock};
use crate::saga::context::{Context, Request};
use crate::saga::explanation::Explanation;
use crate::saga::notifications::{Notifications, NotifyError};
use crate::saga::scheduling::{PlannedMove, Scheduling, SchedulingError, SelectDestinations, Selection};
use crate::saga::world::{CELL0, CellAccess, Settings, World};
use crate::virt::{HostUnreachable, Hosts};

pub(in crate::actors) const HOST: &str = "host1";
const CELL: &str = "cell1";

/// A request that has arrived at the played host.
pub(in crate::actors) struct ReceivedRequest {
    pub request: HostRequest,
    reply: oneshot::Sender<Result<HostReply, HostUnreachable>>,
}

impl ReceivedRequest {
    /// Answers that the host has done the request.
    pub fn done(self) {
        // The sender may be dead by now.
        let _ = self.reply.send(Ok(HostReply::Done));
    }

    /// Answers that the host cannot do the request.
    pub fn refused(self, reason: &'static str) {
        let _ = self.reply.send(Ok(HostReply::Refused { reason: reason.into() }));
    }
}

struct PlayedHost {
    calls: mpsc::UnboundedSender<ReceivedRequest>,
    guests: Arc<Mutex<Vec<GuestReport>>>,
}

#[async_trait]
impl Hosts for PlayedHost {
    async fn request(&self, _: &str, _: &str, request: HostRequest) -> Result<HostReply, HostUnreachable> {
        let (reply, replied) = oneshot::channel();
        let _ = self.calls.send(ReceivedRequest { request, reply });
        replied.await.unwrap_or_else(|_| Err(HostUnreachable::Unknown("the test does not answer".into())))
    }

    async fn query(&self, _: &str, host: &str, query: HostQuery, _: Duration) -> Result<HostAnswer, HostUnreachable> {
        let guests = self.guests.lock().clone();
        if query == HostQuery::Summary {
            return Ok(HostAnswer::Summary(HostSummary::of_guests(&guests)));
        }
        if let HostQuery::Guest { server } = query {
            return Ok(HostAnswer::Guest(guests.into_iter().find(|guest| guest.server == server).map(Box::new)));
        }
        Ok(HostAnswer::Report(HostReport {
            host: host.into(),
            capacity: Resources::default(),
            claims: Vec::new(),
            guests,
            up_since: None,
            next: None,
        }))
    }

    async fn standing(&self, _: &str, _: &str) -> Standing {
        Standing::Up
    }
}

/// No test here moves a server, so no host is to be chosen.
struct NoHosts;

#[async_trait]
impl Scheduling for NoHosts {
    async fn select_destinations(&self, _: SelectDestinations) -> Result<Selection, SchedulingError> {
        Err(SchedulingError::NoValidHost { reason: "No valid host was found.".into() })
    }

    async fn explain(&self, _: SelectDestinations, _: Vec<PlannedMove>) -> Result<Explanation, SchedulingError> {
        Ok(Explanation::default())
    }
}

struct Silent;

#[async_trait]
impl Notifications for Silent {
    async fn emit(&self, _: Notification) -> Result<u64, NotifyError> {
        Ok(1)
    }
}

/// The world, with the test's part of its host.
pub(in crate::actors) struct Played {
    pub world: Arc<World>,
    /// The health of the cell.
    pub health: CellHealth,
    /// The guests that the host reports.
    pub guests: Arc<Mutex<Vec<GuestReport>>>,
    calls: mpsc::UnboundedReceiver<ReceivedRequest>,
    _dir: tempfile::TempDir,
}

pub(in crate::actors) async fn play() -> Played {
    play_leased(LEASE).await
}

/// Makes a world with leases of this length.
pub(in crate::actors) async fn play_leased(lease: Duration) -> Played {
    let env = FaultyBorders::of(Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline));
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str, schema| Db::open(name, "", schema, &env).unwrap();
    let api = ApiDb::new(open("api", Schema::Api));
    let services = open("services", Schema::Services);
    let images = Arc::new(EmbeddedImage::open(services.clone(), env.clone(), &dir.path().join("images")).await.unwrap());
    let volumes = EmbeddedVolume::open(services.clone(), env.clone(), &dir.path().join("volumes"), images.clone()).await.unwrap();
    let (sender, calls) = mpsc::unbounded_channel();
    let guests: Arc<Mutex<Vec<GuestReport>>> = Arc::default();
    let health = CellHealth::new(CELL, &env);
    let cell = CellAccess { uuid: env.uuid(), db: CellDb::new(open(CELL, Schema::Cell)), health: Arc::new(health.clone()) };
    let cell0 = CellAccess { uuid: env.uuid(), db: CellDb::new(open(CELL0, Schema::Cell)), health: Arc::new(CellHealth::new(CELL0, &env)) };
    let mapping = CellMapping {
        uuid: cell.uuid,
        created_at: env.now(),
        updated_at: None,
        name: CELL.into(),
        database_url: String::new(),
        disabled: false,
    };
    api.create_cell_mapping(mapping).await.unwrap();
    api.map_hosts(vec![HOST.to_owned()], cell.uuid).await.unwrap();
    cell.db.apply_unfenced(CellTxn::new().save_compute_node(node(&env)).register_service(service(&env))).await.unwrap();
    let world = World {
        operations: Operations::new(api.db().clone()).leased_for(lease),
        api,
        cells: BTreeMap::from([(CELL0.to_owned(), cell0), (CELL.to_owned(), cell)]),
        hosts: Arc::new(PlayedHost { calls: sender, guests: guests.clone() }),
        scheduling: Arc::new(NoHosts),
        images,
        network: Arc::new(EmbeddedNetwork::new(services.clone())),
        volumes: Arc::new(volumes),
        placement: Arc::new(EmbeddedPlacement::new(services)),
        notifications: Arc::new(Silent),
        settings: Settings { back_off_first: Duration::from_millis(1), debt_rest: Duration::ZERO, ..Settings::default() },
        default_zone: "nova".to_owned(),
        env,
    };
    Played { world: Arc::new(world), health, guests, calls, _dir: dir }
}

fn node(env: &Env) -> ComputeNode {
    let (uuid, service) = (env.uuid(), env.uuid());
    ComputeNode { vcpus: 8, memory_mb: 8192, local_gb: 100, cpu_allocation_ratio: 4.0, ..ComputeNode::new(uuid, HOST, service, env.now()) }
}

fn service(env: &Env) -> Service {
    Service { last_seen_up: Some(env.now()), report_count: 1, ..Service::new(env.uuid(), HOST, "nova-compute", "nova", env.now()) }
}

impl Played {
    /// Forces the host down or up, as an operator does.
    pub async fn force_down(&self, forced_down: bool) {
        let db = &self.world.cells[CELL].db;
        let service = db.service_on(HOST, "nova-compute").await.unwrap().uuid;
        let change = ServiceChange { forced_down: Some(forced_down), ..ServiceChange::default() };
        db.apply_unfenced(CellTxn::new().service_change(service, change)).await.unwrap();
    }

    /// Makes a server on the host, which owns its guest.
    pub async fn server(&self, vm_state: VmState) -> Uuid {
        let (world, server) = (&self.world, self.world.env.uuid());
        let flavor = Flavor { id: "1".into(), name: "small".into(), vcpus: 1, memory_mb: 512, root_gb: 1, ..Flavor::default() };
        let mut instance = Instance::new(server, "demo", "alice", "web", flavor.clone(), world.env.now());
        instance.host = Some(HOST.into());
        instance.node = Some(HOST.into());
        instance.image_ref = world.env.uuid().to_string();
        instance.vm_state = vm_state;
        instance.task_state = None;
        instance.power_state = if vm_state == VmState::Active { PowerState::Running } else { PowerState::Shutdown };
        instance.launched_at = Some(world.env.now());
        let request_spec = RequestSpec::new(server, "demo", "alice", flavor);
        let mut bundle = InstanceBundle::new(instance);
        bundle.info_cache = Some(Default::default());
        let owned = move |conn: &mut crate::db::Conn| {
            let fence = ownership::take_attempt(conn, server)?;
            ownership::hand_over(conn, fence, Some((CELL, HOST)))
        };
        world.operations.db().write(owned).await.unwrap();
        let fence = self.fence(server).await;
        world
            .api
            .create_server(fence, NewServer { instance: bundle.clone(), request_spec }, QuotaGrant::without_check("a test"))
            .await
            .unwrap();
        world.api.publish_build(fence, server, world.cells[CELL].uuid).await.unwrap();
        world.cells[CELL].db.apply(fence, CellTxn::new().create_instance(bundle)).await.unwrap();
        server
    }

    /// Returns the server's highest fence.
    pub async fn fence(&self, server: Uuid) -> Fence {
        let row = self.world.operations.ownership(server).await.unwrap().unwrap();
        Fence { server, epoch: row.epoch, attempt: row.attempt }
    }

    /// Returns the server's record.
    pub async fn record(&self, server: Uuid) -> Instance {
        self.world.cells[CELL].db.instance(server).await.unwrap()
    }

    /// Makes the context of a user's request for a server.
    pub fn context(&self, server: Uuid, request: Request) -> Context {
        let caller = RequestContext { user_id: "alice".into(), project_id: "demo".into(), ..RequestContext::default() };
        Context::new(self.world.env.uuid(), caller, server, request)
    }

    /// Records an operation that has ended and owes one side of these steps.
    pub async fn owes(&self, context: &Context, side: &str, steps: &[&str]) {
        let (operations, server) = (&self.world.operations, context.server);
        let kind = context.kind.as_str();
        operations.begin(NewSaga::new(context.saga, server, (kind, 1), "accept", "{}".into(), "test")).await.unwrap();
        let json = serde_json::to_string(&context).unwrap();
        let debt = |(seq, step): (usize, &&str)| NewDebt {
            owed_seq: i64::try_from(seq).unwrap(),
            step: (*step).into(),
            side: side.into(),
            context: json.clone(),
            reason: "no answer".into(),
        };
        let refused = JournalEntry {
            seq: 1,
            step: "accept".into(),
            side: "act".into(),
            attempt: self.fence(server).await.attempt,
            event: "failed".into(),
            error: None,
            at: self.world.env.now(),
        };
        let append = Append {
            saga: context.saga,
            server,
            lease_epoch: 1,
            entries: vec![refused],
            state: SagaState::Unwound,
            step: "accept".into(),
            context: Some(json.clone()),
            error: None,
            begins: false,
            ends: true,
            owed: steps.iter().enumerate().map(debt).collect(),
            heeds_cancellation: false,
            follow_up: None,
        };
        operations.append(append).await.unwrap();
    }

    /// Returns the next request that arrives at the host.
    pub async fn next_request(&mut self) -> ReceivedRequest {
        tokio::time::timeout(Duration::from_secs(20), self.calls.recv()).await.expect("the host was not asked").unwrap()
    }

    /// Sets the host's report of a guest.
    pub fn guest(&self, server: Uuid, power_state: PowerState) -> GuestReport {
        GuestReport {
            server,
            defined: true,
            power_state,
            rescued: false,
            started_epoch: 1,
            fence: (1, 1),
            volumes: Vec::new(),
            ports: Vec::new(),
            disks: Vec::new(),
            leftovers: Vec::new(),
        }
    }
}
