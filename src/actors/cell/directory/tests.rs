//! The standing of hosts, and requests that take longer than one delivery waits, over a link whose outcomes the test gives.

use std::collections::VecDeque;

use chrono::TimeDelta;
use parking_lot::Mutex;
use uuid::Uuid;

use super::*;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::metrics::Mailbox;

const HOST: &str = "host1";

/// The outcome of a delivery.
enum Outcome {
    /// The link waits in vain.
    Late,
    AtOnce(Result<HostReply, HostUnreachable>),
}

use Outcome::{AtOnce, Late};

/// A link with these outcomes, and none after them.
#[derive(Default)]
struct ScriptedLink {
    outcomes: Mutex<VecDeque<Outcome>>,
}

#[async_trait]
impl HostLink for ScriptedLink {
    async fn request(&self, _: HostRequest, patience: Duration) -> Result<HostReply, HostUnreachable> {
        let outcome = self.outcomes.lock().pop_front();
        match outcome {
            Some(AtOnce(outcome)) => outcome,
            Some(Late) | None => {
                tokio::time::sleep(patience).await;
                Err(HostUnreachable::late(patience))
            }
        }
    }

    async fn query(&self, _: HostQuery, patience: Duration) -> Result<HostAnswer, HostUnreachable> {
        Err(HostUnreachable::late(patience))
    }

    fn standing(&self) -> Standing {
        Standing::Up
    }

    fn at_work(&self) -> usize {
        0
    }
}

fn empty() -> HostDirectory {
    let env = Env::system();
    HostDirectory::counting(env.metrics().messages(Mailbox::Host), &env)
}

fn directory(outcomes: impl IntoIterator<Item = Outcome>) -> (HostDirectory, Arc<ScriptedLink>) {
    let link = Arc::new(ScriptedLink { outcomes: Mutex::new(outcomes.into_iter().collect()) });
    let hosts = empty();
    hosts.opened(HOST, link.clone());
    (hosts, link)
}

fn request() -> HostRequest {
    let fence = Fence { server: Uuid::nil(), epoch: 1, attempt: 1 };
    HostRequest::new(fence, Uuid::nil(), HostCommand::StartGuest)
}

fn refusals() -> [HostUnreachable; 3] {
    let release = "0.0.9".to_owned();
    [HostUnreachable::NotDelivered("nobody is there".into()), HostUnreachable::Busy, HostUnreachable::NotKnown { release }]
}

#[tokio::test(start_paused = true)]
async fn a_long_request_is_delivered_until_its_reply() {
    let (hosts, _link) = directory([Late, Late, AtOnce(Ok(HostReply::Done))]);
    let began = Instant::now();
    assert_eq!(hosts.until_reply(HOST, request()).await, Ok(HostReply::Done));
    assert_eq!(began.elapsed().as_secs(), 2 * ASK_AGAIN_AFTER.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_request_once_in_doubt_is_never_surely_not_done() {
    for refusal in refusals() {
        let (hosts, _link) = directory([AtOnce(Err(refusal.clone()))]);
        assert_eq!(hosts.until_reply(HOST, request()).await, Err(refusal.clone()), "the first delivery says it all");
        let words = refusal.to_string();
        let (hosts, _link) = directory([Late, AtOnce(Err(refusal))]);
        let Err(HostUnreachable::Unknown(reason)) = hosts.until_reply(HOST, request()).await else { panic!("{words}") };
        assert_eq!(reason.to_string(), words);
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_goes_meanwhile_leaves_a_request_in_doubt() {
    let (hosts, _link) = directory([]);
    let (outcome, ()) = futures::join!(hosts.until_reply(HOST, request()), async {
        tokio::time::sleep(ASK_AGAIN_AFTER / 2).await;
        hosts.closed(HOST, "it is powered off".into());
    });
    assert!(matches!(outcome, Err(HostUnreachable::Unknown(_))), "{outcome:?}");
    let outcome = hosts.until_reply(HOST, request()).await;
    assert!(matches!(outcome, Err(HostUnreachable::NotDelivered(_))), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_death_with_the_request_ends_the_wait() {
    let died = HostUnreachable::Unknown("it died with the request".into());
    let (hosts, link) = directory([AtOnce(Err(died.clone())), Late]);
    assert_eq!(hosts.until_reply(HOST, request()).await, Err(died));
    assert_eq!(link.outcomes.lock().len(), 1, "it is not delivered to a later life of the host");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_all_deliveries() {
    let (hosts, link) = directory([Late, Late, Late, Late]);
    let late = hosts.request(HOST, request(), ASK_AGAIN_AFTER * 5 / 2).await;
    assert_eq!(late, Err(HostUnreachable::late(ASK_AGAIN_AFTER * 5 / 2)));
    assert_eq!(link.outcomes.lock().len(), 1);
}

/// Makes a directory with one host, which has closed, and returns the moment.
fn closed() -> (HostDirectory, DateTime<Utc>) {
    let hosts = empty();
    let closed_at = hosts.closed("compute1", "it died too often".into());
    (hosts, closed_at)
}

fn silent(since: DateTime<Utc>, reason: &'static str) -> Standing {
    Standing::Silent { since, reason: reason.into() }
}

#[test]
fn the_moment_of_silence_stays_until_a_host_opens() {
    let (hosts, since) = closed();
    assert_eq!(hosts.standing("compute1"), silent(since, "it died too often"));
    hosts.starting("compute1");
    assert_eq!(hosts.standing("compute1"), silent(since, STARTING));
    assert_eq!(hosts.closed("compute1", "its files cannot be read".into()), since);
    assert_eq!(hosts.standing("compute1"), silent(since, "its files cannot be read"));
    assert!(matches!(hosts.standing("elsewhere"), Standing::Silent { .. }), "a host that is not known may run guests");
}

#[test]
fn a_host_is_off_by_the_end_of_its_latest_cut() {
    let (hosts, since) = closed();
    hosts.guests_ended("compute1", since - TimeDelta::seconds(1));
    assert_eq!(hosts.standing("compute1"), silent(since, "it died too often"), "an earlier cut says nothing of this one");
    hosts.guests_ended("compute1", since);
    assert_eq!(hosts.standing("compute1"), Standing::Off(OffBy::Host));
    hosts.closed("compute1", "it is powered off".into());
    assert_eq!(hosts.standing("compute1"), Standing::Off(OffBy::Host), "it has not begun since");
    hosts.starting("compute1");
    assert_eq!(hosts.standing("compute1"), silent(since, STARTING));
}
