//! The hosts of a service that is stopped, as their files tell: for the audit. Nothing runs and nothing can be asked to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::HostPlace;
use super::memory;
use super::report::{exports_of, guest_report};
use crate::domain::flavor::Resources;
use crate::domain::host_protocol::{GuestReport, HostAnswer, HostQuery, HostReply, HostReport, HostRequest};
use crate::env::Env;
use crate::virt::files::Durability;
use crate::virt::simulated::Simulated;
use crate::virt::{HostUnreachable, Hosts, Hypervisor};

/// Every host below a directory of cells. It answers reports and takes no request.
pub struct StoredHosts {
    env: Env,
    cells_dir: PathBuf,
}

impl StoredHosts {
    /// The hosts whose cells' directories are in `cells_dir`, by the cells' names.
    pub fn new(env: Env, cells_dir: PathBuf) -> StoredHosts {
        StoredHosts { env, cells_dir }
    }
}

#[async_trait]
impl Hosts for StoredHosts {
    async fn request(&self, _: &str, _: &str, _: HostRequest, _: Duration) -> Result<HostReply, HostUnreachable> {
        Err(HostUnreachable::NotDelivered("the service is stopped".into()))
    }

    async fn query(&self, cell: &str, host: &str, query: HostQuery, _: Duration) -> Result<HostAnswer, HostUnreachable> {
        if let HostQuery::Progress { .. } = query {
            return Ok(HostAnswer::Progress { done: 0, total: 0 });
        }
        let place = HostPlace { cell: cell.to_owned(), host: host.to_owned(), cell_dir: self.cells_dir.join(cell) };
        let read = self.env.run_blocking(move || report(&place)).await;
        read.map(HostAnswer::Report).map_err(|error| HostUnreachable::NotDelivered(format!("its files cannot be read: {error}")))
    }

    async fn is_alive(&self, _: &str, _: &str) -> bool {
        false
    }
}

/// What the host would report. A host that never started has no directory and holds nothing.
fn report(place: &HostPlace) -> Result<HostReport, Box<dyn std::error::Error + Send + Sync>> {
    let memories = memory::read(&place.memory_dir())?;
    let claims = memories.values().flat_map(|memory| memory.claims.iter().map(|(holder, amount)| (*holder, *amount))).collect();
    let fence = |server: Uuid| memories.get(&server).map_or((0, 0), |memory| memory.fence);
    let mut reports: BTreeMap<Uuid, GuestReport> = BTreeMap::new();
    let mut incoming = Vec::new();
    if place.guests_dir().is_dir() {
        let hypervisor = Simulated::open(&place.guests_dir(), Durability::Relaxed)?;
        for guest in hypervisor.guests()? {
            let server = guest.spec.server;
            reports.insert(server, guest_report(server, Some(&guest), fence(server)));
        }
        incoming = hypervisor.leftovers()?;
    }
    for (server, leftover) in incoming.into_iter().chain(exports_of(place)?) {
        reports.entry(server).or_insert_with(|| guest_report(server, None, fence(server))).leftovers.push(leftover);
    }
    Ok(HostReport { host: place.host.clone(), capacity: Resources::default(), claims, guests: reports.into_values().collect() })
}
