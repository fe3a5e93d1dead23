//! The promises of a link, as tests for any link. A link's own tests give a [`Harness`], which connects a controller's end to a host's end;
//! the host's end is a [`ScriptedHost`], whose answers the tests give.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_domain::flavor::{Flavor, Resources};
use cellshift_domain::guest::{DiskSource, GuestSpec};
use cellshift_domain::host_protocol::{HostAnswer, HostCommand, HostQuery, HostReply, HostRequest};
use tokio::sync::{Semaphore, mpsc, oneshot};
use uuid::Uuid;

use super::{Delivered, HostEnd, HostLink};
use crate::lanes::Lanes;
use crate::virt::HostUnreachable;

/// Longer than any link needs on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time after which a controller stops waiting in these tests.
const SHORT: Duration = Duration::from_millis(300);
/// The bytes of a large value. A message may have twice as many.
const LARGE: usize = 256 << 10;

/// A kind of link.
#[async_trait(?Send)]
pub trait Harness {
    /// Connects a controller to a host with this end. Messages pass when this has returned.
    async fn connect(&self, end: Arc<dyn HostEnd>) -> Box<dyn Connection>;
}

/// A link that is connected.
#[async_trait(?Send)]
pub trait Connection {
    /// Returns the controller's end.
    fn link(&self) -> &dyn HostLink;

    /// Ends the host with all that it has in hand. From then on nobody is at the host's end.
    async fn cut(&self);
}

/// A host's end that hands each request and query to the test. It has lanes and places as a host has: it answers a repeated request from
/// memory, lets it join the request at work, and is busy without a free place.
pub struct ScriptedHost {
    lanes: Arc<Lanes>,
    places: Arc<Semaphore>,
    requests: mpsc::UnboundedSender<Arrival<HostRequest, HostReply>>,
    queries: mpsc::UnboundedSender<Arrival<HostQuery, HostAnswer>>,
}

/// A message that has arrived at the host's end.
pub struct Arrival<M, T> {
    /// The message.
    pub message: M,
    /// The channel for the host's word. It is closed when the host's end is polled no more.
    pub word: oneshot::Sender<Delivered<T>>,
}

/// The messages that arrive at a [`ScriptedHost`].
pub struct Arrivals {
    requests: mpsc::UnboundedReceiver<Arrival<HostRequest, HostReply>>,
    queries: mpsc::UnboundedReceiver<Arrival<HostQuery, HostAnswer>>,
}

impl ScriptedHost {
    /// Makes a host that works on so many requests at once.
    pub fn new(places: usize) -> (Arc<ScriptedHost>, Arrivals) {
        let ((requests, arrived_requests), (queries, arrived_queries)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let lanes = Lanes::new(Resources::default(), Vec::new(), Default::default());
        let host = ScriptedHost { lanes, places: Arc::new(Semaphore::new(places)), requests, queries };
        (Arc::new(host), Arrivals { requests: arrived_requests, queries: arrived_queries })
    }
}

/// Hands a message to the test, and waits for the word that the test gives.
async fn ask<M, T>(test: &mpsc::UnboundedSender<Arrival<M, T>>, message: M) -> Delivered<T> {
    let (word, said) = oneshot::channel();
    // A test that has ended says nothing.
    let _ = test.send(Arrival { message, word });
    said.await.unwrap_or(Delivered::CannotTell)
}

#[async_trait]
impl HostEnd for ScriptedHost {
    async fn request(&self, request: HostRequest) -> Delivered<HostReply> {
        let admission = match self.lanes.enter(request.fence, &request.command, &self.places).await {
            Ok(admission) => admission,
            Err(delivered) => return delivered,
        };
        let delivered = ask(&self.requests, request).await;
        if let Delivered::Answered(reply) = &delivered {
            admission.remember(reply);
            admission.publish(reply.clone());
        }
        delivered
    }

    async fn query(&self, query: HostQuery) -> Delivered<HostAnswer> {
        ask(&self.queries, query).await
    }
}

impl Arrivals {
    /// Waits for the next request.
    pub async fn request(&mut self) -> Arrival<HostRequest, HostReply> {
        in_time(self.requests.recv()).await.expect("the host has ended")
    }

    /// Waits for the next query.
    pub async fn query(&mut self) -> Arrival<HostQuery, HostAnswer> {
        in_time(self.queries.recv()).await.expect("the host has ended")
    }

    fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.queries.is_empty()
    }
}

impl<M, T> Arrival<M, T> {
    /// Gives the host's word to the sender, if the sender still waits.
    pub fn say(self, word: Delivered<T>) {
        let _ = self.word.send(word);
    }

    /// Answers the message.
    pub fn answer(self, answer: T) {
        self.say(Delivered::Answered(answer));
    }
}

