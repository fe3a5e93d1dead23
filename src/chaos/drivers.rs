//! Drivers of hosts whose operations can be made to fail, as on a broken hypervisor.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::actors::hosts_here::HypervisorFactory;
use crate::virt::intercepted::{Call, Effect, Intercepted, Interceptor};
use crate::virt::{Operation, VirtError};

/// The armed faults of all hosts' drivers. Cheap to clone.
#[derive(Clone, Default)]
pub struct FaultyDrivers(Arc<Mutex<Armed>>);

/// By host and operation: the number of calls that will fail.
type Armed = BTreeMap<(String, Operation), u32>;

impl FaultyDrivers {
    /// Wraps a factory of drivers. A driver that is opened has no faults.
    pub fn over(&self, inner: HypervisorFactory) -> HypervisorFactory {
        let faults = self.clone();
        Arc::new(move |place, env| {
            faults.heal(&place.host);
            Ok(Arc::new(Intercepted::new(&place.host, inner(place, env)?, Arc::new(faults.clone()))))
        })
    }

    /// Lets the next `times` calls of this operation fail.
    pub fn fail_next(&self, host: &str, operation: Operation, times: u32) {
        self.0.lock().insert((host.to_owned(), operation), times);
    }

    /// Returns how many of the next calls of this operation will fail.
    pub fn failing(&self, host: &str, operation: Operation) -> u32 {
        self.0.lock().get(&(host.to_owned(), operation)).copied().unwrap_or_default()
    }

    /// Disarms all faults of a host.
    pub fn heal(&self, host: &str) {
        self.0.lock().retain(|(name, _), _| name != host);
    }

    fn pass(&self, host: &str, operation: Operation) -> Result<(), VirtError> {
        match self.0.lock().get_mut(&(host.to_owned(), operation)) {
            Some(left) if *left > 0 => {
                *left -= 1;
                let source = std::io::Error::other("an experiment makes it fail");
                Err(VirtError::Io { what: format!("the hypervisor fails at {operation}"), source })
            }
            _ => Ok(()),
        }
    }
}

impl Interceptor for FaultyDrivers {
    /// Fails an operation for which a fault is armed, before its effect.
    fn around<T>(&self, call: &Call<'_>, work: impl FnOnce() -> Result<T, VirtError>) -> Result<T, VirtError> {
        if let Effect::Operation(operation) = call.effect {
            self.pass(call.host, operation)?;
        }
        work()
    }
}
