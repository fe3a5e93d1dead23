//! The host's word about itself. An agent says hello until a controller accepts its life; then it reports again and again, whether
//! something has changed or not, so that a lost report is made good by the next. At its end it says goodbye.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Subscriber;
pub use cellshift_domain::agent::{Hello, LastWord, Place};
use cellshift_domain::flavor::Resources;
use cellshift_domain::host_network::VirtualFunction;
use cellshift_domain::reason::Reason;
use cellshift_env::Env;
use chrono::{DateTime, Utc};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::connection::Connection;
use crate::subjects::{HostAddress, Life};
use crate::wire::{PROTOCOL, RELEASE, decode, encode};

/// The facts that controllers must know before they use a host.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// The driver's name.
    pub driver: String,
    /// The capacity before ratios.
    pub capacity: Resources,
    /// The traits of the host's provider.
    #[serde(default)]
    pub traits: Vec<String>,
    /// The virtual functions for guests.
    #[serde(default)]
    pub functions: Vec<VirtualFunction>,
}

/// A host's hello or report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Presence {
    /// The agent's life.
    pub life: Life,
    /// The agent's release.
    pub release: String,
    /// The number of its form of messages ([`PROTOCOL`]).
    pub protocol: u32,
    /// The agent's data directory; none of an agent that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The agent's promise: the milliseconds without a renewed word after which it stops the host's guests itself; none of an agent that
    /// promises nothing, or of an earlier release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_fence_ms: Option<u64>,
    /// The facts.
    pub facts: HostFacts,
}

impl Presence {
    /// Returns the hello as controllers decide on it.
    pub fn hello(&self) -> Hello {
        Hello { life: self.life.id(), place: self.place, self_fence: self.self_fence_ms.map(Duration::from_millis) }
    }
}

/// A message on the subjects of hellos and reports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Sign {
    Here(Presence),
    Gone { life: Life, word: LastWord },
}

/// A controller's answer to a hello.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Welcome {
    /// The life is accepted: requests will come.
    Accepted,
    /// Another agent has this name.
    Taken {
        /// The life of the other agent.
        by: Life,
        /// The moment of its last report, by the controllers' clock.
        heard: DateTime<Utc>,
    },
    /// The controller cannot tell now; the agent asks again.
    CannotTell,
}

/// How an agent stands with its controllers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// No controller has answered its hello.
    Awaited,
    /// The agent's life is accepted.
    Accepted,
    /// Another agent has the name. This one is silent, and asks again.
    Refused {
        /// The life of the other agent.
        by: Life,
    },
}

/// The times of an agent's hellos and reports. To each a random part is added, up to a quarter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rhythm {
    /// The pause between two reports.
    pub report: Duration,
    /// The pause between two hellos of an accepted agent: by them it learns that the name has been given to another.
    pub hello: Duration,
    /// The time for which a hello is waited for.
    pub patience: Duration,
    /// The pause before a hello is repeated that nobody answered.
    pub retry: Duration,
    /// The pause before an agent asks again for a name that another has.
    pub refused: Duration,
    /// The longest pause before a hello after a reconnect, and before a report for which a controller has asked: agents must not come at
    /// once.
    pub spread: Duration,
}

impl Default for Rhythm {
    fn default() -> Rhythm {
        Rhythm {
            report: Duration::from_secs(9),
            hello: Duration::from_secs(60),
            patience: Duration::from_secs(10),
            retry: Duration::from_secs(4),
            refused: Duration::from_secs(30),
            spread: Duration::from_secs(2),
        }
    }
}

impl Rhythm {
    /// Returns the times of an agent that must renew its word within this time: of three hellos in a row two may be lost.
    #[must_use]
    pub fn renewing_within(self, time: Duration) -> Rhythm {
        Rhythm {
            hello: self.hello.min(time / 5),
            patience: self.patience.min(time / 5),
            retry: self.retry.min(time / 10),
            spread: self.spread.min(time / 10),
            ..self
        }
    }
}

/// Says hello and reports, for one life of an agent.
pub(crate) struct Announcer {
    pub env: Env,
    pub connection: Arc<Connection>,
    pub address: HostAddress,
    pub hello: Hello,
    pub rhythm: Rhythm,
    pub facts: watch::Receiver<HostFacts>,
    /// The moment at which the latest hello was sent that a controller has accepted.
    pub renewed: watch::Sender<Option<Duration>>,
    pub admission: watch::Sender<Admission>,
    /// The controllers' wishes for reports.
    pub roll_calls: Subscriber,
}

/// The event that ends a time of reports.
enum Ended {
    /// The time is over.
    InTime,
    /// The connection was lost and made anew.
    Reconnected,
}

impl Announcer {
    /// Runs until it is dropped.
    pub async fn run(mut self) {
        let (mut ended, mut accepted) = (Ended::InTime, false);
        loop {
            self.connection.wait_for(|state| state.connected).await;
            if matches!(ended, Ended::Reconnected) {
                sleep(self.random(self.rhythm.spread)).await;
            }
            let connects = self.connection.states().borrow().connects;
            let pause = match self.say_hello().await {
                Ok(Welcome::Accepted) => {
                    accepted = true;
                    self.admission.send_replace(Admission::Accepted);
                    self.rhythm.hello
                }
                Ok(Welcome::Taken { by, heard }) => {
                    accepted = false;
                    self.refuse(by, heard);
                    self.rhythm.refused
                }
                Ok(Welcome::CannotTell) => self.rhythm.retry,
                Err(reason) => {
                    log::debug!(host = self.address.host.as_str(); "no controller has answered the hello: {reason}");
                    self.rhythm.retry
                }
            };
            ended = self.report_for(accepted, self.with_jitter(pause), connects).await;
        }
    }