/// Runs all tests over this kind of link.
pub async fn all(harness: &dyn Harness) {
    a_reply_and_an_answer_come_back(harness).await;
    nobody_there_is_not_delivered_at_once(harness).await;
    a_host_that_dies_with_a_request_is_unknown(harness).await;
    a_host_without_a_place_is_busy(harness).await;
    a_message_of_a_newer_release_is_not_known(harness).await;
    a_late_reply_joins_the_repeated_request(harness).await;
    a_doubled_request_acts_once(harness).await;
    a_query_ends_with_its_asker(harness).await;
    large_values_pass(harness).await;
}

/// A reply and an answer come back to whoever sent the request and the query, in whatever order the host gives them.
pub async fn a_reply_and_an_answer_come_back(harness: &dyn Harness) {
    let (connection, mut arrivals) = connect(harness, 8).await;
    let link = connection.link();
    assert!(link.standing().is_up());
    let (first, second) = (request(1, 1), request(2, 1));
    let script = async {
        let earlier = arrivals.request().await;
        let later = arrivals.request().await;
        let query = arrivals.query().await;
        assert_eq!(query.message, HostQuery::FreeFunctions);
        query.answer(HostAnswer::FreeFunctions(Vec::new()));
        for arrival in [later, earlier] {
            let was_running = arrival.message.fence.server == first.fence.server;
            arrival.answer(HostReply::Stopped { was_running });
        }
    };
    let (one, two, answer, ()) = futures::join!(
        link.request(first.clone(), PATIENCE),
        link.request(second.clone(), PATIENCE),
        link.query(HostQuery::FreeFunctions, PATIENCE),
        script
    );
    assert_eq!(one, Ok(HostReply::Stopped { was_running: true }));
    assert_eq!(two, Ok(HostReply::Stopped { was_running: false }));
    assert_eq!(answer, Ok(HostAnswer::FreeFunctions(Vec::new())));
    assert_eq!(link.at_work(), 0);
}

/// A link without anybody at the host's end says so at once: the message is not delivered, now or later.
pub async fn nobody_there_is_not_delivered_at_once(harness: &dyn Harness) {
    let (connection, arrivals) = connect(harness, 8).await;
    connection.cut().await;
    let began = Instant::now();
    let refused = connection.link().request(request(1, 1), PATIENCE).await;
    assert!(matches!(refused, Err(HostUnreachable::NotDelivered(_))), "{refused:?}");
    let refused = connection.link().query(HostQuery::Summary, PATIENCE).await;
    assert!(matches!(refused, Err(HostUnreachable::NotDelivered(_))), "{refused:?}");
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    assert!(arrivals.is_empty());
}

/// A host that dies with a request leaves it in doubt.
pub async fn a_host_that_dies_with_a_request_is_unknown(harness: &dyn Harness) {
    let (connection, mut arrivals) = connect(harness, 8).await;
    let link = connection.link();
    let death = async {
        let _arrival = arrivals.request().await;
        assert_eq!(link.at_work(), 1);
        connection.cut().await;
    };
    let (died, ()) = futures::join!(link.request(request(1, 1), PATIENCE / 4), death);
    assert!(matches!(died, Err(HostUnreachable::Unknown(_))), "{died:?}");
}

/// A host without a free place is busy, and has surely not done the request. Repeats of a request at work need no place.
pub async fn a_host_without_a_place_is_busy(harness: &dyn Harness) {
    let (connection, mut arrivals) = connect(harness, 1).await;
    let link = connection.link();
    let script = async {
        let arrival = arrivals.request().await;
        assert_eq!(link.request(request(2, 1), PATIENCE).await, Err(HostUnreachable::Busy));
        let repeated = link.request(request(1, 1), SHORT).await;
        assert!(matches!(repeated, Err(HostUnreachable::Unknown(_))), "it joins: {repeated:?}");
        arrival.answer(HostReply::Done);
    };
    let (done, ()) = futures::join!(link.request(request(1, 1), PATIENCE), script);
    assert_eq!(done, Ok(HostReply::Done));
    assert!(arrivals.is_empty(), "what was busy is not done");
    let answer = async { arrivals.request().await.answer(HostReply::Done) };
    let (done, ()) = futures::join!(link.request(request(2, 1), PATIENCE), answer);
    assert_eq!(done, Ok(HostReply::Done), "the place is free again");
}

/// A message that the host's release does not know is refused with the release's name.
pub async fn a_message_of_a_newer_release_is_not_known(harness: &dyn Harness) {
    let (connection, mut arrivals) = connect(harness, 8).await;
    let link = connection.link();
    let release = || "0.0.9".to_owned();
    let script = async {
        arrivals.request().await.say(Delivered::NotKnown { release: release() });
        arrivals.query().await.say(Delivered::NotKnown { release: release() });
    };
    let replies = async { (link.request(request(1, 1), PATIENCE).await, link.query(HostQuery::Summary, PATIENCE).await) };
    let ((reply, answer), ()) = futures::join!(replies, script);
    assert_eq!(reply, Err(HostUnreachable::NotKnown { release: release() }));
    assert_eq!(answer, Err(HostUnreachable::NotKnown { release: release() }));
}

