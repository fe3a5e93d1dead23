//! The controllers' end: it receives the hellos, reports, goodbyes and questions of all hosts of a cell. Hellos and questions reach one of
//! the controllers, reports and goodbyes reach all.

use std::sync::Arc;

use async_nats::{Message, Subscriber};
use async_trait::async_trait;
use bytes::Bytes;
use cellshift_domain::reason::Reason;
use cellshift_host::link::Delivered;
use futures::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::connection::{Connection, ConnectionError};
use crate::presence::{LastWord, Presence, Sign, Welcome};
use crate::questions::Question;
use crate::subjects::{CellAddress, Life, Name};
use crate::wire::{RELEASE, Stamp, decode, encode, encode_answer};

/// The maximum number of hellos, and of questions, that a controller answers at once. Further ones wait.
const AT_ONCE: usize = 64;

/// Decides which life of an agent the controllers accept. All controllers of a cell must decide alike: by one compare-and-set where all of
/// them look.
#[async_trait]
pub trait Acceptance: Send + Sync {
    /// Accepts the life if the host has none, or has this one already.
    async fn accept(&self, host: &Name, presence: &Presence) -> Welcome;

    /// Writes down the last word of a life. Nothing changes if it is not the accepted one. Fails with the reason if it could not be
    /// written.
    async fn release(&self, host: &Name, life: Life, word: LastWord) -> Result<(), Reason>;
}

/// Learns of the agents' reports and goodbyes. Every controller gets each of them; the order of those of one host is kept. The calls must
/// not wait.
pub trait Arrivals: Send + Sync {
    /// The host's agent reports. Only agents that have been accepted do, but this life may have been overtaken since.
    fn here(&self, host: &Name, presence: Presence);

    /// The host's agent has said goodbye.
    fn gone(&self, host: &Name, life: Life, word: LastWord);
}

/// Answers the questions of agents.
#[async_trait]
pub trait Answers<Q, A>: Send + Sync {
    /// Answers a question of this life of the host's agent.
    async fn answer(&self, host: &Name, life: Life, question: Q) -> Delivered<A>;
}

/// The parts that receive what agents send.
pub struct CellDesk<Q, A> {
    /// Decides on hellos.
    pub acceptance: Arc<dyn Acceptance>,
    /// Learns of reports and goodbyes.
    pub arrivals: Arc<dyn Arrivals>,
    /// Answers questions.
    pub answers: Arc<dyn Answers<Q, A>>,
}

/// Receives what the agents of a cell send, until it is dropped.
pub struct Controllers {
    _tasks: JoinSet<()>,
}

impl Controllers {
    /// Begins to receive, and asks all agents for a report after each connect.
    pub async fn start<Q, A>(connection: Arc<Connection>, cell: CellAddress, desk: CellDesk<Q, A>) -> Result<Controllers, ConnectionError>
    where
        Q: DeserializeOwned + Send + 'static,
        A: Serialize + Send + 'static,
    {
        let hellos = connection.share(cell.hellos()).await?;
        let questions = connection.share(cell.questions()).await?;
        let reports = connection.subscribe(cell.reports()).await?;
        let mut tasks = JoinSet::new();
        let (acceptance, replies) = (desk.acceptance, connection.clone());
        tasks.spawn(each(hellos, move |message| greet(replies.clone(), acceptance.clone(), message)));
        let (answers, replies) = (desk.answers, connection.clone());
        tasks.spawn(each(questions, move |message| answer(replies.clone(), answers.clone(), message)));
        tasks.spawn(hear(reports, desk.arrivals));
        tasks.spawn(call_the_roll(connection, cell));
        Ok(Controllers { _tasks: tasks })
    }
}

/// Handles each message in a task of its own, a bounded number at once.
async fn each<F: Future<Output = ()> + Send + 'static>(mut messages: Subscriber, handle: impl Fn(Message) -> F) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(message) = messages.next().await {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let handled = handle(message);
        tokio::spawn(async move {
            let _permit = permit;
            handled.await;
        });
    }
}

/// Answers a hello, or writes a goodbye down.
async fn greet(connection: Arc<Connection>, acceptance: Arc<dyn Acceptance>, message: Message) {
    let Some((host, sign)) = sign_of(&message) else { return };
    let welcome = match sign {
        Sign::Here(presence) => acceptance.accept(&host, &presence).await,
        Sign::Gone { life, word } => match acceptance.release(&host, life, word).await {
            Ok(()) => Welcome::Accepted,
            Err(reason) => {
                log::warn!(host = host.as_str(); "the agent's goodbye is not written down: {reason}");
                Welcome::CannotTell
            }
        },
    };
    let Some(reply_to) = message.reply else { return };
    let sent = match encode(&welcome) {
        Ok(payload) => connection.publish(reply_to.into_string(), payload).await,
        Err(reason) => Err(reason),
    };
    if let Err(reason) = sent {
        log::debug!(host = host.as_str(); "a hello was not answered: {reason}");
    }
}

/// Passes reports and goodbyes on, in their order.
async fn hear(mut reports: Subscriber, arrivals: Arc<dyn Arrivals>) {
    while let Some(message) = reports.next().await {
        match sign_of(&message) {
            Some((host, Sign::Here(presence))) => arrivals.here(&host, presence),
            Some((host, Sign::Gone { life, word })) => arrivals.gone(&host, life, word),
            None => {}
        }
    }
}

/// Answers a question.
async fn answer<Q: DeserializeOwned, A: Serialize>(connection: Arc<Connection>, answers: Arc<dyn Answers<Q, A>>, message: Message) {
    let (Some(host), Some(reply_to)) = (CellAddress::sender(&message.subject), message.reply) else { return };
    let stamp = Stamp::read(message.headers.as_ref());
    let answer = match stamp.and_then(|_| decode::<Question<Q>>(&message.payload)) {
        Some(question) => answers.answer(&host, question.life, question.question).await,
        None => {
            log::warn!(host = host.as_str(); "the agent asks what this release does not know");
            Delivered::NotKnown { release: RELEASE.to_owned() }
        }
    };
    if let Err(reason) = connection.publish(reply_to.into_string(), encode_answer(answer)).await {
        log::debug!(host = host.as_str(); "a question was not answered: {reason}");
    }
}

/// Asks all agents for a report after each connect: this controller may have missed any number of them.
async fn call_the_roll(connection: Arc<Connection>, cell: CellAddress) {
    let mut connects = 0;
    loop {
        connection.wait_for(|state| state.connected && state.connects != connects).await;
        connects = connection.states().borrow().connects;
        if let Err(reason) = connection.publish(cell.roll_call(), Bytes::new()).await {
            log::debug!("the agents were not asked for their reports: {reason}");
        }
    }
}

/// Returns a hello, a report or a goodbye with its host; none, with a line in the log, if this release does not know it.
fn sign_of(message: &Message) -> Option<(Name, Sign)> {
    let host = CellAddress::sender(&message.subject)?;
    let sign = decode(&message.payload);
    if sign.is_none() {
        log::warn!(host = host.as_str(); "the agent says what this release does not know");
    }
    Some((host, sign?))
}
