//! Requests and queries while the server is gone, the network is cut, or nobody is there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cellshift_domain::host_protocol::{HostAnswer, HostReply};
use cellshift_domain::standing::Standing;
use cellshift_env::Env;
use cellshift_host::link::HostLink;
use cellshift_nats::testkit::Broker;
use cellshift_nats::testkit::proxy::{Proxy, Way};
use cellshift_nats::{Connection, ConnectionOptions, Life, NatsLink};
use uuid::Uuid;

use crate::cell::{Agent, Controller, Linked, options, query, quick, request, until};
use crate::link::{assert_not_delivered, assert_unknown};
use crate::scripted::Mood;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(150);
/// The intervals between a controller's pings: so that it notices a cut soon, and so that it does not within a test.
const SOON: Duration = Duration::from_millis(300);
const SELDOM: Duration = Duration::from_secs(5);
/// An answer within this time did not wait for anybody's patience.
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_request_that_nobody_hears_is_not_delivered() {
    let broker = Broker::start(&["h1"]).await;
    let controller = Controller::start(&broker).await;
    until("the controller is connected", || controller.connection.is_connected()).await;
    let (link, began) = (controller.link("h1"), Instant::now());
    assert_not_delivered(link.request(request(1), LONG).await, "has not said hello");
    link.accept(Life::new(Uuid::from_u128(1)));
    assert!(link.standing().is_up());
    assert_not_delivered(link.request(request(1), LONG).await, "its agent has no connection");
    assert!(began.elapsed() < AT_ONCE);
    assert!(matches!(link.standing(), Standing::Silent { .. }), "silent, and not off: its guests may run");
}

#[tokio::test]
async fn without_a_server_nothing_is_delivered_then_or_later() {
    let Linked { mut broker, controller, agent, link } = Linked::start().await;
    broker.kill();
    until("the controller knows", || !controller.connection.is_connected()).await;
    let began = Instant::now();
    for number in 0..100 {
        assert_not_delivered(link.request(request(number), LONG).await, "no connection to the cell's NATS");
        assert_not_delivered(link.query(query(1), LONG).await, "no connection to the cell's NATS");
    }
    assert!(began.elapsed() < AT_ONCE);
    until("the host counts as silent", || matches!(link.standing(), Standing::Silent { .. })).await;
    broker.start_again().await;
    until("the agent is up again", || link.standing().is_up() && controller.connection.is_connected()).await;
    assert_eq!(link.request(request(200), LONG).await, Ok(HostReply::Done));
    assert_eq!(link.query(query(200), LONG).await, Ok(HostAnswer::Typed));
    assert_eq!((agent.end.requests(), agent.end.queries()), (vec![request(200)], vec![query(200)]));
}

