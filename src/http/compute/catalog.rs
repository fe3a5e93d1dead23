//! The data of all handlers that do not serve `/servers`: the definitions in the API database, the cells' records, and the policy.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures::future::join_all;

use super::quota_usage::Counting;
use crate::actors::cell::CellHandle;
use crate::cell_registry::SilentCell;
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::db::cell::CellDb;
use crate::domain::network_agent::HostNetworks;
use crate::domain::policy::Target;
use crate::domain::quota::{Limits, QuotaLimits};
use crate::domain::service::Service;
use crate::env::Env;
use crate::env::turns::Turns;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::policy_file::PolicyFile;
use crate::services::placement::PlacementService;

/// The answer of one cell.
pub struct Heard<'a, T> {
    pub cell: &'a CellHandle,
    pub answer: Result<T, DbError>,
}

/// The answers of all cells.
pub struct Gathered<'a, T> {
    /// In the order of the cells.
    pub rows: Vec<(&'a CellHandle, T)>,
    /// The cells whose answer is missing.
    pub silent: Vec<SilentCell>,
}

/// The handlers' data. Share it as `web::Data`.
pub struct Catalog {
    pub env: Env,
    pub api: ApiDb,
    /// In a fixed order.
    pub cells: Vec<CellHandle>,
    pub placement: Arc<dyn PlacementService>,
    pub policy: Arc<PolicyFile>,
    /// A service that has not reported for this time is down.
    pub service_down_time: Duration,
    /// The time after which an answer goes on without a silent cell.
    pub cell_timeout: Duration,
    /// The zone of hosts that no aggregate puts into a zone.
    pub default_zone: String,
    /// The quotas that apply unless someone has set others.
    pub default_limits: Limits,
    /// The method of counting quota usage.
    pub counting: Counting,
    /// The maximum number of entries in one page of a list.
    pub max_limit: usize,
    /// If true, a list that cannot name its missing cells leaves them out; otherwise it is refused.
    pub skip_down_cells: bool,
    /// The networks of hosts, for their agents.
    pub host_networks: HostNetworks,
    /// Bounds how many x509 key pairs are made at a time.
    pub key_turns: Turns,
}

impl Catalog {
    /// Answers 403 unless the rule allows an action that concerns no particular owner.
    pub fn allow(&self, caller: &Caller, rule: &str) -> Result<(), ApiError> {
        self.policy.authorize(rule, &caller.0, &Target::own(&caller.0))
    }

    /// Answers 403 unless the rule allows an action on the project's property.
    pub fn allow_on_project(&self, caller: &Caller, rule: &str, project: &str) -> Result<(), ApiError> {
        self.policy.authorize(rule, &caller.0, &Target { project_id: project, user_id: "" })
    }

    /// True if the rule allows the caller.
    pub fn may(&self, caller: &Caller, rule: &str) -> bool {
        self.policy.check(rule, &caller.0, &Target::own(&caller.0))
    }

    /// True for administrators.
    pub fn is_admin(&self, caller: &Caller) -> bool {
        self.may(caller, "context_is_admin")
    }

    /// Returns the quotas of a project, or of one of its users.
    pub async fn limits_of(&self, project: &str, user: Option<&str>) -> Result<QuotaLimits, DbError> {
        self.api.quota_limits(&self.default_limits, project, user).await
    }

    /// Asks all cells concurrently, and returns their answers in the order of the cells. A cell that is down or too slow is unavailable.
    pub async fn ask_cells<'a, T, F>(&'a self, ask: impl Fn(&'a CellDb) -> F) -> Vec<Heard<'a, T>>
    where
        F: Future<Output = Result<T, DbError>> + 'a,
    {
        let questions = self.cells.iter().map(|cell| {
            let question = ask(&cell.db);
            async move { Heard { cell, answer: cell.health.call(self.cell_timeout, question).await } }
        });
        join_all(questions).await
    }

    /// Asks one cell. A cell that is down or too slow is unavailable.
    pub async fn ask<'a, T, F>(&self, cell: &'a CellHandle, ask: impl FnOnce(&'a CellDb) -> F) -> Result<T, DbError>
    where
        F: Future<Output = Result<T, DbError>> + 'a,
    {
        cell.health.call(self.cell_timeout, ask(&cell.db)).await
    }

    /// Collects the answers of all cells, and names and logs the silent ones.
    pub async fn gather_named<'a, T, F>(&'a self, ask: impl Fn(&'a CellDb) -> F) -> Gathered<'a, T>
    where
        F: Future<Output = Result<Vec<T>, DbError>> + 'a,
    {
        let mut gathered = Gathered { rows: Vec::new(), silent: Vec::new() };
        for heard in self.ask_cells(ask).await {
            match heard.answer {
                Ok(records) => gathered.rows.extend(records.into_iter().map(|record| (heard.cell, record))),
                Err(error) => {
                    log::warn!(cell = heard.cell.name.as_str(); "a cell is left out of an answer: {error}");
                    gathered.silent.push(SilentCell::new(heard.cell, &error));
                }
            }
        }
        gathered
    }

    /// Collects answers as [`Catalog::gather_named`] does, for answers that cannot name silent cells.
    pub async fn gather<'a, T, F>(&'a self, ask: impl Fn(&'a CellDb) -> F) -> Vec<(&'a CellHandle, T)>
    where
        F: Future<Output = Result<Vec<T>, DbError>> + 'a,
    {
        self.gather_named(ask).await.rows
    }

    /// Returns the cell that has the record, with the record. If no cell has it but a cell is silent, returns that cell's error.
    pub async fn find<'a, T, F>(&'a self, ask: impl Fn(&'a CellDb) -> F) -> Result<(&'a CellHandle, T), DbError>
    where
        F: Future<Output = Result<T, DbError>> + 'a,
    {
        let mut failure = DbError::NotFound("record".into());
        for heard in self.ask_cells(ask).await {
            match heard.answer {
                Ok(record) => return Ok((heard.cell, record)),
                Err(error @ DbError::NotFound(_)) if matches!(failure, DbError::NotFound(_)) => failure = error,
                Err(DbError::NotFound(_)) => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Returns the cell of a host. [`DbError::NotFound`] if it is mapped to none.
    pub async fn cell_of_host(&self, host: &str) -> Result<&CellHandle, DbError> {
        let mapping = self.api.host_mapping(host).await?;
        let cell = self.cells.iter().find(|cell| cell.uuid == mapping.cell_uuid);
        cell.ok_or_else(|| DbError::Defect(format!("host {host} is mapped to cell {}, which is not known here", mapping.cell_uuid)))
    }

    /// Returns the moment since which an up service has reported.
    pub fn seen_since(&self) -> DateTime<Utc> {
        let since = TimeDelta::from_std(self.service_down_time).ok().and_then(|time| self.env.now().checked_sub_signed(time));
        since.unwrap_or(DateTime::UNIX_EPOCH)
    }

    /// True if the service reported recently and no operator has forced its host down.
    pub fn is_up(&self, service: &Service) -> bool {
        let seen: DateTime<Utc> = service.last_seen_up.unwrap_or(service.created_at);
        let silent = (self.env.now() - seen).to_std().unwrap_or(Duration::ZERO);
        !service.forced_down && silent <= self.service_down_time
    }
}
