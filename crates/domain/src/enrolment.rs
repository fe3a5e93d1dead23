//! Enrolments: the key with which the agent of a host may speak.

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// An enrolled host. Its cell's NATS server lets the agent with this key speak as the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enrolment {
    /// The host's name, which no two enrolments share.
    pub host: String,
    /// The cell in which the host is.
    pub cell: Uuid,
    /// The public half of the agent's key, which no two enrolments share. The service never has the secret half.
    pub public_key: String,
    /// The moment at which the host got this key.
    pub created_at: DateTime<Utc>,
}
