//! The scheduler: chooses the host of a new server or of a move, and claims it in placement (INVARIANTS C1 to C10).
//!
//! Promises: requests are handled concurrently, at most `max_in_flight` at once (further ones are answered "busy"), each for at most
//! `deadline` seconds. Decisions for servers in groups are made one after the other, and each sees the earlier claims; across controllers
//! the turn in which a member takes its place (`db::api::group_places`) closes the gap. Decisions for other servers that are made at once
//! count each other's choices (`cellshift_scheduler::assumed`). What is known of the hosts is kept by the databases'
//! handles and checked at each look (`db::mirror`), so a restart of the scheduler changes nothing.

mod decision;
mod explain;
pub mod host_state;
#[cfg(test)]
mod tests;

// The pure part of the scheduler is a crate of its own; its parts have the names here that they had before.
pub use cellshift_scheduler::{config, filters, port_providers, request, weighers};

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Context, Handler, MailboxError, Message, ResponseFuture};
use async_trait::async_trait;

use self::config::{ConfigError, SchedulerConfig};
use self::decision::Decider;
use self::host_state::HostStates;
use crate::actors::address::Address;
use crate::actors::service_report::ServiceReport;
use crate::actors::supervision::requests::{Limits, Unanswered};
use crate::actors::supervision::{DeathGuard, supervised};
use crate::domain::reason;
use crate::env::Env;
use crate::metrics::{Level, Mailbox, STALE};
use crate::saga::explanation::Explanation;
use crate::saga::scheduling::{PlannedMove, Scheduling, SchedulingError, SelectDestinations, Selection};
use crate::services::placement::PlacementService;

/// Asks for a decision.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, Message)]
#[rtype(result = "Result<Selection, SchedulingError>")]
pub struct Select(pub SelectDestinations);

/// Asks for the verdict on every host as a destination of this request, when these planned moves have taken their room.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, Message)]
#[rtype(result = "Result<Explanation, SchedulingError>")]
pub struct ExplainDestinations(pub SelectDestinations, pub Vec<PlannedMove>);

/// The actor.
pub struct Scheduler {
    decider: Arc<Decider>,
    limits: Limits,
    /// The report to operators that the scheduler lives.
    report: Option<ServiceReport>,
    _guard: Option<DeathGuard>,
}

impl Scheduler {
    /// Checks the configuration. An unknown filter or weigher is an error that should stop the start.
    pub fn new(
        config: SchedulerConfig,
        placement: Arc<dyn PlacementService>,
        hosts: Arc<dyn HostStates>,
        env: &Env,
    ) -> Result<Scheduler, ConfigError> {
        let limits = Limits::new(config.max_in_flight, Duration::from_secs(config.deadline));
        Ok(Scheduler { decider: Arc::new(Decider::new(config, placement, hosts, env)?), limits, report: None, _guard: None })
    }

    /// Reports to operators that the scheduler lives.
    pub fn reporting(self, report: Option<ServiceReport>) -> Scheduler {
        Scheduler { report, ..self }
    }

    /// Makes another incarnation with the same configuration; `guard` reports its death.
    pub fn next_life(&self, guard: DeathGuard) -> Scheduler {
        let (decider, limits) = (Arc::clone(&self.decider), self.limits.clone());
        Scheduler { decider, limits, report: self.report.clone(), _guard: Some(guard) }
    }

    /// Runs `work` until the deadline, if there is room.
    fn bounded<T: 'static>(
        &self,
        work: impl AsyncFnOnce(Arc<Decider>) -> Result<T, SchedulingError> + 'static,
    ) -> ResponseFuture<Result<T, SchedulingError>> {
        let work = self.limits.within(work(Arc::clone(&self.decider)));
        Box::pin(async move {
            match work.await {
                Ok(outcome) => outcome,
                Err(Unanswered::Late(deadline)) => {
                    Err(SchedulingError::Unavailable { reason: reason!("no decision within {} s", deadline.as_secs()) })
                }
                Err(busy) => Err(SchedulingError::Unavailable { reason: reason!("{busy}") }),
            }
        })
    }
}

impl Actor for Scheduler {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(report) = &self.report {
            report.keep(ctx);
        }
    }
}

supervised!(Scheduler);

impl Handler<Select> for Scheduler {
    type Result = ResponseFuture<Result<Selection, SchedulingError>>;

    fn handle(&mut self, Select(request): Select, _: &mut Context<Self>) -> Self::Result {
        self.bounded(async move |decider| {
            let (server, operation) = (request.request_spec.instance_uuid, request.operation);
            let outcome = decider.select(request).await;
            match &outcome {
                Ok(chosen) => log::debug!(
                    server:% = server;
                    "{operation}: chose {} in {} with {} alternates", chosen.primary.host, chosen.primary.cell, chosen.alternates.len()
                ),
                Err(error) => log::info!(server:% = server; "{operation}: {error}"),
            }
            outcome
        })
    }
}

impl Handler<ExplainDestinations> for Scheduler {
    type Result = ResponseFuture<Result<Explanation, SchedulingError>>;

    fn handle(&mut self, ExplainDestinations(request, planned): ExplainDestinations, _: &mut Context<Self>) -> Self::Result {
        self.bounded(async move |decider| decider.explain(request, &planned).await)
    }
}

/// The scheduler's address for other actors. Outlives a restart of the scheduler.
#[derive(Clone)]
pub struct SchedulerHandle {
    address: Address<Scheduler>,
    env: Env,
    /// The requests without an answer.
    in_flight: Level,
}

impl SchedulerHandle {
    /// Makes a handle of the actor behind an address.
    pub fn new(address: Address<Scheduler>, env: &Env) -> SchedulerHandle {
        SchedulerHandle { address, env: env.clone(), in_flight: env.metrics().messages(Mailbox::Scheduler) }
    }
}

fn not_reached(error: MailboxError) -> SchedulingError {
    SchedulingError::Unavailable { reason: reason!("the scheduler is restarting: {error}") }
}

/// Returns the word for a decision in metrics.
fn outcome_of(answer: &Result<Selection, SchedulingError>) -> &'static str {
    match answer {
        Ok(_) => "chosen",
        Err(SchedulingError::NoValidHost { .. }) => "no_valid_host",
        Err(SchedulingError::Unavailable { .. }) => "unavailable",
        Err(SchedulingError::Stale { .. }) => STALE,
        Err(SchedulingError::Invalid { .. }) => "invalid",
    }
}

#[async_trait]
impl Scheduling for SchedulerHandle {
    async fn select_destinations(&self, request: SelectDestinations) -> Result<Selection, SchedulingError> {
        let (operation, watch, _within) = (request.operation.to_string(), self.env.stopwatch(), self.in_flight.enter());
        let answer = self.address.get().send(Select(request)).await.map_err(not_reached).and_then(|answer| answer);
        self.env.metrics().scheduled(&operation, outcome_of(&answer), watch.elapsed());
        answer
    }

    async fn explain(&self, request: SelectDestinations, planned: Vec<PlannedMove>) -> Result<Explanation, SchedulingError> {
        let _within = self.in_flight.enter();
        self.address.get().send(ExplainDestinations(request, planned)).await.map_err(not_reached)?
    }
}
