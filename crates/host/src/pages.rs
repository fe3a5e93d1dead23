//! A host's report in pages: each has all that the host has of some servers, in the order of their ids, and is smaller than a message may be.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use cellshift_domain::host_protocol::{GuestReport, HostClaim};
use serde::Serialize;
use uuid::Uuid;

use super::contents::disk_reports;
use super::report::guest_report;
use crate::virt::{GuestRecord, Hypervisor, VirtError};

/// The size, in bytes of JSON, at which a page ends. What the host has of one server is far smaller than the rest of a message.
const ENOUGH: usize = 256 << 10;

/// The wish for a page.
#[derive(Clone, Copy, Default)]
pub(super) struct Page {
    /// The page begins after this server.
    pub after: Option<Uuid>,
    /// The maximum number of servers.
    pub limit: Option<u32>,
}

/// The parts of a report that need no look at the guests' files.
pub(super) struct Holdings<'a> {
    /// None for a host that never started.
    hypervisor: Option<&'a dyn Hypervisor>,
    guests: BTreeMap<Uuid, GuestRecord>,
    leftovers: BTreeMap<Uuid, Vec<String>>,
    claims: BTreeMap<Uuid, Vec<(Uuid, HostClaim)>>,
}

/// A page that was read.
pub(super) struct ReadPage {
    pub claims: Vec<(Uuid, HostClaim)>,
    pub guests: Vec<GuestReport>,
    /// The page's last server, if there are more.
    pub next: Option<Uuid>,
}

impl<'a> Holdings<'a> {
    /// Asks the driver for its guests and leftovers. Blocking.
    pub fn of(
        hypervisor: Option<&'a dyn Hypervisor>,
        claims: BTreeMap<Uuid, Vec<(Uuid, HostClaim)>>,
        exports: Vec<(Uuid, String)>,
    ) -> Result<Holdings<'a>, VirtError> {
        let (mut guests, mut left) = (Vec::new(), Vec::new());
        if let Some(hypervisor) = hypervisor {
            (guests, left) = (hypervisor.guests()?, hypervisor.leftovers()?);
        }
        let guests = guests.into_iter().map(|guest| (guest.spec.server, guest)).collect();
        Ok(Holdings { hypervisor, guests, leftovers: by_server(left.into_iter().chain(exports)), claims })
    }

    /// Asks the driver for what it has of one server. Blocking.
    pub fn of_server(
        server: Uuid,
        hypervisor: Option<&'a dyn Hypervisor>,
        exports: Vec<(Uuid, String)>,
    ) -> Result<Holdings<'a>, VirtError> {
        let (mut guest, mut left) = (None, Vec::new());
        if let Some(hypervisor) = hypervisor {
            (guest, left) = (hypervisor.guest(server)?, hypervisor.leftovers()?);
        }
        let left = left.into_iter().chain(exports).filter(|(of, _)| *of == server);
        let guests = guest.into_iter().map(|guest| (server, guest)).collect();
        Ok(Holdings { hypervisor, guests, leftovers: by_server(left), claims: BTreeMap::new() })
    }

    /// Reads a page, and the lengths of its guests' files. `fence` tells the highest fence obeyed for a server. Blocking.
    pub fn page(mut self, page: Page, fence: impl Fn(Uuid) -> (i64, i64)) -> Result<ReadPage, VirtError> {
        let servers: BTreeSet<Uuid> = self.guests.keys().chain(self.leftovers.keys()).chain(self.claims.keys()).copied().collect();
        let first = page.after.map_or(Bound::Unbounded, Bound::Excluded);
        let limit = page.limit.map_or(usize::MAX, |limit| limit.max(1) as usize);
        let mut read = ReadPage { claims: Vec::new(), guests: Vec::new(), next: None };
        let (mut size, mut last) = (0, None);
        for (count, server) in servers.range((first, Bound::Unbounded)).enumerate() {
            if count >= limit || size >= ENOUGH {
                read.next = last;
                break;
            }
            let claims = self.claims.remove(server).unwrap_or_default();
            let guest = self.guest(*server, fence(*server))?;
            size += size_of(&claims) + size_of(&guest);
            read.claims.extend(claims);
            read.guests.extend(guest);
            last = Some(*server);
        }
        Ok(read)
    }

    /// Reads what the host has of one server's guest. None if there is neither a guest nor a file. Blocking.
    pub fn guest(&mut self, server: Uuid, fence: (i64, i64)) -> Result<Option<GuestReport>, VirtError> {
        let (guest, leftovers) = (self.guests.get(&server), self.leftovers.remove(&server));
        if guest.is_none() && leftovers.is_none() {
            return Ok(None);
        }
        // A guest that is removed meanwhile has no files.
        let contents = self.hypervisor.filter(|_| guest.is_some()).map(|hypervisor| hypervisor.contents(server)).transpose()?;
        let disks = contents.map(disk_reports).unwrap_or_default();
        Ok(Some(GuestReport { disks, leftovers: leftovers.unwrap_or_default(), ..guest_report(server, guest, fence) }))
    }
}

fn by_server(left: impl Iterator<Item = (Uuid, String)>) -> BTreeMap<Uuid, Vec<String>> {
    let mut leftovers: BTreeMap<Uuid, Vec<String>> = BTreeMap::new();
    for (server, leftover) in left {
        leftovers.entry(server).or_default().push(leftover);
    }
    leftovers
}

fn size_of(part: &impl Serialize) -> usize {
    serde_json::to_vec(part).map_or(0, |text| text.len())
}
