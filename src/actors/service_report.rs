//! How operators learn that the conductors and the scheduler of a process live: each reports while it works, and cell0 keeps the
//! moment, where `os-services` reads it beside the compute services of the other cells. The conductors of one process are one
//! service. An actor that stands still does not report, and its service is down when none has reported for too long.

use std::time::Duration;

use actix::prelude::*;

use super::cell::CellHandle;
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::db::cell::services::{SERVICE_VERSION, Service};
use crate::env::Env;

/// The binary of conductors.
pub const CONDUCTOR: &str = "nova-conductor";
/// The binary of schedulers.
pub const SCHEDULER: &str = "nova-scheduler";

/// Keeps a service's record fresh.
#[derive(Clone)]
pub struct ServiceReport {
    pub env: Env,
    pub cell0: CellHandle,
    /// The process's name.
    pub host: String,
    pub binary: &'static str,
    /// How often it reports.
    pub interval: Duration,
    /// How long the database may take.
    pub deadline: Duration,
}

impl ServiceReport {
    /// Reports now, and from now on as long as the actor works.
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
        Service {
            id: 0,
            uuid: self.env.uuid(),
            created_at: now,
            updated_at: None,
            host: self.host.clone(),
            binary: self.binary.to_owned(),
            topic: self.binary.trim_start_matches("nova-").to_owned(),
            availability_zone: "internal".to_owned(),
            disabled: false,
            disabled_reason: None,
            forced_down: false,
            last_seen_up: Some(now),
            report_count: 1,
            version: SERVICE_VERSION,
        }
    }
}