#[tokio::test]
async fn a_request_in_flight_survives_a_restart_of_the_server() {
    let Linked { mut broker, controller: _controller, agent, link } = Linked::start().await;
    agent.end.set(Mood::Holds);
    let kill = async {
        until("the request is at work", || agent.end.requests().len() == 1).await;
        broker.kill();
    };
    let began = Instant::now();
    let (outcome, ()) = tokio::join!(link.request(request(1), LONG), kill);
    assert_unknown(outcome, "lost before the answer came");
    assert!(began.elapsed() < AT_ONCE, "nobody waits for an answer that cannot come");
    broker.start_again().await;
    let joined = async {
        loop {
            match link.request(request(1), SHORT).await {
                Err(cellshift_host::virt::HostUnreachable::NotDelivered(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                outcome => return outcome,
            }
        }
    };
    assert_unknown(joined.await, "no answer came");
    assert_eq!(agent.end.requests(), [request(1)], "the repeated request has joined the one at work");
    agent.end.set(Mood::Answers);
    until("it ends", || agent.end.ended() == 1).await;
}

#[tokio::test]
async fn after_a_short_cut_late_requests_come_and_late_queries_do_not() {
    let world = Proxied::start(SELDOM).await;
    let Proxied { proxy, agent, link, .. } = &world;
    // The host learns from a first query how long a message takes.
    assert_eq!(link.query(query(1), LONG).await, Ok(HostAnswer::Typed));
    proxy.cut(&[Way::ToServer, Way::FromServer]);
    assert_unknown(link.query(query(2), SHORT).await, "no answer came");
    assert_unknown(link.request(request(1), SHORT * 2).await, "no answer came");
    proxy.heal();
    assert_eq!(link.query(query(3), LONG).await, Ok(HostAnswer::Typed));
    until("the late request arrives", || agent.end.requests() == [request(1)]).await;
    assert_eq!(agent.end.queries(), [query(1), query(3)]);
    assert_eq!(agent.server.late_queries(), 1);
}

#[tokio::test]
async fn during_a_long_cut_nothing_is_delivered_then_or_later() {
    let world = Proxied::start(SOON).await;
    let Proxied { proxy, controller, agent, link, .. } = &world;
    proxy.cut(&[Way::ToServer, Way::FromServer]);
    until("the controller knows", || !controller.connection.is_connected()).await;
    assert_not_delivered(link.request(request(1), LONG).await, "no connection");
    assert_not_delivered(link.query(query(1), LONG).await, "no connection");
    proxy.heal();
    until("the controller is back", || controller.connection.is_connected()).await;
    controller.link_when_up("h1").await;
    assert_eq!(link.request(request(2), LONG).await, Ok(HostReply::Done));
    assert_eq!(link.query(query(2), LONG).await, Ok(HostAnswer::Typed));
    assert_eq!((agent.end.requests(), agent.end.queries()), (vec![request(2)], vec![query(2)]));
}

#[tokio::test]
async fn a_lost_reply_leaves_a_done_request_unknown() {
    let world = Proxied::start(SELDOM).await;
    let Proxied { proxy, agent, link, .. } = &world;
    proxy.cut(&[Way::FromServer]);
    let done = until("the host does it", || agent.end.ended() == 1);
    let (outcome, ()) = tokio::join!(link.request(request(1), SHORT * 4), done);
    assert_unknown(outcome, "no answer came");
    proxy.heal();
    assert_eq!(link.request(request(2), LONG).await, Ok(HostReply::Done), "the late reply confuses nobody");
}

#[tokio::test]
async fn an_agent_that_was_cut_off_says_hello_again() {
    let broker = Broker::start(&["h1"]).await;
    let proxy = Proxy::before(broker.address());
    let controller = Controller::start(&broker).await;
    let agent = Agent::with(&broker, proxy.address(), "h1", quick()).await;
    let link = controller.link_when_up("h1").await;
    proxy.cut(&[Way::ToServer, Way::FromServer]);
    until("the host counts as silent", || matches!(link.standing(), Standing::Silent { .. })).await;
    assert!(!link.standing().is_off(), "its guests may run");
    proxy.heal();
    controller.link_when_up("h1").await;
    assert_eq!(link.life(), Some(agent.server.life()));
    assert_eq!(link.request(request(1), LONG).await, Ok(HostReply::Done));
}

/// A controller that reaches the server through a proxy, an agent that does not, and the link between them.
struct Proxied {
    _broker: Broker,
    proxy: Proxy,
    controller: Controller,
    agent: Agent,
    link: Arc<NatsLink>,
}

impl Proxied {
    /// Starts them. The controller notices a cut after about two such intervals.
    async fn start(ping_interval: Duration) -> Proxied {
        let broker = Broker::start(&["h1"]).await;
        let proxy = Proxy::before(broker.address());
        let options = options(&broker, &broker.controllers.seed, broker.cell.inbox());
        let servers = vec![format!("nats://{}", proxy.address())];
        let connection = Connection::open(&Env::system(), ConnectionOptions { servers, ping_interval, ..options }).await.unwrap();
        let controller = Controller::over(&broker, connection, "controller").await;
        let agent = Agent::start(&broker, "h1").await;
        let link = controller.link_when_up("h1").await;
        Proxied { _broker: broker, proxy, controller, agent, link }
    }
}