/// A controller that has stopped waiting learns the reply by the same request, which joins the one at work.
pub async fn a_late_reply_joins_the_repeated_request(harness: &dyn Harness) {
    let (connection, mut arrivals) = connect(harness, 8).await;
    let link = connection.link();
    let late = link.request(request(1, 1), SHORT).await;
    assert!(matches!(late, Err(HostUnreachable::Unknown(_))), "{late:?}");
    let arrival = arrivals.request().await;
    let answer = async {
        let again = link.request(request(1, 1), SHORT).await;
        assert!(matches!(again, Err(HostUnreachable::Unknown(_))), "{again:?}");
        arrival.answer(HostReply::Done);
    };
    let (replied, ()) = futures::join!(link.request(request(1, 1), PATIENCE), answer);
    assert_eq!(replied, Ok(HostReply::Done));
    assert_eq!(link.request(request(1, 1), PATIENCE).await, Ok(HostReply::Done), "the reply is remembered");
    assert!(arrivals.is_empty(), "the host has done it once");
}

/// A request that is delivered twice at once acts once, and both senders get the reply.
pub async fn a_doubled_request_acts_once(harness: &dyn Harness) {
    let (connection, mut arrivals) = connect(harness, 8).await;
    let link = connection.link();
    let script = async {
        let arrival = arrivals.request().await;
        assert_eq!(link.at_work(), 1, "the same request counts once");
        arrival.answer(HostReply::Stopped { was_running: true });
    };
    let (first, second, ()) = futures::join!(link.request(request(1, 1), PATIENCE), link.request(request(1, 1), PATIENCE), script);
    assert_eq!((first, second), (Ok(HostReply::Stopped { was_running: true }), Ok(HostReply::Stopped { was_running: true })));
    assert!(arrivals.is_empty());
}

/// A query ends at the host when nobody waits for its answer any more. A query that acts goes on.
pub async fn a_query_ends_with_its_asker(harness: &dyn Harness) {
    let (connection, mut arrivals) = connect(harness, 8).await;
    let link = connection.link();
    let act = HostQuery::ForceComplete { operation: Uuid::nil(), ask: Uuid::from_u128(1) };
    let (late, lasting) = futures::join!(link.query(HostQuery::Summary, SHORT), link.query(act, SHORT));
    assert!(matches!(late, Err(HostUnreachable::Unknown(_))), "{late:?}");
    assert!(matches!(lasting, Err(HostUnreachable::Unknown(_))), "{lasting:?}");
    for _ in 0..2 {
        let mut arrival = arrivals.query().await;
        if arrival.message.acts() {
            assert!(!arrival.word.is_closed(), "an act is not broken off");
        } else {
            in_time(arrival.word.closed()).await;
        }
    }
}

/// Values of hundreds of kibibytes pass in both directions.
pub async fn large_values_pass(harness: &dyn Harness) {
    let (connection, mut arrivals) = connect(harness, 8).await;
    let link = connection.link();
    let large = "x".repeat(LARGE);
    let spec = GuestSpec {
        server: Uuid::from_u128(1),
        instance_name: "instance-00000001".into(),
        flavor: Flavor::default(),
        disks: DiskSource::Kept,
        volumes: Vec::new(),
        vifs: Vec::new(),
        config_drive: serde_json::Value::from(large.clone()),
        sealed: None,
    };
    let sent = HostRequest { command: HostCommand::PrepareGuest { spec: Box::new(spec) }, ..request(1, 1) };
    let script = async {
        let arrival = arrivals.request().await;
        assert!(arrival.message == sent, "the request has arrived whole");
        arrival.answer(HostReply::Done);
        arrivals.query().await.answer(HostAnswer::Console(large.clone()));
    };
    let replies = async {
        let reply = link.request(sent.clone(), PATIENCE).await;
        (reply, link.query(HostQuery::Console { server: Uuid::from_u128(1) }, PATIENCE).await)
    };
    let ((reply, answer), ()) = futures::join!(replies, script);
    assert_eq!(reply, Ok(HostReply::Done));
    assert!(answer == Ok(HostAnswer::Console(large.clone())), "the answer has arrived whole");
}

async fn connect(harness: &dyn Harness, places: usize) -> (Box<dyn Connection>, Arrivals) {
    let (host, arrivals) = ScriptedHost::new(places);
    (harness.connect(host).await, arrivals)
}

fn request(server: u128, attempt: i64) -> HostRequest {
    let fence = Fence { server: Uuid::from_u128(server), epoch: 1, attempt };
    HostRequest::new(fence, fence.server, HostCommand::StopGuest { grace_ms: 0 })
}

/// Waits for what must happen.
async fn in_time<T>(happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, happens).await.expect("nothing happened in time")
}
