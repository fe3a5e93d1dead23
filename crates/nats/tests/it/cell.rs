//! A cell of a test: a controller with its link to each host, and agents with scripted hosts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_domain::flavor::Resources;
use cellshift_domain::host_protocol::{HostCommand, HostQuery, HostRequest};
use cellshift_domain::reason::Reason;
use cellshift_domain::secret::Secret;
use cellshift_env::Env;
use cellshift_host::link::{Delivered, HostEnd, HostLink};
use cellshift_nats::testkit::{Broker, tls_file};
use cellshift_nats::{
    Acceptance, Answers, Arrivals, CellDesk, Connection, ConnectionOptions, Controllers, Hello, HostFacts, HostServer, LastWord, Life,
    Name, NatsLink, Presence, Rhythm, Silence, Welcome,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use uuid::Uuid;

use crate::scripted::ScriptedEnd;

/// The time for everything that must come.
const PATIENCE: Duration = Duration::from_secs(30);
/// The times by which a host without reports is judged.
const SILENCE: Silence = Silence { after: Duration::from_secs(1), self_fence_margin: Duration::from_secs(1) };

/// Times for tests: all that agents do, they do soon.
pub fn quick() -> Rhythm {
    Rhythm {
        report: Duration::from_millis(100),
        hello: Duration::from_millis(500),
        patience: Duration::from_secs(2),
        retry: Duration::from_millis(100),
        refused: Duration::from_millis(100),
        spread: Duration::from_millis(20),
    }
}

/// Returns when the condition holds.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let holds = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, holds).await.unwrap_or_else(|_| panic!("within {PATIENCE:?}: {what}"));
}

/// A request; those with different numbers differ.
pub fn request(number: i64) -> HostRequest {
    let fence = Fence { server: Uuid::from_u128(7), epoch: 1, attempt: number };
    HostRequest::new(fence, Uuid::from_u128(8), HostCommand::StopGuest { grace_ms: 0 })
}

/// A query that nothing but the number tells from others.
pub fn query(number: u32) -> HostQuery {
    HostQuery::TypeLine { server: Uuid::from_u128(7), line: number.to_string(), ask: Uuid::from_u128(number.into()) }
}

/// Opens a connection to a server, through a proxy if the address is the proxy's.
pub async fn connect(broker: &Broker, address: SocketAddr, seed: &Secret<String>, inbox: String) -> Arc<Connection> {
    let options = ConnectionOptions { servers: vec![format!("nats://{address}")], ..options(broker, seed, inbox) };
    Connection::open(&Env::system(), options).await.unwrap()
}

/// Returns the options of a connection.
pub fn options(broker: &Broker, seed: &Secret<String>, inbox: String) -> ConnectionOptions {
    ConnectionOptions {
        servers: vec![format!("nats://{}", broker.address())],
        seed: Some(seed.clone()),
        authorities: None,
        name: "test".to_owned(),
        inbox,
        ping_interval: Duration::from_secs(5),
    }
}

/// Returns the file of the authority that has signed the certificate of [`Broker::with_tls`].
pub fn authority() -> std::path::PathBuf {
    tls_file("authority.pem")
}

/// A controller with a directory in its memory.
pub struct Controller {
    pub connection: Arc<Connection>,
    pub directory: Arc<Directory>,
    _controllers: Controllers,
}

impl Controller {
    pub async fn start(broker: &Broker) -> Controller {
        let connection = connect(broker, broker.address(), &broker.controllers.seed, broker.cell.inbox()).await;
        Controller::over(broker, connection, "controller").await
    }

    /// Starts a controller that answers questions with its name.
    pub async fn over(broker: &Broker, connection: Arc<Connection>, name: &str) -> Controller {
        let directory = Arc::new(Directory {
            name: name.to_owned(),
            broker_cell: broker.cell.clone(),
            connection: connection.clone(),
            hosts: Mutex::default(),
            questions: Mutex::default(),
        });
        let desk: CellDesk<String, String> =
            CellDesk { acceptance: directory.clone(), arrivals: directory.clone(), answers: directory.clone() };
        let controllers = Controllers::start(connection.clone(), broker.cell.clone(), desk).await.unwrap();
        Controller { connection, directory, _controllers: controllers }
    }

    /// Returns the link to a host.
    pub fn link(&self, host: &str) -> Arc<NatsLink> {
        self.directory.link(&Name::parse(host).unwrap())
    }

    /// Returns the link to a host when its agent takes requests.
    pub async fn link_when_up(&self, host: &str) -> Arc<NatsLink> {
        let link = self.link(host);
        until("the agent is up", || link.standing().is_up()).await;
        link
    }
}

/// A controller and an agent of the host `h1` at one server, and the link between them.
pub struct Linked {
    pub broker: Broker,
    pub controller: Controller,
    pub agent: Agent,
    pub link: Arc<NatsLink>,
}

impl Linked {
    /// Starts them, and returns when the agent takes requests.
    pub async fn start() -> Linked {
        let broker = Broker::start(&["h1"]).await;
        let (controller, agent) = (Controller::start(&broker).await, Agent::start(&broker, "h1").await);
        let link = controller.link_when_up("h1").await;
        Linked { broker, controller, agent, link }
    }
}

/// The agents that a controller knows.
pub struct Directory {
    name: String,
    broker_cell: cellshift_nats::CellAddress,
    connection: Arc<Connection>,
    hosts: Mutex<BTreeMap<Name, AgentRecord>>,
    questions: Mutex<Vec<(Name, String)>>,
}

