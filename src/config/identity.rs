//! Options of the embedded identity service.

use std::path::PathBuf;

use cellshift_embedded::identity::{Cost, Lockout, Settings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Seconds;

/// Tokens and passwords.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// The file with the keys that seal tokens, by default `token-keys` in the data directory. Services that share their databases must
    /// also share the keys: name one file, or copy it before each rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_keys: Option<PathBuf>,
    /// The maximum number of passwords checked concurrently; 0 means half of the cores. Further logins wait, and are answered 503 if they
    /// wait too long.
    pub password_checks: usize,
    /// The number of wrong passwords in a row that locks a user out; 0 locks nobody out.
    pub lockout_attempts: u32,
    /// The time of a lockout, from the last wrong password; 0 locks the user out until an administrator sets a password.
    pub lockout_duration: Seconds,
    /// The cost of a password's hash. No file can set it: only tests make it cheaper.
    #[serde(skip)]
    pub password_cost: Cost,
}

impl Default for Identity {
    fn default() -> Identity {
        let lockout_duration = Seconds::whole(1800);
        Identity { token_keys: None, password_checks: 0, lockout_attempts: 0, lockout_duration, password_cost: Cost::OWASP }
    }
}

impl Identity {
    /// Returns the settings for the service.
    pub fn settings(&self) -> Settings {
        let lockout = Lockout { attempts: self.lockout_attempts, duration: self.lockout_duration.duration() };
        let lockout = Some(lockout).filter(|lockout| lockout.attempts > 0);
        Settings { cost: self.password_cost, password_checks: self.password_checks, lockout }
    }
}
