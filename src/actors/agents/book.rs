//! The agents of a cell in its records, in the directory of its hosts and in their links, which are kept alike.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_nats::{CellAddress, Connection, HostFacts, LastWord, Life, Name, NatsLink, Presence, Silence, Welcome};
use uuid::Uuid;

use super::AgentsHandle;
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::domain::agent::{AcceptedLife, AgentRecord, Decision, Received, Renewal};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::service::Service;
use crate::env::Env;

/// The binary whose services are compute hosts.
const COMPUTE: &str = "nova-compute";

/// A host with the facts that its agent reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportedHost {
    /// The host's name.
    pub name: String,
    /// The facts.
    pub facts: HostFacts,
}

/// Records hosts by the facts that their agents report.
#[async_trait]
pub trait HostRecorder: Send + Sync {
    /// Records the hosts, which are mapped to the cell, in the cell and in placement. May be repeated; what is recorded alike stays.
    async fn record(&self, hosts: &[ReportedHost]) -> Result<(), Reason>;
}

/// The options of a cell's agents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentsOptions {
    /// The times by which hosts without reports are judged.
    pub silence: Silence,
    /// True if hosts that nobody has enrolled are mapped.
    pub discover: bool,
    /// The time limit of a call on the cell's database.
    pub database_deadline: Duration,
}

/// The agents of a cell, wherever something is known of them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Book {
    pub env: Env,
    pub cell: CellHandle,
    pub api: ApiDb,
    pub address: CellAddress,
    pub connection: Arc<Connection>,
    pub recorder: Arc<dyn HostRecorder>,
    pub options: AgentsOptions,
}

impl Book {
    /// Returns the cell's name.
    pub fn cell(&self) -> &str {
        &self.cell.name
    }

    /// Returns the handle that others hold.
    pub fn handle(&self) -> &AgentsHandle {
        &self.cell.agents
    }

    /// Decides on a hello, and opens the link to the life if it is accepted.
    pub async fn decide(&self, host: &Name, presence: &Presence) -> Result<Welcome, DbError> {
        if self.is_of_another_cell(host.as_str()).await? {
            self.tell_misplaced(host.as_str());
            return Ok(Welcome::CannotTell);
        }
        let service = Service::new(self.env.uuid(), host.as_str(), COMPUTE, self.cell(), self.env.now());
        let hello = presence.hello();
        let Received { decision, at } = self.ask(self.cell.db.accept_life(service, hello)).await?;
        match decision {
            Decision::Accept | Decision::Known => {
                if decision == Decision::Accept {
                    // The host's records may have gone with an earlier life.
                    self.handle().record_anew(host.as_str());
                }
                self.welcome(host, presence.life, Renewal { heard_at: at, self_fence: hello.self_fence });
                self.handle().note(host.as_str(), presence.facts.clone());
                Ok(Welcome::Accepted)
            }
            // The hello is late, because this life has said goodbye. Nobody waits for the answer.
            Decision::Ended => Ok(Welcome::CannotTell),
            Decision::Taken(by) => Ok(Welcome::Taken { by: Life::new(by.life), heard: by.heard_at }),
        }
    }

    /// Writes down the last word of a life. Nothing changes if it is not the accepted one.
    pub async fn release(&self, host: &Name, life: Life, word: LastWord) -> Result<(), DbError> {
        let is_written = self.ask(self.cell.db.end_life(host.as_str(), life.id(), word)).await?;
        if let (true, Some(link)) = (is_written, self.handle().link(host.as_str())) {
            link.dismiss(life, word);
        }
        Ok(())
    }

    /// True if the life is the accepted one.
    pub async fn is_accepted(&self, host: &Name, life: Life) -> Result<bool, DbError> {
        if self.handle().link(host.as_str()).is_some_and(|link| link.life() == Some(life)) {
            return Ok(true);
        }
        // Another controller may have accepted it.
        let record = self.ask(self.cell.db.agent(host.as_str())).await?;
        Ok(record.and_then(|record| record.accepted).is_some_and(|accepted| accepted.life == life.id()))
    }

    /// Makes the links to all hosts that have had an agent. The link to an agent that has ended is open at once, and says so; the others wait for
    /// the first report. Mapped hosts that never had an agent are silent.
    pub async fn recall(&self) -> Result<(), DbError> {
        let records = self.ask(self.cell.db.agents()).await?;
        let cells = self.cells_of_hosts().await?;
        for record in &records {
            let Some((host, accepted)) = Name::parse(&record.host).ok().zip(record.accepted) else { continue };
            let is_new = self.handle().link(host.as_str()).is_none();
            let link = self.link(&host);
            link.recall(Life::new(accepted.life), accepted.heard_at, accepted.last_word);
            link.recorded(Life::new(accepted.life), accepted.renewal());
            match accepted.last_word {
                None if is_new => self.handle().await_report(host.as_str()),
                None => {}
                Some(_) => self.cell.hosts.opened(host.as_str(), link),
            }
            if !cells.contains_key(host.as_str()) {
                self.handle().discover(host.as_str());
            }
        }
        for host in cells.iter().filter(|(_, cell)| **cell == self.cell.uuid).map(|(host, _)| host) {
            if self.handle().link(host).is_none() {
                self.cell.hosts.closed(host, reason!("its agent has not said hello"));
            }
        }
        Ok(())
    }

    /// Opens the link to a host if it has waited for the host's first report.
    pub fn open_awaited(&self, host: &str) {
        if let (true, Some(link)) = (self.handle().end_awaiting(host), self.handle().link(host)) {
            self.cell.hosts.opened(host, link);
        }
    }

