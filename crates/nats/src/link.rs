//! A controller's end of the link to one host over NATS.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Message;
use async_trait::async_trait;
use cellshift_domain::agent::Renewal;
use cellshift_domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_domain::standing::{OffBy, Standing};
use cellshift_env::Env;
use cellshift_host::link::{AtWork, HostLink, LONGEST_PATIENCE};
use cellshift_host::virt::HostUnreachable;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::connection::{Connection, Unanswered};
use crate::presence::LastWord;
use crate::promise::Promise;
use crate::subjects::{HostAddress, Life};
use crate::wire::{Answer, MESSAGE_MAX, decode, encode, release_of};

/// The times by which a controller judges a host that does not report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Silence {
    /// The time without a report after which the host is silent.
    pub after: Duration,
    /// The time that is added to an agent's promise to stop its guests itself, before the host is off: the agent notices a moment later that its
    /// time is over, and its guests take a while to stop.
    pub self_fence_margin: Duration,
}

/// A controller's end of the link to one host. It sends to the life of the agent that the controllers have accepted, and to no other. The
/// owner of the link tells it of the agent's hellos, reports and goodbye, which [`crate::Controllers`] receives.
pub struct NatsLink {
    env: Env,
    connection: Arc<Connection>,
    address: HostAddress,
    silence: Silence,
    agent: Mutex<Agent>,
    at_work: AtWork,
}

/// The agent as this controller knows it.
struct Agent {
    /// The accepted life, also after its end; none before the first.
    life: Option<Life>,
    /// Its promise by the records, as far as they have been seen.
    promise: Option<Promise>,
    sign: Sign,
    /// The moment of the last sign.
    moment: DateTime<Utc>,
}

/// The last sign of the agent.
enum Sign {
    /// There was none since this controller started.
    None,
    /// The agent reported, at this moment of the monotonic clock.
    Report(Instant),
    /// Nobody listened to the agent's subjects.
    Absence,
    /// The agent said goodbye.
    Goodbye(LastWord),
}

impl NatsLink {
    /// Makes the link to a host whose agent has not been heard of. Without reports the host is judged by these times.
    pub fn new(env: Env, connection: Arc<Connection>, address: HostAddress, silence: Silence) -> NatsLink {
        let agent = Mutex::new(Agent { life: None, promise: None, sign: Sign::None, moment: env.now() });
        NatsLink { env, connection, address, silence, agent, at_work: AtWork::default() }
    }

    /// Notes that this life of the agent has been accepted and has just reported. From now on requests go to it.
    pub fn accept(&self, life: Life) {
        *self.agent.lock() = Agent { life: Some(life), promise: None, sign: Sign::Report(Instant::now()), moment: self.env.now() };
    }

    /// Notes the last renewal of this life's word in the records, which have just been read or written. Nothing changes if it is not the accepted
    /// life, or has said goodbye: an agent that has ended keeps no promise.
    pub fn recorded(&self, life: Life, renewal: Renewal) {
        let mut agent = self.agent.lock();
        if agent.life == Some(life) && !matches!(agent.sign, Sign::Goodbye(_)) {
            agent.promise = Some(Promise::seen(agent.promise, renewal));
        }
    }

    /// Takes the accepted life from the records, with the moment at which it was last heard of, and its last word if it has ended. The host is
    /// silent until it reports, or off by its word. Nothing changes if the link has had a sign of this life.
    pub fn recall(&self, life: Life, heard_at: DateTime<Utc>, word: Option<LastWord>) {
        let mut agent = self.agent.lock();
        if agent.life != Some(life) {
            *agent = Agent { life: Some(life), promise: None, sign: word.map_or(Sign::None, Sign::Goodbye), moment: heard_at };
        }
    }

    /// Notes a report of this life. False if it is not the accepted life, or has said goodbye: then nothing changes.
    pub fn hear(&self, life: Life) -> bool {
        let mut agent = self.agent.lock();
        let is_accepted = agent.life == Some(life) && !matches!(agent.sign, Sign::Goodbye(_));
        if is_accepted {
            (agent.sign, agent.moment) = (Sign::Report(Instant::now()), self.env.now());
        }
        is_accepted
    }

    /// Notes the goodbye of this life. Nothing changes if it is not the accepted life.
    pub fn dismiss(&self, life: Life, word: LastWord) {
        let mut agent = self.agent.lock();
        if agent.life == Some(life) {
            agent.promise = None;
            (agent.sign, agent.moment) = (Sign::Goodbye(word), self.env.now());
        }
    }

    /// Returns the accepted life of the agent, also after its end.
    pub fn life(&self) -> Option<Life> {
        self.agent.lock().life
    }

