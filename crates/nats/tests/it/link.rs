//! Requests and queries while the network is whole.

use std::time::{Duration, Instant};

use cellshift_domain::host_protocol::{HostAnswer, HostReply};
use cellshift_host::link::HostLink;
use cellshift_host::virt::HostUnreachable;
use cellshift_nats::testkit::{Broker, raw_client};
use futures::StreamExt;

use crate::cell::{Agent, Controller, Linked, query, request, until};
use crate::scripted::Mood;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(150);

/// Asserts that the message was not delivered, for a reason with these words.
pub fn assert_not_delivered<T: std::fmt::Debug>(outcome: Result<T, HostUnreachable>, words: &str) {
    match outcome {
        Err(HostUnreachable::NotDelivered(reason)) if reason.to_string().contains(words) => {}
        other => panic!("not \"not delivered: … {words} …\": {other:?}"),
    }
}

/// Asserts that nobody knows what became of the message, for a reason with these words.
pub fn assert_unknown<T: std::fmt::Debug>(outcome: Result<T, HostUnreachable>, words: &str) {
    match outcome {
        Err(HostUnreachable::Unknown(reason)) if reason.to_string().contains(words) => {}
        other => panic!("not \"unknown: … {words} …\": {other:?}"),
    }
}

#[tokio::test]
async fn a_request_and_a_query_are_answered() {
    let broker = Broker::start(&["node-7.example"]).await;
    let (controller, agent) = (Controller::start(&broker).await, Agent::start(&broker, "node-7.example").await);
    let link = controller.link_when_up("node-7.example").await;
    assert_eq!(link.request(request(1), LONG).await, Ok(HostReply::Done));
    assert_eq!(link.query(query(1), LONG).await, Ok(HostAnswer::Typed));
    assert_eq!((agent.end.requests(), agent.end.queries()), (vec![request(1)], vec![query(1)]));
    assert_eq!(link.at_work(), 0);
}

#[tokio::test]
async fn a_host_says_why_it_does_nothing() {
    let linked = Linked::start().await;
    let Linked { agent, link, .. } = &linked;
    agent.end.set(Mood::IsBusy);
    assert_eq!(link.request(request(1), LONG).await, Err(HostUnreachable::Busy));
    assert_eq!(link.query(query(1), LONG).await, Err(HostUnreachable::Busy));
    agent.end.set(Mood::IsOlder);
    assert_eq!(link.request(request(1), LONG).await, Err(HostUnreachable::NotKnown { release: "0.1.0".to_owned() }));
    agent.end.set(Mood::CannotTell);
    assert_unknown(link.query(query(1), LONG).await, "it cannot tell");
}

#[tokio::test]
async fn a_request_runs_on_when_its_sender_stops_waiting() {
    let linked = Linked::start().await;
    let Linked { agent, link, .. } = &linked;
    agent.end.set(Mood::Holds);
    let began = Instant::now();
    assert_unknown(link.request(request(1), SHORT).await, "no answer came within 150 ms");
    assert!(began.elapsed() >= SHORT);
    assert_unknown(link.query(query(1), SHORT).await, "no answer came");
    assert_eq!((link.at_work(), agent.end.ended()), (0, 0));
    agent.end.set(Mood::Answers);
    until("the request ends", || agent.end.ended() == 1).await;
}

