//! The promises of any link, kept by the link over NATS.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_host::link::suite::{Connection, Harness, all};
use cellshift_host::link::{HostEnd, HostLink};
use cellshift_nats::testkit::Broker;
use cellshift_nats::{HostFacts, HostServer, NatsLink};
use tokio::sync::{Mutex, watch};

use crate::cell::{Controller, agent_with};

/// Connects a controller and an agent over a server of their own.
struct OverNats;

struct Connected {
    link: Arc<NatsLink>,
    agent: Mutex<Option<HostServer>>,
    _facts: watch::Sender<HostFacts>,
    _controller: Controller,
    _broker: Broker,
}

#[async_trait(?Send)]
impl Harness for OverNats {
    async fn connect(&self, end: Arc<dyn HostEnd>) -> Box<dyn Connection> {
        let broker = Broker::start(&["h1"]).await;
        let controller = Controller::start(&broker).await;
        let (agent, facts) = agent_with(&broker, "h1", end).await;
        let link = controller.link_when_up("h1").await;
        Box::new(Connected { link, agent: Mutex::new(Some(agent)), _facts: facts, _controller: controller, _broker: broker })
    }
}

#[async_trait(?Send)]
impl Connection for Connected {
    fn link(&self) -> &dyn HostLink {
        &*self.link
    }

    async fn cut(&self) {
        let agent = self.agent.lock().await.take().expect("an agent that is cut once");
        let controllers = agent.to_controllers();
        agent.quiesce(Duration::ZERO).await;
        // The answer shows that the server knows that nobody listens any more.
        let answer: Result<String, _> = controllers.ask("anything", Duration::from_secs(10)).await;
        answer.expect("an answer");
    }
}

#[tokio::test]
async fn a_link_over_nats_keeps_the_promises_of_a_link() {
    all(&OverNats).await;
}
