//! Reads the hosts of a stopped service from their files, for the audit. Nothing runs, and no request is taken.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_domain::flavor::Resources;
use cellshift_domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostReport, HostRequest};
use cellshift_domain::reason;
use cellshift_domain::reason::{Inside, Reason};
use cellshift_domain::standing::Standing;
use cellshift_env::Env;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use uuid::Uuid;

use super::contents::{Reads, check_disks, followed};
use super::pages::{Holdings, Page};
use super::report::exports_of;
use super::{HostPlace, belonging, memory};
use crate::virt::files::Durability;
use crate::virt::simulated::Simulated;
use crate::virt::written::Writing;
use crate::virt::{Content, HostUnreachable, Hosts, Hypervisor, VirtError};

/// The reason why these hosts take no requests.
const STOPPED: &str = "the service is stopped";

/// The hosts below a directory of cells. They answer reports and take no requests.
pub struct StoredHosts {
    env: Env,
    cells_dir: PathBuf,
    deployment: Uuid,
    opened_at: DateTime<Utc>,
    /// By cell and name, opened at first use. None for a host that never started.
    drivers: Mutex<BTreeMap<(String, String), Driver>>,
}

type Driver = Option<Arc<Simulated>>;

impl StoredHosts {
    /// Makes the hosts of this deployment. The cells' directories are in `cells_dir`, by the cells' names.
    pub fn new(env: Env, cells_dir: PathBuf, deployment: Uuid) -> StoredHosts {
        StoredHosts { opened_at: env.now(), env, cells_dir, deployment, drivers: Mutex::default() }
    }

    async fn driver(&self, place: &HostPlace) -> Result<Driver, VirtError> {
        let key = (place.cell.clone(), place.host.clone());
        let driver = self.drivers.lock().get(&key).cloned();
        if let Some(driver) = driver {
            return Ok(driver);
        }
        let dir = place.guests_dir();
        let open = move || dir.is_dir().then(|| Simulated::open(&dir, Durability::Relaxed).map(Arc::new)).transpose();
        let opened = self.env.run_blocking(open).await?;
        self.drivers.lock().insert(key, opened.clone());
        Ok(opened)
    }

    async fn contents(&self, place: &HostPlace, server: Uuid) -> Result<HostAnswer, Reason> {
        match self.driver(place).await.map_err(|error| reason!("{error}"))? {
            None => Ok(HostAnswer::Contents(Vec::new())),
            Some(driver) => check_disks(&OnDisk { env: &self.env, driver }, server).await.map(HostAnswer::Contents),
        }
    }
}

/// The guests of a stopped host.
struct OnDisk<'a> {
    env: &'a Env,
    driver: Arc<Simulated>,
}

#[async_trait]
impl Reads for OnDisk<'_> {
    async fn contents(&self, server: Uuid) -> Result<Vec<Content>, Reason> {
        let driver = self.driver.clone();
        self.env.run_blocking(move || driver.contents(server)).await.map_err(|error| reason!("{error}"))
    }

    async fn follow(&self, writing: Writing, path: PathBuf, end: u64) -> Result<(Writing, io::Result<()>), Reason> {
        Ok(self.env.run_blocking(move || followed(writing, &path, end)).await)
    }
}

#[async_trait]
impl Hosts for StoredHosts {
    async fn request(&self, _: &str, _: &str, _: HostRequest) -> Result<HostReply, HostUnreachable> {
        Err(HostUnreachable::NotDelivered(STOPPED.into()))
    }

    async fn query(&self, cell: &str, host: &str, query: HostQuery, _: Duration) -> Result<HostAnswer, HostUnreachable> {
        match query {
            HostQuery::Progress { .. } => return Ok(HostAnswer::Progress { done: 0, total: 0 }),
            HostQuery::LiveProgress { .. } => return Ok(HostAnswer::LiveProgress(None)),
            HostQuery::Console { .. }
            | HostQuery::TypeLine { .. }
            | HostQuery::FreeFunctions
            | HostQuery::Summary
            | HostQuery::ExportTicket { .. }
            | HostQuery::Trial(_) => {
                return Err(HostUnreachable::NotDelivered(STOPPED.into()));
            }
            HostQuery::ForceComplete { .. } => return Ok(HostAnswer::Hastened(false)),
            HostQuery::Report | HostQuery::ReportPage { .. } | HostQuery::Guest { .. } | HostQuery::Contents { .. } => {}
        }
        let place = HostPlace { cell: cell.to_owned(), host: host.to_owned(), cell_dir: self.cells_dir.join(cell) };
        let silent = |reason: Reason| HostUnreachable::NotDelivered(reason!("its files cannot be read: {}", Inside(reason)));
        let (checked, deployment) = (place.clone(), self.deployment);
        let ours = self.env.run_blocking(move || belonging::check(&checked, deployment)).await;
        ours.map_err(|error| silent(reason!("{error}")))?;
        if let HostQuery::Contents { server } = query {
            return self.contents(&place, server).await.map_err(silent);
        }
        let driver = self.driver(&place).await.map_err(|error| silent(reason!("{error}")))?;
        let read = self.env.run_blocking(move || answer(&place, driver, &query)).await;
        read.map_err(|error| silent(reason!("{error}")))
    }

    async fn standing(&self, _: &str, _: &str) -> Standing {
        Standing::Silent { since: self.opened_at, reason: STOPPED.into() }
    }
}

/// Answers a question for the host's report, a page of it, or one guest. A host that never started has no directory and holds nothing.
fn answer(place: &HostPlace, driver: Driver, query: &HostQuery) -> Result<HostAnswer, Box<dyn std::error::Error + Send + Sync>> {
    let memories = memory::read(&place.memory_dir())?;
    let exports = exports_of(place)?;
    let fence = |server: Uuid| memories.get(&server).map_or((0, 0), |memory| memory.fence);
    let hypervisor = driver.as_deref().map(|driver| driver as &dyn Hypervisor);
    if let HostQuery::Guest { server } = *query {
        let guest = Holdings::of_server(server, hypervisor, exports)?.guest(server, fence(server))?;
        return Ok(HostAnswer::Guest(guest.map(Box::new)));
    }
    let page = match *query {
        HostQuery::ReportPage { after, limit } => Page { after, limit },
        _ => Page::default(),
    };
    let claims = memories.iter().filter(|(_, memory)| !memory.claims.is_empty());
    let claims = claims.map(|(server, memory)| (*server, memory.held())).collect();
    let read = Holdings::of(hypervisor, claims, exports)?.page(page, fence)?;
    Ok(HostAnswer::Report(HostReport {
        host: place.host.clone(),
        capacity: Resources::default(),
        claims: read.claims,
        guests: read.guests,
        up_since: None,
        next: read.next,
    }))
}
