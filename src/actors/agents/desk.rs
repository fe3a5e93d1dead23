//! Receives what agents send: hellos, reports, goodbyes and questions.

use std::sync::Arc;

use async_trait::async_trait;
use cellshift_host::Upward;
use cellshift_host::link::Delivered;
use cellshift_nats::{Acceptance, Answers, Arrivals, LastWord, Life, Name, Presence, Welcome};

use super::book::Book;
use crate::domain::host_protocol::{Asker, HostQuestion, NeighbourError, QuestionAnswer};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::env::guard::{Guard, stands};

/// The answer to a question of an agent.
pub(super) type Reply = Result<QuestionAnswer, NeighbourError>;

/// The controller's desk for the agents of a cell.
pub(super) struct Desk {
    pub book: Book,
    /// Answers the questions.
    pub upward: Arc<dyn Upward>,
}

#[async_trait]
impl Acceptance for Desk {
    async fn accept(&self, host: &Name, presence: &Presence) -> Welcome {
        self.book.decide(host, presence).await.unwrap_or_else(|error| {
            log::warn!(host = host.as_str(); "the agent's hello has no answer now: {error}");
            Welcome::CannotTell
        })
    }

    async fn release(&self, host: &Name, life: Life, word: LastWord) -> Result<(), Reason> {
        self.book.release(host, life, word).await.map_err(|error| reason!("{error}"))
    }
}

impl Arrivals for Desk {
    fn here(&self, host: &Name, presence: Presence) {
        let handle = self.book.handle();
        match handle.link(host.as_str()) {
            Some(link) if link.hear(presence.life) => {
                self.book.open_awaited(host.as_str());
                handle.note(host.as_str(), presence.facts);
            }
            _ => handle.strange(host.as_str(), presence),
        }
    }

    fn gone(&self, host: &Name, life: Life, word: LastWord) {
        if let Some(link) = self.book.handle().link(host.as_str()) {
            link.dismiss(life, word);
        }
    }
}

#[async_trait]
impl Answers<HostQuestion, Reply> for Desk {
    /// Answers the accepted life alone: another one may not act for the host.
    async fn answer(&self, host: &Name, life: Life, question: HostQuestion) -> Delivered<Reply> {
        let is_accepted = match self.book.is_accepted(host, life).await {
            Ok(is_accepted) => is_accepted,
            Err(error) => {
                log::warn!(host = host.as_str(); "the agent's question has no answer now: {error}");
                return Delivered::CannotTell;
            }
        };
        if stands(Guard::AgentLife) && !is_accepted {
            log::warn!(host = host.as_str(); "an agent asks whose life {life} is not accepted: it gets no answer");
            return Delivered::CannotTell;
        }
        let asker = Asker { cell: self.book.cell().to_owned(), host: host.as_str().to_owned() };
        Delivered::Answered(self.upward.ask(&asker, question).await)
    }
}