#[derive(Default)]
struct AgentRecord {
    accepted: Option<Life>,
    link: Option<Arc<NatsLink>>,
    reports: Vec<Presence>,
    goodbyes: Vec<LastWord>,
}

impl Directory {
    fn link(&self, host: &Name) -> Arc<NatsLink> {
        let address = self.broker_cell.host(host.clone());
        let new = || Arc::new(NatsLink::new(Env::system(), self.connection.clone(), address, SILENCE));
        self.hosts.lock().entry(host.clone()).or_default().link.get_or_insert_with(new).clone()
    }

    /// Returns the reports of a host's agent.
    pub fn reports(&self, host: &str) -> Vec<Presence> {
        self.of(host, |record| record.reports.clone())
    }

    /// Returns the goodbyes of a host's agent that were written down.
    pub fn goodbyes(&self, host: &str) -> Vec<LastWord> {
        self.of(host, |record| record.goodbyes.clone())
    }

    /// Returns the questions that this controller has answered.
    pub fn questions(&self) -> Vec<(Name, String)> {
        self.questions.lock().clone()
    }

    fn of<T>(&self, host: &str, value: impl Fn(&AgentRecord) -> T) -> T {
        value(self.hosts.lock().entry(Name::parse(host).unwrap()).or_default())
    }
}

#[async_trait]
impl Acceptance for Directory {
    async fn accept(&self, host: &Name, presence: &Presence) -> Welcome {
        let accepted = *self.hosts.lock().entry(host.clone()).or_default().accepted.get_or_insert(presence.life);
        match accepted == presence.life {
            true => {
                self.link(host).accept(accepted);
                Welcome::Accepted
            }
            false => Welcome::Taken { by: accepted, heard: Env::system().now() },
        }
    }

    async fn release(&self, host: &Name, life: Life, word: LastWord) -> Result<(), Reason> {
        let mut hosts = self.hosts.lock();
        let record = hosts.entry(host.clone()).or_default();
        if record.accepted == Some(life) {
            record.accepted = None;
            record.goodbyes.push(word);
        }
        Ok(())
    }
}

impl Arrivals for Directory {
    fn here(&self, host: &Name, presence: Presence) {
        let link = self.link(host);
        if !link.hear(presence.life) && link.life().is_none() {
            // Another controller has accepted it.
            link.accept(presence.life);
        }
        self.hosts.lock().entry(host.clone()).or_default().reports.push(presence);
    }

    fn gone(&self, host: &Name, life: Life, word: LastWord) {
        self.link(host).dismiss(life, word);
    }
}

#[async_trait]
impl Answers<String, String> for Directory {
    async fn answer(&self, host: &Name, _: Life, question: String) -> Delivered<String> {
        if question == "hold" {
            return Delivered::CannotTell;
        }
        self.questions.lock().push((host.clone(), question));
        Delivered::Answered(self.name.clone())
    }
}

/// An agent with a scripted host.
pub struct Agent {
    pub server: HostServer,
    pub end: Arc<ScriptedEnd>,
    pub facts: watch::Sender<HostFacts>,
    pub connection: Arc<Connection>,
}

impl Agent {
    pub async fn start(broker: &Broker, host: &str) -> Agent {
        Agent::with(broker, broker.address(), host, quick()).await
    }

    pub async fn with(broker: &Broker, address: SocketAddr, host: &str, rhythm: Rhythm) -> Agent {
        let connection = agent_connection(broker, address, host).await;
        let (facts, end) = (watch::Sender::new(facts(8)), Arc::new(ScriptedEnd::new()));
        let server = serve(broker, connection.clone(), host, (rhythm, facts.subscribe()), end.clone()).await;
        Agent { server, end, facts, connection }
    }
}

/// Opens the connection of a host's agent.
async fn agent_connection(broker: &Broker, address: SocketAddr, host: &str) -> Arc<Connection> {
    connect(broker, address, &broker.agent(host).seed, broker.cell.host(Name::parse(host).unwrap()).inbox()).await
}

/// Begins the life of an agent with this host's end.
async fn serve(
    broker: &Broker,
    connection: Arc<Connection>,
    host: &str,
    (rhythm, facts): (Rhythm, watch::Receiver<HostFacts>),
    end: Arc<dyn HostEnd>,
) -> HostServer {
    let place = broker.cell.host(Name::parse(host).unwrap());
    let env = Env::system();
    let hello = Hello { life: env.uuid(), place: None, self_fence: None };
    HostServer::start(env, connection, place, hello, rhythm, facts, end).await.unwrap()
}

/// Starts an agent with this host's end, and returns it with the sender of its facts.
pub async fn agent_with(broker: &Broker, host: &str, end: Arc<dyn HostEnd>) -> (HostServer, watch::Sender<HostFacts>) {
    let (connection, facts) = (agent_connection(broker, broker.address(), host).await, watch::Sender::new(facts(8)));
    (serve(broker, connection, host, (quick(), facts.subscribe()), end).await, facts)
}

/// Returns facts with this number of processors.
pub fn facts(vcpu: i64) -> HostFacts {
    let capacity = Resources { vcpu, memory_mb: 16_384, disk_gb: 100 };
    HostFacts { driver: "simulated".to_owned(), capacity, traits: vec!["COMPUTE_NODE".to_owned()], functions: Vec::new() }
}
