//! The rights of the server's users, and TLS.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerError};
use cellshift_env::Env;
use cellshift_host::link::HostLink;
use cellshift_nats::credentials::UserKey;
use cellshift_nats::testkit::Broker;
use cellshift_nats::{Connection, ConnectionOptions};
use parking_lot::Mutex;

use crate::cell::{Agent, Controller, authority, connect, options, request, until};
use crate::link::{ParseName, assert_not_delivered};

const LONG: Duration = Duration::from_secs(30);

/// A client with an agent's key, and the refusals of the server.
struct Intruder {
    client: Client,
    refusals: Arc<Mutex<Vec<String>>>,
}

impl Intruder {
    async fn new(broker: &Broker, host: &str) -> Intruder {
        let refusals = Arc::new(Mutex::new(Vec::new()));
        let noting = refusals.clone();
        let note = move |event| {
            if let Event::ServerError(ServerError::Other(words)) = event {
                noting.lock().push(words);
            }
            std::future::ready(())
        };
        let options = ConnectOptions::new().nkey(broker.agent(host).seed.expose().clone()).event_callback(note);
        Intruder { client: options.connect(format!("nats://{}", broker.address())).await.unwrap(), refusals }
    }

    /// Asserts that the server has refused this, by its words.
    async fn is_refused(&self, what: &str) {
        until(what, || self.refusals.lock().iter().any(|words| words.contains(what))).await;
        self.refusals.lock().clear();
    }
}

#[tokio::test]
async fn an_agent_hears_nothing_of_others() {
    let broker = Broker::start(&["h1", "h2"]).await;
    let (controller, agent) = (Controller::start(&broker).await, Agent::start(&broker, "h1").await);
    let link = controller.link_when_up("h1").await;
    let intruder = Intruder::new(&broker, "h2").await;
    let other = broker.cell.host("h1".parse_name());
    let subjects = [
        other.requests(agent.server.life()),
        other.to_any_life(),
        format!("{}.>", other.inbox()),
        format!("{}.>", broker.cell.inbox()),
        broker.cell.hellos(),
        broker.cell.reports(),
        ">".to_owned(),
        "_INBOX.>".to_owned(),
    ];
    for subject in subjects {
        let _heard = intruder.client.subscribe(subject.clone()).await.unwrap();
        intruder.is_refused(&format!("Permissions Violation for Subscription to \"{subject}\"")).await;
    }
    link.request(request(1), LONG).await.unwrap();
}

#[tokio::test]
async fn an_agent_cannot_speak_as_another() {
    let broker = Broker::start(&["h1", "h2"]).await;
    let (controller, agent) = (Controller::start(&broker).await, Agent::start(&broker, "h1").await);
    controller.link_when_up("h1").await;
    let intruder = Intruder::new(&broker, "h2").await;
    let other = broker.cell.host("h1".parse_name());
    let forged = serde_json::json!({"Gone": {"life": agent.server.life(), "word": "NoGuestRuns"}}).to_string();
    let subjects = [
        other.hello(),
        other.report(),
        other.question(),
        other.requests(agent.server.life()),
        format!("{}.any", broker.cell.inbox()),
        format!("{}.any", other.inbox()),
        broker.cell.roll_call(),
    ];
    for subject in subjects {
        intruder.client.publish(subject.clone(), forged.clone().into()).await.unwrap();
        intruder.is_refused(&format!("Permissions Violation for Publish to \"{subject}\"")).await;
    }
    assert!(controller.directory.goodbyes("h1").is_empty());
    assert!(!controller.link("h1").standing().is_off());
    assert_eq!((agent.end.requests(), agent.end.queries()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_key_that_the_server_does_not_have_is_refused() {
    let broker = Broker::start(&["h1"]).await;
    let stranger = connect(&broker, broker.address(), &UserKey::new().unwrap().seed, broker.cell.inbox()).await;
    let states = stranger.states();
    until("the server refuses", || states.borrow().trouble.as_deref().is_some_and(|words| words.contains("authorization violation"))).await;
    assert!(!stranger.is_connected());
    let controller = Controller::over(&broker, stranger, "stranger").await;
    controller.link("h1").accept(cellshift_nats::Life::new(uuid::Uuid::from_u128(1)));
    assert_not_delivered(controller.link("h1").request(request(1), LONG).await, "authorization violation");
}

#[tokio::test]
async fn a_text_that_is_no_key_is_refused_at_once() {
    let broker = Broker::start(&["h1"]).await;
    let opened = Connection::open(&Env::system(), options(&broker, &"hello".to_owned().into(), broker.cell.inbox())).await;
    assert!(opened.err().unwrap().to_string().contains("the key cannot be read"));
}

#[tokio::test]
async fn tls_is_spoken_by_configuration() {
    let broker = Broker::with_tls(&["h1"]).await;
    let connection = open(&broker, Some(authority())).await;
    let controller = Controller::over(&broker, connection, "controller").await;
    until("the controller is connected", || controller.connection.is_connected()).await;
    let mistrustful = open(&broker, None).await;
    let states = mistrustful.states();
    until("an unknown authority is refused", || states.borrow().trouble.is_some()).await;
    assert!(!mistrustful.is_connected());
}

/// Opens a controller's connection that trusts these authorities.
async fn open(broker: &Broker, authorities: Option<std::path::PathBuf>) -> Arc<Connection> {
    let options = ConnectionOptions { authorities, ..options(broker, &broker.controllers.seed, broker.cell.inbox()) };
    Connection::open(&Env::system(), options).await.unwrap()
}
