//! A controller that accepts each agent, and has no records.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift::domain::host_protocol::{HostQuestion, NeighbourError, QuestionAnswer};
use cellshift::domain::reason::Reason;
use cellshift::env::Env;
use cellshift_host::link::Delivered;
use cellshift_nats::testkit::Broker;
use cellshift_nats::{
    Acceptance, Answers, Arrivals, CellDesk, Connection, ConnectionOptions, Controllers, LastWord, Life, Name, NatsLink, Presence, Silence,
    Welcome,
};
use tokio::sync::watch;

use crate::stage::{PATIENCE, soon, url_of};

/// The pause between two looks whether the server answers.
const PING_INTERVAL: Duration = Duration::from_secs(3);

/// No host of the bench falls silent.
const SILENCE: Silence = Silence { after: PATIENCE, self_fence_margin: PATIENCE };

/// The controller.
pub struct Controller {
    connection: Arc<Connection>,
    desk: Arc<Desk>,
    _controllers: Controllers,
}

impl Controller {
    /// Connects, and accepts agents from now on.
    pub async fn start(broker: &Broker) -> Controller {
        let options = ConnectionOptions {
            servers: vec![url_of(broker)],
            seed: Some(broker.controllers.seed.clone()),
            authorities: None,
            name: "controller".to_owned(),
            inbox: broker.cell.inbox(),
            ping_interval: PING_INTERVAL,
        };
        let connection = Connection::open(&Env::system(), options).await.expect("a connection");
        let desk = Arc::new(Desk { lives: watch::Sender::default() });
        let parts: CellDesk<HostQuestion, Answer> = CellDesk { acceptance: desk.clone(), arrivals: desk.clone(), answers: desk.clone() };
        let controllers = Controllers::start(connection.clone(), broker.cell.clone(), parts).await.expect("subscriptions");
        Controller { connection, desk, _controllers: controllers }
    }

    /// Waits for a host's agent, and returns the link to it.
    pub async fn link(&self, broker: &Broker, host: &str) -> NatsLink {
        let name = Name::parse(host).expect("a name");
        let mut lives = self.desk.lives.subscribe();
        let arrived = soon("the agent has said hello", lives.wait_for(|lives| lives.contains_key(&name))).await;
        let life = arrived.expect("the desk lives")[&name];
        let link = NatsLink::new(Env::system(), self.connection.clone(), broker.cell.host(name), SILENCE);
        link.accept(life);
        link
    }
}

type Answer = Result<QuestionAnswer, NeighbourError>;

/// The accepted lives.
struct Desk {
    lives: watch::Sender<BTreeMap<Name, Life>>,
}

#[async_trait]
impl Acceptance for Desk {
    async fn accept(&self, host: &Name, presence: &Presence) -> Welcome {
        self.lives.send_modify(|lives| {
            lives.insert(host.clone(), presence.life);
        });
        Welcome::Accepted
    }

    async fn release(&self, _: &Name, _: Life, _: LastWord) -> Result<(), Reason> {
        Ok(())
    }
}

impl Arrivals for Desk {
    fn here(&self, _: &Name, _: Presence) {}

    fn gone(&self, _: &Name, _: Life, _: LastWord) {}
}

#[async_trait]
impl Answers<HostQuestion, Answer> for Desk {
    /// A host without guests asks nothing that matters.
    async fn answer(&self, _: &Name, _: Life, _: HostQuestion) -> Delivered<Answer> {
        Delivered::CannotTell
    }
}