    /// Sends a message to the accepted life, and returns its answer.
    async fn send<M: Serialize, T: DeserializeOwned>(
        &self,
        subject: fn(&HostAddress, Life) -> String,
        message: &M,
        patience: Duration,
    ) -> Result<T, HostUnreachable> {
        let life = self.life().ok_or_else(|| HostUnreachable::NotDelivered(reason!("its agent has not said hello")))?;
        // Its agent takes no messages, and on a cut network nobody would say so before the time of the message is over.
        if let Standing::Off(OffBy::SelfFence { .. }) = self.standing() {
            return Err(HostUnreachable::NotDelivered(reason!("its agent has stopped its guests, and takes no messages")));
        }
        let payload = encode(message).map_err(HostUnreachable::NotDelivered)?;
        match self.connection.ask(subject(&self.address, life), payload, patience.min(LONGEST_PATIENCE)).await {
            Ok(answer) => outcome(&answer),
            Err(Unanswered::NobodyListens) => {
                self.note_absence(life);
                Err(HostUnreachable::NotDelivered(reason!("its agent has no connection to the cell's NATS")))
            }
            Err(Unanswered::NotDelivered(reason)) => Err(HostUnreachable::NotDelivered(reason)),
            Err(Unanswered::Unknown(reason)) => Err(HostUnreachable::Unknown(reason)),
        }
    }

    /// Returns the cause of the silence of a host.
    fn why_silent(&self, agent: &Agent) -> Reason {
        match agent.sign {
            Sign::None if agent.life.is_some() => reason!("its agent has not reported since this controller started"),
            Sign::None => reason!("its agent has not said hello"),
            Sign::Report(_) if !self.connection.is_connected() => reason!("there is no connection to the cell's NATS"),
            Sign::Report(_) => reason!("its agent has not reported for more than {} s", self.silence.after.as_secs()),
            Sign::Absence => reason!("its agent has no connection to the cell's NATS"),
            Sign::Goodbye(_) => reason!("its agent has ended, and its guests go on"),
        }
    }

    /// Adds the promise of the agent to the cause of its silence.
    fn with_promise(&self, agent: &Agent, reason: Reason) -> Reason {
        match agent.promise.and_then(|promise| promise.off_after(self.silence.self_fence_margin)) {
            Some(time) => reason!("{reason}; it counts as off once its agent has not renewed its word for {} s", time.as_secs()),
            None => reason,
        }
    }

    /// Notes that nobody listens for this life although NATS is there: the agent is gone, or cut off.
    fn note_absence(&self, life: Life) {
        let mut agent = self.agent.lock();
        if agent.life == Some(life) && matches!(agent.sign, Sign::Report(_)) {
            // The moment stays: an operator's word may have come between the last report and this.
            agent.sign = Sign::Absence;
        }
    }
}

#[async_trait]
impl HostLink for NatsLink {
    async fn request(&self, request: HostRequest, patience: Duration) -> Result<HostReply, HostUnreachable> {
        let _counted = self.at_work.count(request.fence);
        self.send(HostAddress::requests, &request, patience).await
    }

    async fn query(&self, query: HostQuery, patience: Duration) -> Result<HostAnswer, HostUnreachable> {
        self.send(HostAddress::queries, &query, patience).await
    }

    fn standing(&self) -> Standing {
        let agent = self.agent.lock();
        let silent = |reason: Reason| Standing::Silent { since: agent.moment, reason };
        match &agent.sign {
            Sign::Report(moment) if moment.elapsed() < self.silence.after => Standing::Up,
            Sign::Goodbye(LastWord::NoGuestRuns) => Standing::Off(OffBy::Host),
            _ => match agent.promise.and_then(|promise| promise.kept_since(self.silence.self_fence_margin)) {
                Some(heard_at) => Standing::Off(OffBy::SelfFence { heard_at }),
                None => silent(self.with_promise(&agent, self.why_silent(&agent))),
            },
        }
    }

    fn at_work(&self) -> usize {
        self.at_work.requests()
    }
}

/// Reads the answer of a host.
fn outcome<T: DeserializeOwned>(message: &Message) -> Result<T, HostUnreachable> {
    let word = match decode::<Answer<T>>(&message.payload) {
        Some(Answer::Word(word)) => word,
        Some(Answer::TooLarge { bytes }) => {
            return Err(HostUnreachable::Unknown(reason!("its answer has {bytes} bytes, and NATS carries at most {MESSAGE_MAX}")));
        }
        None => {
            let release = release_of(message.headers.as_ref());
            return Err(HostUnreachable::Unknown(reason!("its agent of release {release} answered what this release does not know")));
        }
    };
    word.received()
}
