//! The simulated hypervisor under watch: each start and stop of a guest is seen at that instant.

use std::sync::Arc;

use super::watch::Watch;
use crate::actors::hosts_here::HypervisorFactory;
use crate::virt::files::Durability;
use crate::virt::intercepted::{Call, Effect, Intercepted, Interceptor};
use crate::virt::simulated::Simulated;
use crate::virt::{Operation, VirtError};

/// Makes drivers that report to the watch.
pub fn watched(watch: Arc<Watch>) -> HypervisorFactory {
    Arc::new(move |place, env| {
        let driver = Arc::new(Simulated::open(&place.guests_dir(), Durability::of(env))?);
        watch.opened(&place.host, driver.clone());
        Ok(Arc::new(Intercepted::new(&place.host, driver, watch.clone())))
    })
}

impl Interceptor for Watch {
    /// Reports a guest that a call has started or stopped, and the loss of a host's guests.
    fn around<T>(&self, call: &Call<'_>, work: impl FnOnce() -> Result<T, VirtError>) -> Result<T, VirtError> {
        match (call.effect, call.server) {
            (Effect::Operation(Operation::Volume | Operation::Vif), _) => work(),
            (Effect::Operation(_), Some(server)) => {
                let runs = || call.driver.guest(server).ok().flatten().is_some_and(|guest| guest.runs());
                let before = runs();
                let outcome = work();
                let after = runs();
                if before != after {
                    self.turned(call.host, server, after);
                }
                outcome
            }
            (Effect::Interruption, _) => {
                let outcome = work();
                self.interrupted(call.host);
                outcome
            }
            _ => work(),
        }
    }
}