    /// Says hello, and returns the answer. The agent's word is renewed from the moment of sending on: the controller counts from a later one.
    async fn say_hello(&self) -> Result<Welcome, Reason> {
        let payload = encode(&Sign::Here(self.presence()))?;
        let sent = self.env.elapsed();
        let answer = self.connection.ask(self.address.hello(), payload, self.rhythm.patience).await;
        let answer = answer.map_err(Reason::inside)?;
        let welcome = decode(&answer.payload).ok_or_else(|| Reason::public("this release does not know the answer"))?;
        if welcome == Welcome::Accepted {
            self.renewed.send_replace(Some(sent));
        }
        Ok(welcome)
    }

    fn refuse(&self, by: Life, heard: DateTime<Utc>) {
        log::warn!(
            host = self.address.host.as_str();
            "another agent has the name of this host (life {by}, last heard of at {heard}): this agent stays silent and asks again"
        );
        self.admission.send_replace(Admission::Refused { by });
    }

    /// Reports for this time, if the agent is accepted; else waits.
    async fn report_for(&mut self, accepted: bool, time: Duration, connects: u64) -> Ended {
        let end = Instant::now() + time;
        let mut next = Instant::now();
        let mut facts_may_change = true;
        loop {
            tokio::select! {
                () = sleep_until(end) => return Ended::InTime,
                () = self.connection.wait_for(|state| state.connects != connects) => return Ended::Reconnected,
                () = sleep_until(next), if accepted => {
                    self.report().await;
                    next = Instant::now() + self.with_jitter(self.rhythm.report);
                }
                changed = self.facts.changed(), if facts_may_change => match changed {
                    Ok(()) => next = Instant::now(),
                    Err(_) => facts_may_change = false,
                },
                roll_call = self.roll_calls.next() => match roll_call {
                    Some(_) => next = next.min(Instant::now() + self.random(self.rhythm.spread)),
                    // The connection ends with its process only.
                    None => std::future::pending().await,
                },
            }
        }
    }

    async fn report(&self) {
        let sent = match encode(&Sign::Here(self.presence())) {
            Ok(payload) => self.connection.publish(self.address.report(), payload).await,
            Err(reason) => Err(reason),
        };
        if let Err(reason) = sent {
            log::debug!(host = self.address.host.as_str(); "a report was not sent: {reason}");
        }
    }

    fn presence(&self) -> Presence {
        let (Hello { life, place, self_fence }, facts) = (self.hello, self.facts.borrow().clone());
        let self_fence_ms = self_fence.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        Presence { life: Life::new(life), release: RELEASE.to_owned(), protocol: PROTOCOL, place, self_fence_ms, facts }
    }

    fn with_jitter(&self, time: Duration) -> Duration {
        time + self.random(time / 4)
    }

    fn random(&self, longest: Duration) -> Duration {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        Duration::from_millis(self.env.random().below(millis))
    }
}

/// Says goodbye to all controllers, and waits until one has written it down, at most for `patience`.
pub(crate) async fn say_goodbye(connection: &Connection, address: &HostAddress, life: Life, word: LastWord, patience: Duration) {
    let goodbye = Sign::Gone { life, word };
    let said = async {
        let payload = encode(&goodbye)?;
        connection.publish(address.report(), payload.clone()).await?;
        connection.ask(address.hello(), payload, patience).await.map_err(Reason::inside)
    };
    if let Err(reason) = said.await {
        log::warn!(host = address.host.as_str(); "the goodbye may not have reached a controller: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lost_hellos_leave_time_for_a_third() {
        let usual = Rhythm::default();
        let time = Duration::from_secs(30);
        let Rhythm { hello, patience, retry, report, .. } = usual.clone().renewing_within(time);
        let with_jitter = |pause: Duration| pause + pause / 4;
        let third_is_sent_after = with_jitter(hello) + 2 * patience + 2 * with_jitter(retry);
        assert!(third_is_sent_after < time, "{third_is_sent_after:?}");
        assert_eq!(report, usual.report);
        assert_eq!(usual.clone().renewing_within(Duration::from_secs(3_600)), usual, "it says hello often enough");
    }

    #[test]
    fn an_agent_of_an_earlier_release_promises_nothing() {
        let life = Life::new(uuid::Uuid::from_u128(1));
        let presence = |self_fence_ms| Presence {
            life,
            release: String::new(),
            protocol: PROTOCOL,
            place: None,
            self_fence_ms,
            facts: HostFacts::default(),
        };
        let earlier = serde_json::to_string(&presence(None)).unwrap();
        assert!(!earlier.contains("fence"), "{earlier}");
        assert_eq!(serde_json::from_str::<Presence>(&earlier).unwrap().hello().self_fence, None);
        let promising = serde_json::to_string(&presence(Some(7_500))).unwrap();
        assert_eq!(serde_json::from_str::<Presence>(&promising).unwrap().hello().self_fence, Some(Duration::from_millis(7_500)));
    }
}
