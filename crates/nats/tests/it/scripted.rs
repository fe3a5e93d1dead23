//! A host's end that does what a test says, and remembers what reached it.

use async_trait::async_trait;
use cellshift_domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};
use cellshift_domain::reason::Reason;
use cellshift_host::link::{Delivered, HostEnd};
use tokio::sync::watch;

/// The way in which the host treats a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    Answers,
    /// Answers nothing before its mood changes.
    Holds,
    IsBusy,
    IsOlder,
    CannotTell,
    AnswersTooMuch,
    Panics,
}

pub struct ScriptedEnd {
    mood: watch::Sender<Mood>,
    requests: watch::Sender<Vec<HostRequest>>,
    queries: watch::Sender<Vec<HostQuery>>,
    ended: watch::Sender<usize>,
}

impl ScriptedEnd {
    pub fn new() -> ScriptedEnd {
        let (requests, queries) = (watch::Sender::new(Vec::new()), watch::Sender::new(Vec::new()));
        ScriptedEnd { mood: watch::Sender::new(Mood::Answers), requests, queries, ended: watch::Sender::new(0) }
    }

    pub fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    /// Returns the requests that reached the host.
    pub fn requests(&self) -> Vec<HostRequest> {
        self.requests.borrow().clone()
    }

    /// Returns the queries that reached the host.
    pub fn queries(&self) -> Vec<HostQuery> {
        self.queries.borrow().clone()
    }

    /// Returns the number of requests that have ended.
    pub fn ended(&self) -> usize {
        *self.ended.borrow()
    }

    async fn obey<T>(&self, answer: T, large: T) -> Delivered<T> {
        let mut moods = self.mood.subscribe();
        let mood = *moods.wait_for(|mood| *mood != Mood::Holds).await.unwrap();
        match mood {
            Mood::Answers | Mood::Holds => Delivered::Answered(answer),
            Mood::AnswersTooMuch => Delivered::Answered(large),
            Mood::IsBusy => Delivered::Busy,
            Mood::IsOlder => Delivered::NotKnown { release: "0.1.0".to_owned() },
            Mood::CannotTell => Delivered::CannotTell,
            Mood::Panics => panic!("the host's end panics, as the test wants"),
        }
    }
}

#[async_trait]
impl HostEnd for ScriptedEnd {
    async fn request(&self, request: HostRequest) -> Delivered<HostReply> {
        self.requests.send_modify(|requests| requests.push(request));
        let reply = self.obey(HostReply::Done, HostReply::Refused { reason: Reason::public("x".repeat(600_000)) }).await;
        self.ended.send_modify(|ended| *ended += 1);
        reply
    }

    async fn query(&self, query: HostQuery) -> Delivered<HostAnswer> {
        self.queries.send_modify(|queries| queries.push(query));
        self.obey(HostAnswer::Typed, HostAnswer::Console("x".repeat(600_000))).await
    }
}
