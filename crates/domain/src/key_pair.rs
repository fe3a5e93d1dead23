//! Key pairs: users' public keys.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// A public key of a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeyPair {
    pub id: i32,
    pub created_at: DateTime<Utc>,
    pub user_id: String,
    /// No two keys of a user share a name.
    pub name: String,
    pub fingerprint: String,
    pub public_key: String,
    /// `ssh` or `x509`.
    pub key_type: String,
}
