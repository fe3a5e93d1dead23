//! The simulated hypervisor under watch: each start and stop of a guest is seen at that instant.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use uuid::Uuid;

use super::watch::Watch;
use crate::actors::cell::HypervisorFactory;
use crate::domain::guest::{GuestSpec, GuestVif, GuestVolume};
use crate::virt::files::Durability;
use crate::virt::simulated::Simulated;
use crate::virt::written::Written;
use crate::virt::{Content, DiskFile, GuestRecord, Hypervisor, StopCause, VirtError};

/// A host's driver.
struct Watched {
    host: String,
    inner: Arc<Simulated>,
    watch: Arc<Watch>,
}

/// Makes drivers that report to the watch.
pub fn watched(watch: Arc<Watch>) -> HypervisorFactory {
    Arc::new(move |place, env| {
        let inner = Arc::new(Simulated::open(&place.guests_dir(), Durability::of(env))?);
        watch.opened(&place.host, inner.clone());
        Ok(Arc::new(Watched { host: place.host.clone(), inner, watch: watch.clone() }))
    })
}

impl Watched {
    fn runs(&self, server: Uuid) -> bool {
        self.inner.guest(server).ok().flatten().is_some_and(|guest| guest.runs())
    }

    /// Works on a guest, and reports if it started or stopped.
    fn turning<T>(&self, server: Uuid, work: impl FnOnce(&Simulated) -> Result<T, VirtError>) -> Result<T, VirtError> {
        let before = self.runs(server);
        let result = work(&self.inner);
        let after = self.runs(server);
        if before != after {
            self.watch.turned(&self.host, server, after);
        }
        result
    }
}

impl Hypervisor for Watched {
    fn guests(&self) -> Result<Vec<GuestRecord>, VirtError> {
        self.inner.guests()
    }

    fn has_guests(&self) -> bool {
        self.inner.has_guests()
    }

    fn guest(&self, server: Uuid) -> Result<Option<GuestRecord>, VirtError> {
        self.inner.guest(server)
    }

    fn disks(&self, server: Uuid) -> Result<Vec<DiskFile>, VirtError> {
        self.inner.disks(server)
    }

    fn contents(&self, server: Uuid) -> Result<Vec<Content>, VirtError> {
        self.inner.contents(server)
    }

    fn clear_incoming(&self, server: Uuid) -> Result<PathBuf, VirtError> {
        self.inner.clear_incoming(server)
    }

    fn discard_incoming(&self, server: Uuid) -> Result<(), VirtError> {
        self.inner.discard_incoming(server)
    }

    fn leftovers(&self) -> Result<Vec<(Uuid, String)>, VirtError> {
        self.inner.leftovers()
    }

    fn define(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError> {
        self.turning(spec.server, |inner| inner.define(spec, arrived))
    }

    fn start(&self, server: Uuid, epoch: i64) -> Result<(), VirtError> {
        self.turning(server, |inner| inner.start(server, epoch))
    }

    fn stop(&self, server: Uuid, cause: StopCause, orderly: bool) -> Result<bool, VirtError> {
        self.turning(server, |inner| inner.stop(server, cause, orderly))
    }

    fn pause(&self, server: Uuid, cause: StopCause) -> Result<(), VirtError> {
        self.turning(server, |inner| inner.pause(server, cause))
    }

    fn suspend(&self, server: Uuid) -> Result<(), VirtError> {
        self.turning(server, |inner| inner.suspend(server))
    }

    fn arrive_paused(&self, server: Uuid, epoch: i64, memory: Vec<u8>) -> Result<(), VirtError> {
        self.turning(server, |inner| inner.arrive_paused(server, epoch, memory))
    }

    fn resume(&self, server: Uuid, epoch: i64, arrived: Option<Vec<u8>>) -> Result<(), VirtError> {
        self.turning(server, |inner| inner.resume(server, epoch, arrived))
    }

    fn rescue(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError> {
        self.turning(spec.server, |inner| inner.rescue(spec, arrived))
    }

    fn is_rescued(&self, server: Uuid) -> Result<bool, VirtError> {
        self.inner.is_rescued(server)
    }

    fn unrescue(&self, server: Uuid) -> Result<(), VirtError> {
        self.turning(server, |inner| inner.unrescue(server))
    }

    fn inject_nmi(&self, server: Uuid) -> Result<(), VirtError> {
        self.inner.inject_nmi(server)
    }

    fn set_password(&self, server: Uuid, hash: &str) -> Result<(), VirtError> {
        self.inner.set_password(server, hash)
    }

    fn memory(&self, server: Uuid) -> Result<Vec<u8>, VirtError> {
        self.inner.memory(server)
    }

    fn memory_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError> {
        self.inner.memory_write(server, bytes)
    }

    fn undefine(&self, server: Uuid) -> Result<(), VirtError> {
        self.turning(server, |inner| inner.undefine(server))
    }

    fn remove(&self, server: Uuid) -> Result<(), VirtError> {
        self.turning(server, |inner| inner.remove(server))
    }

    fn connect_volume(&self, server: Uuid, volume: &GuestVolume) -> Result<(), VirtError> {
        self.inner.connect_volume(server, volume)
    }

    fn disconnect_volume(&self, server: Uuid, volume: Uuid) -> Result<(), VirtError> {
        self.inner.disconnect_volume(server, volume)
    }

    fn add_vif(&self, server: Uuid, vif: &GuestVif) -> Result<(), VirtError> {
        self.inner.add_vif(server, vif)
    }

    fn remove_vif(&self, server: Uuid, port: Uuid) -> Result<(), VirtError> {
        self.inner.remove_vif(server, port)
    }

    fn interrupted(&self, resume: bool) -> Result<(), VirtError> {
        let done = self.inner.interrupted(resume);
        self.watch.interrupted(&self.host);
        done
    }

    fn console(&self, server: Uuid) -> Result<String, VirtError> {
        self.inner.console(server)
    }

    fn type_line(&self, server: Uuid, line: &str) -> Result<(), VirtError> {
        self.inner.type_line(server, line)
    }

    fn tick(&self) {
        self.inner.tick();
    }

    fn guest_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError> {
        self.inner.guest_write(server, bytes)
    }
}
