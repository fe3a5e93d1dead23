//! The agents of one cell's hosts. The actor owns the end of the connection to the cell's NATS at which agents say hello, report, ask and say
//! goodbye, and keeps the links to their hosts in the cell's directory. It runs no host.
//!
//! `desk` receives the messages, and `book` keeps records, directory and links alike. What must outlive the actor is in its
//! [`AgentsHandle`].

mod book;
mod desk;
mod handle;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use cellshift_host::Upward;
use cellshift_nats::{CellAddress, CellDesk, Connection, ConnectionError, Controllers};
use tokio::time::{sleep, timeout};

use super::cell::CellHandle;
use super::supervision::{DeathGuard, supervised};
use crate::db::api::ApiDb;
use crate::domain::host_protocol::HostQuestion;
use crate::env::Env;
use book::Book;
pub use book::{AgentsOptions, HostRecorder, ReportedHost};
use desk::{Desk, Reply};
pub use handle::AgentsHandle;

/// The pause before something is tried again that the cell's database or NATS did not take.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// The pause between two looks whether discovered hosts have been mapped.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// The time that known agents have for their first report to a controller that has started, before their hosts count as silent.
const FIRST_REPORT_WITHIN: Duration = Duration::from_secs(4);
/// The pause between two looks at the records of agents.
const RECORDS_READ_AFTER: Duration = Duration::from_secs(30);

/// The parts of the actor.
#[derive(Clone)]
pub struct AgentsParts {
    /// Clock and ids.
    pub env: Env,
    /// The cell, with its database, its directory of hosts and the agents' handle.
    pub cell: CellHandle,
    /// The API database, which maps hosts to cells.
    pub api: ApiDb,
    /// The cell on NATS.
    pub address: CellAddress,
    /// The connection to the cell's NATS.
    pub connection: Arc<Connection>,
    /// Records hosts.
    pub recorder: Arc<dyn HostRecorder>,
    /// Answers the questions of agents.
    pub upward: Arc<dyn Upward>,
    /// The options.
    pub options: AgentsOptions,
}

impl AgentsParts {
    fn book(&self) -> Book {
        Book {
            env: self.env.clone(),
            cell: self.cell.clone(),
            api: self.api.clone(),
            address: self.address.clone(),
            connection: self.connection.clone(),
            recorder: self.recorder.clone(),
            options: self.options.clone(),
        }
    }

    /// Makes the links to known hosts, and begins to receive. Returns when both are done, however long the cell's database is away.
    async fn begin(self) -> Controllers {
        let book = self.book();
        while let Err(error) = book.recall().await {
            log::warn!(cell = self.cell.name.as_str(); "the agents of cell {} are not listened to yet: {error}", self.cell.name);
            sleep(TRY_AGAIN_AFTER).await;
        }
        loop {
            match self.receive(&book).await {
                Ok(controllers) => return controllers,
                Err(error) => log::error!(cell = self.cell.name.as_str(); "the agents of cell {} cannot be heard: {error}", self.cell.name),
            }
            sleep(TRY_AGAIN_AFTER).await;
        }
    }

    async fn receive(&self, book: &Book) -> Result<Controllers, ConnectionError> {
        let desk = Arc::new(Desk { book: book.clone(), upward: self.upward.clone() });
        let desk: CellDesk<HostQuestion, Reply> = CellDesk { acceptance: desk.clone(), arrivals: desk.clone(), answers: desk };
        Controllers::start(self.connection.clone(), self.address.clone(), desk).await
    }
}

/// Records new hosts and looks strangers up, as they come, and looks now and then for hosts that have been mapped.
async fn keep(book: Book) {
    loop {
        book.look_up_strangers().await;
        if let Err(reason) = book.record_due().await {
            log::warn!(cell = book.cell(); "hosts of cell {} are not recorded: {reason}", book.cell());
            sleep(TRY_AGAIN_AFTER).await;
        }
        // Either way it is time for another look.
        let _ = timeout(LOOK_AGAIN_AFTER, book.handle().arrived()).await;
    }
}

/// Ends the wait for first reports.
async fn end_awaiting(book: Book) {
    sleep(FIRST_REPORT_WITHIN).await;
    book.open_all_awaited();
}

/// Keeps the links as the records are, which an operator or another controller has changed.
async fn follow_records(book: Book) {
    loop {
        sleep(RECORDS_READ_AFTER).await;
        if let Err(error) = book.look_at_records().await {
            log::debug!(cell = book.cell(); "the records of the agents of cell {} are not looked at: {error}", book.cell());
        }
    }
}

/// The actor: one incarnation.
pub struct Agents {
    parts: AgentsParts,
    controllers: Option<Controllers>,
    _guard: Option<DeathGuard>,
}

impl Agents {
    /// Makes an actor that does not listen yet; `guard` reports its death.
    pub fn new(parts: AgentsParts, guard: Option<DeathGuard>) -> Agents {
        Agents { parts, controllers: None, _guard: guard }
    }
}

impl Actor for Agents {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let beginning = self.parts.clone().begin().into_actor(self);
        ctx.spawn(beginning.map(|controllers, actor, ctx| {
            actor.controllers = Some(controllers);
            let book = actor.parts.book();
            ctx.spawn(keep(book.clone()).into_actor(actor));
            ctx.spawn(end_awaiting(book.clone()).into_actor(actor));
            ctx.spawn(follow_records(book).into_actor(actor));
        }));
    }
}

supervised!(Agents);
