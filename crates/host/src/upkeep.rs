//! The work that a host does by itself: its interrupted guests, its running guests, and the servers that are gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cellshift_domain::fence::Fence;
use cellshift_domain::host_protocol::FORGOTTEN_AT_ONCE;
use cellshift_env::guard::{Guard, stands};
use futures::future::BoxFuture;
use uuid::Uuid;

use crate::host::{CommandError, Host};
use crate::lanes::Entry;
use crate::virt::{GuestRecord, StopCause};

impl Host {
    /// Does the host's own work for ever: asks for interrupted guests, lets running ones write, and forgets servers. It runs beside the
    /// requests, and ends when it is dropped.
    pub async fn keep_up(self: Arc<Self>) {
        let options = &self.parts.options;
        let (tick, resume, forget) = (options.tick, options.resume_interval, options.forget_interval);
        let resuming = while_guests(resume, self.clone(), |host| Box::pin(async move { host.resume().await }));
        let forgetting = every(forget, self.clone(), |host| Box::pin(async move { host.forget_servers().await }));
        let ticking = while_guests(tick, self.clone(), |host| {
            Box::pin(async move {
                let hypervisor = host.parts.site.hypervisor.clone();
                // Fails only if a successor has taken over; the successor ticks then.
                let _ = host.blocking(move || hypervisor.tick()).await;
            })
        });
        futures::join!(self.resume(), resuming, forgetting, ticking);
    }

    /// Asks for the guests that ran when the host went away, and starts those that it may run. The others stay off; the next look asks for
    /// them again.
    pub async fn resume(&self) {
        let guests = match self.virt(|hypervisor| hypervisor.guests()).await {
            Ok(guests) => guests,
            Err(CommandError::Failed(reason) | CommandError::Refused(reason)) => {
                log::warn!(host = self.host(); "the host cannot look for interrupted guests: {reason}");
                return;
            }
            Err(CommandError::Overtaken) => return,
        };
        let asker = self.asker();
        let interrupted = guests.into_iter().filter(|guest| guest.defined && was_interrupted(guest));
        for guest in interrupted {
            let server = guest.spec.server;
            let answer = self.parts.upward.may_run(&asker, server);
            let answer = tokio::time::timeout(self.parts.options.oracle_patience, answer).await;
            let Ok(Some((epoch, attempt))) = answer else { continue };
            self.resume_guest(Fence { server, epoch, attempt }).await;
        }
    }

    /// Forgets the fences of servers that the deployment has forgotten. Keeps the fence of a server whose guest is here.
    async fn forget_servers(&self) {
        let Ok(guests) = self.virt(|hypervisor| hypervisor.guests()).await else { return };
        let present: BTreeSet<Uuid> = guests.into_iter().map(|guest| guest.spec.server).collect();
        let idle: Vec<Uuid> = self.lanes.idle().into_iter().filter(|server| !present.contains(server)).collect();
        let asker = self.asker();
        for part in idle.chunks(FORGOTTEN_AT_ONCE) {
            let answer = self.parts.upward.forgotten(&asker, part.to_vec());
            let Ok(forgotten) = tokio::time::timeout(self.parts.options.oracle_patience, answer).await else { return };
            for server in forgotten.into_iter().filter(|server| self.lanes.forget(*server)) {
                let store = self.store.clone();
                if let Ok(Err(error)) = self.blocking(move || store.forget(server)).await {
                    log::warn!(server:% = server, host = self.host(); "the host cannot remove what it remembers of a server that is gone: {error}");
                }
            }
        }
    }

    async fn resume_guest(&self, fence: Fence) {
        // Differs from a command's digest, so that neither the reply to a command nor this start stands in for the other.
        let admission = match self.lanes.admit(fence, "resume".to_owned(), None) {
            Entry::Run(admission) => admission,
            Entry::Join(mut other) => {
                // Another request starts the guest. No reply comes; the channel closes at the end.
                let _ = other.wait_for(Option::is_some).await;
                return;
            }
            Entry::Answer(_) | Entry::Busy => return,
        };
        let _turn = admission.turn.lock().await;
        if admission.stale().is_some() {
            return;
        }
        let started = async {
            self.raise(fence.server).await?;
            let guest = self.guest(fence.server).await?;
            match guest.filter(|guest| guest.defined && was_interrupted(guest)) {
                None => Ok(()),
                Some(guest) => self.power_on(&admission, guest).await,
            }
        };
        match started.await {
            Ok(()) => log::info!(server:% = fence.server, host = self.host(); "the guest runs again after its host came back"),
            Err(CommandError::Refused(reason) | CommandError::Failed(reason)) => {
                log::warn!(server:% = fence.server, host = self.host(); "the guest cannot be started again: {reason}");
            }
            Err(CommandError::Overtaken) => {}
        }
    }
}

/// True if the guest ran when its host went away, and nobody has stopped it since.
fn was_interrupted(guest: &GuestRecord) -> bool {
    let was_stopped = stands(Guard::InterruptedGuest) && guest.stopped_by != Some(StopCause::HostDown);
    !was_stopped
}

/// Repeats work at intervals, one run at a time; zero for never.
async fn every(pace: Duration, host: Arc<Host>, work: impl Fn(Arc<Host>) -> BoxFuture<'static, ()>) {
    while !pace.is_zero() {
        tokio::time::sleep(pace).await;
        work(host.clone()).await;
    }
}

/// Repeats work on guests, as [`every`] does. While the host has no guest, it waits for a command, which alone can bring a guest.
async fn while_guests(pace: Duration, host: Arc<Host>, work: impl Fn(Arc<Host>) -> BoxFuture<'static, ()>) {
    let mut carried_out = host.carried_out.subscribe();
    while !pace.is_zero() {
        carried_out.mark_unchanged();
        if host.parts.site.hypervisor.has_guests() {
            tokio::time::sleep(pace).await;
            work(host.clone()).await;
        } else if carried_out.changed().await.is_err() {
            return;
        }
    }
}
