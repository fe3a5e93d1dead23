//! Versioned notifications of sagas, in order.

use async_trait::async_trait;

use crate::domain::notification::Notification;
use crate::domain::reason::Reason;

/// The reason why a notification was not recorded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotifyError {
    /// The notifier does not answer, or is busy.
    #[error("the notifier is unavailable: {0}")]
    Unavailable(Reason),
    /// The file could not be written, for example on a full disk.
    #[error("the notification was not written: {0}")]
    Storage(Reason),
}

/// The receiver of sagas' notifications.
#[async_trait]
pub trait Notifications: Send + Sync {
    /// Records the notification after all earlier ones and gives its sequence number. A repetition (same operation, step
    /// and event, as after a retried step) within the recent window is not recorded again and gives the first one's
    /// number. A failed notification must not fail the operation it speaks of.
    async fn emit(&self, notification: Notification) -> Result<u64, NotifyError>;
}
