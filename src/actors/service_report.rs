//! Reports to operators that the conductors and the scheduler of a process live. Each reports while it works; cell0 keeps the time of the
//! last report, and `os-services` shows it beside the compute services of the other cells. All conductors of a process are one service. An
//! actor that stands still does not report, and a service without a report for too long is down.

use std::time::Duration;

use actix::prelude::*;

use super::cell::CellHandle;
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::domain::service::Service;
use crate::env::Env;

/// The binary's name of conductors.
pub const CONDUCTOR: &str = "nova-conductor";
/// The binary's name of schedulers.
pub const SCHEDULER: &str = "nova-scheduler";

/// Keeps a service's record fresh.
#[derive(Clone)]
pub struct ServiceReport {
    pub env: Env,
    pub cell0: CellHandle,
    /// The process's name.
    pub host: String,
    pub binary: &'static str,
    /// The pause between two reports.
    pub interval: Duration,
    /// The time limit of a write.
    pub deadline: Duration,
}

impl ServiceReport {
    /// Reports now, and again at intervals as long as the actor works.
    pub fn keep<A: Actor<Context = Context<A>>>(&self, ctx: &mut Context<A>) {
        let (now, later) = (self.clone(), self.clone());
        ctx.run_later(Duration::ZERO, move |_, ctx| now.beat(ctx));
        ctx.run_interval(self.interval, move |_, ctx| later.beat(ctx));
    }

    fn beat<A: Actor<Context = Context<A>>>(&self, ctx: &mut Context<A>) {
        let report = self.clone();
        let beating = async move {
            if let Err(error) = report.cell0.health.call(report.deadline, report.record()).await {
                log::debug!(host = report.host.as_str(); "{} is not recorded as seen: {error}", report.binary);
            }
        };
        ctx.spawn(actix::fut::wrap_future(beating));
    }

    async fn record(&self) -> Result<(), DbError> {
        self.cell0.db.apply_unfenced(CellTxn::new().service_reports(self.as_new())).await
    }

    fn as_new(&self) -> Service {
        let now = self.env.now();
        Service { last_seen_up: Some(now), report_count: 1, ..Service::new(self.env.uuid(), &self.host, self.binary, "internal", now) }
    }
}