    /// Opens the links that wait: each host that has not reported in time is silent.
    pub fn open_all_awaited(&self) {
        for host in self.handle().awaited() {
            self.open_awaited(&host);
        }
    }

    /// Looks up the lives that report, and that this process has not accepted.
    pub async fn look_up_strangers(&self) {
        for (name, presence) in self.handle().strangers() {
            let record = match self.ask(self.cell.db.agent(&name)).await {
                Ok(record) => record,
                Err(error) => {
                    log::debug!(host = name.as_str(); "a report of life {} is passed over: {error}", presence.life);
                    continue;
                }
            };
            match (record.and_then(|record| at_work(&record, presence.life)), Name::parse(&name)) {
                (Some(accepted), Ok(host)) => {
                    self.welcome(&host, presence.life, accepted.renewal());
                    self.handle().note(&name, presence.facts);
                }
                _ => log::debug!(host = name.as_str(); "a report of life {} is passed over: it is not accepted", presence.life),
            }
        }
    }

    /// Records the hosts whose facts are new. Hosts that no cell has are mapped first, or stay discovered.
    pub async fn record_due(&self) -> Result<(), Reason> {
        let due = self.handle().due();
        if due.is_empty() {
            return Ok(());
        }
        let mut cells = self.cells_of_hosts().await.map_err(Reason::inside)?;
        let unmapped: Vec<String> = due.keys().filter(|host| !cells.contains_key(*host)).cloned().collect();
        if self.options.discover && !unmapped.is_empty() {
            self.api.map_hosts(unmapped.clone(), self.cell.uuid).await.map_err(Reason::inside)?;
            cells.extend(unmapped.into_iter().map(|host| (host, self.cell.uuid)));
        }
        let mut hosts = Vec::new();
        for (name, facts) in due {
            match cells.get(&name) {
                Some(cell) if *cell == self.cell.uuid => hosts.push(ReportedHost { name, facts }),
                Some(_) => self.tell_misplaced(&name),
                None if self.handle().discover(&name) => {
                    log::info!(host = name.as_str(); "host {name} is discovered in cell {}; it takes servers once it is enrolled", self.cell());
                }
                None => {}
            }
        }
        if hosts.is_empty() {
            return Ok(());
        }
        self.recorder.record(&hosts).await?;
        for ReportedHost { name, facts } in hosts {
            log::info!(host = name.as_str(); "host {name} of cell {} is recorded with {} processors", self.cell(), facts.capacity.vcpu);
            self.handle().recorded(&name, facts);
        }
        Ok(())
    }

    /// Closes the links to hosts whose records an operator has removed: an agent that is still there says hello as a new one. Tells the other
    /// links when their agents renewed their words last, whichever controller heard it.
    pub async fn look_at_records(&self) -> Result<(), DbError> {
        let linked = self.handle().linked();
        let records: BTreeMap<String, AgentRecord> =
            self.ask(self.cell.db.agents()).await?.into_iter().map(|record| (record.host.clone(), record)).collect();
        for host in linked.iter().filter(|host| !records.contains_key(*host)) {
            self.handle().forget(host);
            self.cell.hosts.removed(host);
        }
        for (host, accepted) in records.values().filter_map(|record| Some((&record.host, record.accepted?))) {
            if let Some(link) = self.handle().link(host) {
                link.recorded(Life::new(accepted.life), accepted.renewal());
            }
        }
        Ok(())
    }

    /// Says once that a host of another cell has an agent here.
    fn tell_misplaced(&self, host: &str) {
        if self.handle().misplace(host) {
            log::error!(host = host; "host {host} has an agent in cell {}, and is in another cell: the agent gets no requests", self.cell());
        }
    }

    /// Notes that the life is accepted and has been heard of, and when it renewed its word.
    fn welcome(&self, host: &Name, life: Life, renewal: Renewal) {
        let link = self.link(host);
        if link.hear(life) {
            link.recorded(life, renewal);
            self.open_awaited(host.as_str());
            return;
        }
        self.handle().end_awaiting(host.as_str());
        link.accept(life);
        link.recorded(life, renewal);
        log::info!(host = host.as_str(); "the agent of host {host} is accepted with life {life}");
        self.cell.hosts.opened(host.as_str(), link);
    }

    fn link(&self, host: &Name) -> Arc<NatsLink> {
        let new = || {
            let address = self.address.host(host.clone());
            NatsLink::new(self.env.clone(), self.connection.clone(), address, self.options.silence)
        };
        self.handle().link_or(host.as_str(), new)
    }

    /// True if the host is mapped to another cell. A host whose agent this process has accepted is not.
    async fn is_of_another_cell(&self, host: &str) -> Result<bool, DbError> {
        if self.handle().link(host).is_some() {
            return Ok(false);
        }
        match self.api.host_mapping(host).await {
            Ok(mapping) => Ok(mapping.cell_uuid != self.cell.uuid),
            Err(DbError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn cells_of_hosts(&self) -> Result<BTreeMap<String, Uuid>, DbError> {
        Ok(self.api.host_mappings().await?.into_iter().map(|mapping| (mapping.host, mapping.cell_uuid)).collect())
    }

    async fn ask<T>(&self, call: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
        self.cell.health.call(self.options.database_deadline, call).await
    }
}

/// Returns the accepted life if it is this one, and has not said goodbye.
fn at_work(record: &AgentRecord, life: Life) -> Option<AcceptedLife> {
    record.accepted.filter(|accepted| accepted.life == life.id() && accepted.last_word.is_none())
}
