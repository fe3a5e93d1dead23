//! The agents of a cell over a real NATS server: they are accepted, recorded, told apart, recalled after a restart and answered.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use async_trait::async_trait;
use cellshift_host::link::{Delivered, HostEnd};
use cellshift_nats::testkit::Broker;
use cellshift_nats::{Admission, Connection, ConnectionOptions, Hello, HostFacts, HostServer, LastWord, Name, Place, Rhythm, Silence};
use parking_lot::Mutex;
use tokio::sync::watch;
use uuid::Uuid;

mod self_fence;

use super::*;
use crate::actors::supervision::Shutdown;
use crate::actors::tests::fixture::{DEADLINE, HostFixture, until, world_on};
use crate::db::{Db, Schema};
use crate::domain::cell_mapping::CellMapping;
use crate::domain::flavor::Resources;
use crate::domain::host_protocol::{
    Asker, HostAnswer, HostCommand, HostQuery, HostReply, HostRequest, ImageBytes, NeighbourError, QuestionAnswer,
};
use crate::domain::reason::Reason;
use crate::domain::secret::Secret;
use crate::domain::standing::{OffBy, Standing};
use crate::env::streams::{ByteStream, Keep};

const H1: &str = "h1";
const SILENCE: Silence = Silence { after: Duration::from_secs(2), self_fence_margin: Duration::from_secs(1) };

/// Keeps what it should record.
#[derive(Default)]
struct Recorder(Mutex<Vec<ReportedHost>>);

#[async_trait]
impl HostRecorder for Recorder {
    async fn record(&self, hosts: &[ReportedHost]) -> Result<(), Reason> {
        self.0.lock().extend_from_slice(hosts);
        Ok(())
    }
}

/// Says of each guest that its host may run it.
struct AllMayRun;

const QUESTION: HostQuestion = HostQuestion::MayRun { server: Uuid::nil() };
const ANSWER: QuestionAnswer = QuestionAnswer::MayRun(Some((3, 4)));

#[async_trait]
impl Upward for AllMayRun {
    async fn ask(&self, asker: &Asker, question: HostQuestion) -> Result<QuestionAnswer, NeighbourError> {
        assert_eq!((asker.cell.as_str(), asker.host.as_str()), ("cell1", H1));
        match question {
            HostQuestion::IsLatest { .. } => Ok(QuestionAnswer::IsLatest(Some(true))),
            _ => Ok(ANSWER),
        }
    }

    async fn download(&self, _: Uuid, _: Uuid) -> Result<(ImageBytes, ByteStream), NeighbourError> {
        Err(NeighbourError::Unavailable("no images".into()))
    }

    async fn upload(&self, _: Uuid, _: Uuid, _: ByteStream, _: Keep) -> Result<String, NeighbourError> {
        Err(NeighbourError::Unavailable("no images".into()))
    }
}

/// A host that does all that it is told.
struct Obedient;

#[async_trait]
impl HostEnd for Obedient {
    async fn request(&self, _: HostRequest) -> Delivered<HostReply> {
        Delivered::Answered(HostReply::Done)
    }

    async fn query(&self, _: HostQuery) -> Delivered<HostAnswer> {
        Delivered::CannotTell
    }
}

/// A cell with a NATS server and no controller.
struct Stage {
    world: HostFixture,
    broker: Broker,
    api: ApiDb,
    recorder: Arc<Recorder>,
}

impl Stage {
    async fn new() -> Stage {
        let world = world_on(Env::system()).await;
        let path = world.dir.path().join("api.db").to_string_lossy().into_owned();
        let api = ApiDb::new(Db::open("api", &path, Schema::Api, &world.env).unwrap());
        Stage { broker: Broker::of_cell("cell1", &[H1]).await, api, recorder: Arc::default(), world }
    }

    /// Makes a handle of the cell, which is mapped.
    async fn cell(&self) -> CellHandle {
        let cell = self.world.handle("cell1");
        self.map_cell(cell.uuid, &cell.name).await;
        cell
    }

    /// Maps a cell, so that hosts can be mapped to it.
    async fn map_cell(&self, uuid: Uuid, name: &str) {
        let (created_at, name, database_url) = (self.world.env.now(), name.to_owned(), format!("{name}.db"));
        let mapping = CellMapping { uuid, created_at, updated_at: None, name, database_url, disabled: false };
        self.api.create_cell_mapping(mapping).await.unwrap();
    }

    async fn connect(&self, seed: &Secret<String>, inbox: String) -> Arc<Connection> {
        let options = ConnectionOptions {
            servers: vec![format!("nats://{}", self.broker.address())],
            seed: Some(seed.clone()),
            authorities: None,
            name: "test".to_owned(),
            inbox,
            ping_interval: Duration::from_secs(5),
        };
        Connection::open(&self.world.env, options).await.unwrap()
    }

