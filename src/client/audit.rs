//! The deep audit of a running service, which tells its progress meanwhile.

use std::ops::ControlFlow;

use super::{Client, ClientError, Event, OPERATORS};
use crate::chaos::audit::{Progress, Report};

/// The reason why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum DeepAuditError {
    /// The service did not answer, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The answer ended without a report.
    #[error("the service stopped before the audit had ended")]
    Ended,
    /// The report cannot be read.
    #[error("the audit's report cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// Lets the service audit itself and read all bytes. `observer` learns of the progress.
pub async fn deep_audit(client: &Client, mut observer: impl FnMut(&Progress)) -> Result<Report, DeepAuditError> {
    let mut report = None;
    let on_event = |event: Event<'_>| {
        match event.name {
            "progress" => observer(&serde_json::from_str(event.data).unwrap_or_default()),
            "report" => report = Some(serde_json::from_str(event.data)),
            _ => {}
        }
        ControlFlow::Continue(())
    };
    client.events(OPERATORS, "/audit?deep=true", None, on_event).await?;
    Ok(report.ok_or(DeepAuditError::Ended)??)
}
