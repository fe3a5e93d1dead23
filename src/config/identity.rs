//! Options of the embedded identity service.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Seconds;
use crate::services::identity::{Cost, Lockout, Settings};

/// Tokens and passwords.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// The file of the keys that seal tokens, by default `token-keys` under the data directory. Services that share their databases
    /// must share the keys, too: name one file, or copy it before each rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_keys: Option<PathBuf>,
    /// Passwords checked at a time; 0 takes half of the cores. Logins past it wait their turn, and are answered 503 when it does not come.
    pub password_checks: usize,
    /// A user who gives so many wrong passwords in a row is locked out; 0 locks nobody out.
    pub lockout_attempts: u32,
    /// How long, from the last wrong one; 0 locks the user out until an administrator sets a password.
    pub lockout_duration: Seconds,
    /// The cost of a password's hash. No file says it: only tests make it cheaper.
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
    /// As the service takes them.
    pub fn settings(&self) -> Settings {
        let lockout = Lockout { attempts: self.lockout_attempts, duration: self.lockout_duration.duration() };
        let lockout = Some(lockout).filter(|lockout| lockout.attempts > 0);
        Settings { cost: self.password_cost, password_checks: self.password_checks, lockout }
    }
}