    /// Returns the parts of the actor of this cell.
    async fn parts(&self, cell: &CellHandle) -> AgentsParts {
        AgentsParts {
            env: self.world.env.clone(),
            cell: cell.clone(),
            api: self.api.clone(),
            address: self.broker.cell.clone(),
            connection: self.connect(&self.broker.controllers.seed, self.broker.cell.inbox()).await,
            recorder: self.recorder.clone(),
            upward: Arc::new(AllMayRun),
            options: AgentsOptions { silence: SILENCE, discover: false, database_deadline: DEADLINE },
        }
    }

    /// Starts the actor of a cell.
    async fn controller(&self, cell: &CellHandle) -> Addr<Agents> {
        Agents::new(self.parts(cell).await, None).start()
    }

    /// Begins a life of the host's agent, which promises nothing.
    async fn agent(&self, place: Place) -> (HostServer, watch::Sender<HostFacts>) {
        self.agent_with(place, None).await
    }

    /// Begins a life of the host's agent with this promise.
    async fn agent_with(&self, place: Place, self_fence: Option<Duration>) -> (HostServer, watch::Sender<HostFacts>) {
        let address = self.broker.cell.host(Name::parse(H1).unwrap());
        let connection = self.connect(&self.broker.agent(H1).seed, address.inbox()).await;
        let (facts, env) = (watch::Sender::new(facts(8)), self.world.env.clone());
        let hello = Hello { life: env.uuid(), place: Some(place), self_fence };
        let server = HostServer::start(env, connection, address, hello, quick(), facts.subscribe(), Arc::new(Obedient)).await;
        (server.unwrap(), facts)
    }

    /// Returns the recorded numbers of processors, in their order.
    fn recorded(&self) -> Vec<i64> {
        self.recorder.0.lock().iter().map(|host| host.facts.capacity.vcpu).collect()
    }
}

/// Times for tests: all that agents do, they do soon.
fn quick() -> Rhythm {
    Rhythm {
        report: Duration::from_millis(100),
        hello: Duration::from_millis(500),
        patience: Duration::from_secs(2),
        retry: Duration::from_millis(100),
        refused: Duration::from_millis(100),
        spread: Duration::from_millis(20),
    }
}

fn facts(vcpu: i64) -> HostFacts {
    let capacity = Resources { vcpu, memory_mb: 16_384, disk_gb: 100 };
    HostFacts { driver: "simulated".to_owned(), capacity, ..HostFacts::default() }
}

fn place(id: u128, start: u64) -> Place {
    Place { id: Uuid::from_u128(id), start }
}

async fn until_up(cell: &CellHandle) {
    until("the host is up", || async { cell.hosts.standing(H1).is_up() }).await;
}

async fn until_off(cell: &CellHandle) {
    until("the host is off", || async { cell.hosts.standing(H1) == Standing::Off(OffBy::Host) }).await;
}

#[actix::test]
async fn a_host_of_nobody_is_discovered_until_it_is_mapped() {
    let stage = Stage::new().await;
    let cell = stage.cell().await;
    let _actor = stage.controller(&cell).await;
    let (_agent, facts_of_agent) = stage.agent(place(7, 1)).await;
    until_up(&cell).await;
    until("the host is discovered", || async { cell.agents.is_discovered(H1) }).await;
    assert!(stage.recorded().is_empty() && cell.db.compute_nodes().await.unwrap().is_empty());
    assert_eq!(cell.db.service_on(H1, "nova-compute").await.unwrap().host, H1);

    stage.api.map_hosts(vec![H1.to_owned()], cell.uuid).await.unwrap();
    until("the mapped host is recorded", || async { stage.recorded() == [8] && !cell.agents.is_discovered(H1) }).await;
    facts_of_agent.send_replace(facts(12));
    until("its change is recorded", || async { stage.recorded() == [8, 12] }).await;
}

#[actix::test]
async fn a_discovering_cell_maps_hosts_itself() {
    let stage = Stage::new().await;
    let cell = stage.cell().await;
    let mut parts = stage.parts(&cell).await;
    parts.options.discover = true;
    let _actor = Agents::new(parts, None).start();
    let _agent = stage.agent(place(7, 1)).await;
    until("the host is recorded", || async { stage.recorded() == [8] }).await;
    assert_eq!(stage.api.host_mapping(H1).await.unwrap().cell_uuid, cell.uuid);
    let request = stage.world.request(Uuid::from_u128(1), HostCommand::Fence);
    assert_eq!(cell.hosts.request(H1, request, DEADLINE).await, Ok(HostReply::Done));
}

#[actix::test]
async fn a_host_of_another_cell_is_not_accepted() {
    let stage = Stage::new().await;
    let cell = stage.cell().await;
    stage.map_cell(Uuid::from_u128(99), "cell2").await;
    stage.api.map_hosts(vec![H1.to_owned()], Uuid::from_u128(99)).await.unwrap();
    let book = stage.parts(&cell).await.book();
    let presence = cellshift_nats::Presence {
        life: cellshift_nats::Life::new(Uuid::from_u128(1)),
        release: String::new(),
        protocol: 1,
        place: None,
        self_fence_ms: None,
        facts: facts(8),
    };
    let welcome = book.decide(&Name::parse(H1).unwrap(), &presence).await.unwrap();
    assert_eq!(welcome, cellshift_nats::Welcome::CannotTell);
    assert!(cell.db.agents().await.unwrap().is_empty());
}

