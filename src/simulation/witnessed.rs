//! A notifier that also writes the sagas' notifications into the trace.

use std::sync::Arc;

use async_trait::async_trait;

use super::trace::Trace;
use crate::chaos::experiment::short;
use crate::domain::notification::Notification;
use crate::saga::notifications::{Notifications, NotifyError};

/// A notifier behind a witness.
pub struct Witnessed {
    pub inner: Arc<dyn Notifications>,
    pub trace: Trace,
}

#[async_trait]
impl Notifications for Witnessed {
    async fn emit(&self, notification: Notification) -> Result<u64, NotifyError> {
        let title = format!("notify {} {} {}", short(notification.operation), notification.step, notification.event.event_type());
        let number = self.inner.emit(notification).await;
        self.trace.note(format!("{title} -> {}", number.as_ref().map_or_else(|error| error.to_string(), u64::to_string)));
        number
    }
}