#[tokio::test]
async fn a_repeated_request_joins_the_one_at_work() {
    let linked = Linked::start().await;
    let Linked { agent, link, .. } = &linked;
    agent.end.set(Mood::Holds);
    assert_unknown(link.request(request(1), SHORT).await, "no answer");
    assert_unknown(link.request(request(1), SHORT).await, "no answer");
    let release = async {
        until("the request waits", || link.at_work() == 1).await;
        // The query's arrival shows that the requests before it have arrived, too.
        assert_unknown(link.query(query(1), SHORT).await, "no answer");
        agent.end.set(Mood::Answers);
    };
    let (first, second, ()) = tokio::join!(link.request(request(1), LONG), link.request(request(1), LONG), release);
    assert_eq!((first, second), (Ok(HostReply::Done), Ok(HostReply::Done)));
    assert_eq!(agent.end.requests(), [request(1)], "the host got it once");
    assert_eq!(link.request(request(2), LONG).await, Ok(HostReply::Done));
    assert_eq!(agent.end.requests(), [request(1), request(2)]);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_not_sent() {
    let linked = Linked::start().await;
    let Linked { agent, link, .. } = &linked;
    let mut large = request(1);
    large.request_id = "x".repeat(600_000);
    assert_not_delivered(link.request(large, LONG).await, "NATS carries at most 524288; it was not sent");
    assert_eq!(link.request(request(2), LONG).await, Ok(HostReply::Done));
    assert_eq!(agent.end.requests(), [request(2)]);
}

#[tokio::test]
async fn an_answer_that_is_too_large_leaves_the_outcome_unknown() {
    let linked = Linked::start().await;
    let Linked { agent, link, .. } = &linked;
    agent.end.set(Mood::AnswersTooMuch);
    assert_unknown(link.request(request(1), LONG).await, "bytes, and NATS carries at most 524288");
    assert_unknown(link.query(query(1), LONG).await, "bytes, and NATS carries at most 524288");
}

#[tokio::test]
async fn a_panic_of_the_host_leaves_the_outcome_unknown() {
    let linked = Linked::start().await;
    let Linked { agent, link, .. } = &linked;
    agent.end.set(Mood::Panics);
    assert_unknown(link.request(request(1), LONG).await, "it cannot tell");
    assert_unknown(link.query(query(1), SHORT).await, "no answer");
    agent.end.set(Mood::Answers);
    assert_eq!(link.request(request(1), LONG).await, Ok(HostReply::Done), "the agent lives on, and does the request anew");
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_not_known() {
    let linked = Linked::start().await;
    let Linked { broker, agent, link, .. } = &linked;
    let client = raw_client(broker.address(), &broker.controllers).await;
    let host = broker.cell.host("h1".parse_name());
    let mut newer = serde_json::to_value(request(1)).unwrap();
    newer["command"] = "Fly".into();
    let mut large = request(1);
    large.request_id = "x".repeat(600_000);
    let (newer, large) = (newer.to_string(), serde_json::to_string(&large).unwrap());
    for subject in [host.requests(agent.server.life()), host.queries(agent.server.life())] {
        for payload in [&b"\xff\x00{"[..], b"", b"{}", newer.as_bytes(), large.as_bytes()] {
            for headers in [true, false] {
                let answer = ask_raw(&client, broker, &subject, payload, headers).await;
                assert!(answer.contains(r#"{"Word":{"NotKnown":{"release":""#), "{} bytes: {answer}", payload.len());
            }
        }
    }
    assert_eq!(link.request(request(1), LONG).await, Ok(HostReply::Done), "the agent lives on");
    assert_eq!((agent.end.requests(), agent.end.queries()), (vec![request(1)], Vec::new()));
}

/// Sends bytes as a controller, with or without the headers of a message, and returns the answer's text.
async fn ask_raw(client: &async_nats::Client, broker: &Broker, subject: &str, payload: &[u8], headers: bool) -> String {
    let inbox = format!("{}.raw", broker.cell.inbox());
    let mut answers = client.subscribe(inbox.clone()).await.unwrap();
    let mut fields = async_nats::HeaderMap::new();
    if headers {
        fields.insert("Cellshift-Protocol", "9");
        fields.insert("Cellshift-Sender", "00000000-0000-0000-0000-000000000009");
        fields.insert("Cellshift-Sent-Micros", "1");
        fields.insert("Cellshift-Patience-Millis", "5000");
    }
    client.publish_with_reply_and_headers(subject.to_owned(), inbox, fields, payload.to_vec().into()).await.unwrap();
    let answer = tokio::time::timeout(LONG, answers.next()).await.expect("an answer").expect("a connection");
    answers.unsubscribe().await.unwrap();
    String::from_utf8(answer.payload.to_vec()).unwrap()
}

/// Makes names of literals.
pub trait ParseName {
    fn parse_name(&self) -> cellshift_nats::Name;
}

impl ParseName for str {
    fn parse_name(&self) -> cellshift_nats::Name {
        cellshift_nats::Name::parse(self).unwrap()
    }
}