#[actix::test]
async fn a_name_passes_on_by_a_word_and_not_by_silence() {
    let stage = Stage::new().await;
    let cell = stage.cell().await;
    let _actor = stage.controller(&cell).await;
    let (first, _facts) = stage.agent(place(7, 1)).await;
    let life = first.life();
    until_up(&cell).await;
    let answer = first.to_controllers().ask::<_, Reply>(QUESTION, DEADLINE).await.unwrap();
    assert_eq!(answer, Ok(ANSWER));

    // The second agent has the first one's key, and another directory.
    let (second, _others) = stage.agent(place(8, 1)).await;
    let mut admission = second.admission();
    let refused = admission.wait_for(|admission| matches!(admission, Admission::Refused { .. })).await.unwrap().clone();
    assert_eq!(refused, Admission::Refused { by: life });
    let unanswered = second.to_controllers().ask::<_, Reply>(QUESTION, DEADLINE).await;
    assert!(unanswered.is_err(), "{unanswered:?}");

    drop(first);
    until("the first one is silent", || async { matches!(cell.hosts.standing(H1), Standing::Silent { .. }) }).await;
    assert_eq!(*admission.borrow_and_update(), refused, "silence gives the name to nobody");
    let (next, _next_facts) = stage.agent(place(7, 2)).await;
    until_up(&cell).await;
    next.quiesce(Duration::ZERO).await.say_goodbye(LastWord::NoGuestRuns).await;
    until("the second one has the name", || async { *second.admission().borrow() == Admission::Accepted }).await;
    until_up(&cell).await;
}

#[actix::test]
async fn a_new_controller_knows_who_is_silent_and_who_is_off() {
    let stage = Stage::new().await;
    let cell = stage.cell().await;
    let actor = stage.controller(&cell).await;
    let (agent, _facts) = stage.agent(place(7, 1)).await;
    until_up(&cell).await;
    actor.do_send(Shutdown);
    until("the actor has ended", || async { !actor.connected() }).await;

    let anew = |cell: &CellHandle| CellHandle::new(cell.uuid, &cell.name, cell.db.clone(), &stage.world.env);
    let second = anew(&cell);
    stage.parts(&second).await.book().recall().await.unwrap();
    assert!(matches!(second.hosts.standing(H1), Standing::Silent { .. }), "it has not reported to this controller");
    assert!(second.agents.is_discovered(H1));
    let _actor = stage.controller(&second).await;
    until_up(&second).await;
    agent.quiesce(Duration::ZERO).await.say_goodbye(LastWord::NoGuestRuns).await;
    until_off(&second).await;
    let goodbye = || async { cell.db.agent(H1).await.unwrap().unwrap().accepted.unwrap().last_word.is_some() };
    until("the goodbye is written down", goodbye).await;

    let third = anew(&cell);
    stage.parts(&third).await.book().recall().await.unwrap();
    assert_eq!(third.hosts.standing(H1), Standing::Off(OffBy::Host));
}

#[actix::test]
async fn links_outlive_the_actor() {
    let stage = Stage::new().await;
    let cell = stage.cell().await;
    let parts = stage.parts(&cell).await;
    let actor = Agents::new(parts.clone(), None).start();
    let _agent = stage.agent(place(7, 1)).await;
    until_up(&cell).await;
    actor.do_send(Shutdown);
    until("the actor has ended", || async { !actor.connected() }).await;
    let request = |number| stage.world.request(Uuid::from_u128(number), HostCommand::Fence);
    assert_eq!(cell.hosts.request(H1, request(1), DEADLINE).await, Ok(HostReply::Done));
    until("nobody has heard of the host", || async { !cell.hosts.standing(H1).is_up() }).await;
    let _successor = Agents::new(parts, None).start();
    until_up(&cell).await;
}

#[actix::test]
async fn a_removed_host_has_no_link_and_may_come_anew() {
    let stage = Stage::new().await;
    let cell = stage.cell().await;
    let parts = stage.parts(&cell).await;
    let book = parts.book();
    let _actor = Agents::new(parts, None).start();
    let (first, _facts) = stage.agent(place(7, 1)).await;
    until_up(&cell).await;
    drop(first);
    let service = cell.db.service_on(H1, "nova-compute").await.unwrap();
    cell.db.remove_service(service.uuid, H1).await.unwrap();
    book.look_at_records().await.unwrap();
    assert!(cell.hosts.hosts().is_empty() && !cell.agents.is_discovered(H1));
    let _other = stage.agent(place(8, 1)).await;
    until_up(&cell).await;
}
