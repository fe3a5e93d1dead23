//! Passwords are hashed with argon2id, a bounded number at a time, on blocking threads.

use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};
use cellshift_env::Env;
use cellshift_env::turns::{Turn, Turns};

use super::tokens::unavailable;
use crate::ServiceError;

/// The cost of a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    pub memory_kib: u32,
    pub passes: u32,
}

impl Cost {
    /// The minimum that OWASP recommends for argon2id with one lane.
    pub const OWASP: Cost = Cost { memory_kib: 19_456, passes: 2 };

    /// The cost for tests and simulations, whose accounts protect nothing.
    pub const CHEAP: Cost = Cost { memory_kib: 64, passes: 1 };
}

impl Default for Cost {
    fn default() -> Cost {
        Cost::OWASP
    }
}

/// Hashes passwords, and compares them with hashes.
pub struct Passwords {
    env: Env,
    cost: Cost,
    turns: Turns,
    /// The hash that a password is compared with when there is no such user, so that the time of an answer does not tell.
    nobodys_hash: String,
}

/// How a comparison ended.
pub enum Fit {
    No,
    /// The password matches. Contains a new hash if the old one costs less than a hash made today.
    Yes(Option<String>),
}

impl Passwords {
    /// Makes a hasher that computes at most `at_once` hashes concurrently.
    pub fn new(env: &Env, cost: Cost, at_once: usize) -> Result<Passwords, ServiceError> {
        let nobodys_hash = placeholder(cost).map_err(unavailable)?;
        Ok(Passwords { env: env.clone(), cost, turns: Turns::new(at_once), nobodys_hash })
    }

    /// Waits for a turn. `Unavailable` if too many logins wait already, or the wait takes too long.
    pub async fn turn(&self) -> Result<Turn, ServiceError> {
        let reason = "too many passwords are being checked, try again shortly";
        self.turns.take().await.ok_or_else(|| ServiceError::Unavailable { service: "identity", reason: reason.into() })
    }

    /// Hashes a password.
    pub async fn hash(&self, password: &str) -> Result<String, ServiceError> {
        let turn = self.turn().await?;
        let (salt, cost, password) = (*self.env.uuid().as_bytes(), self.cost, password.to_owned());
        let hashed = self.env.run_blocking(move || {
            let _turn = turn;
            hash(&password, &salt, cost)
        });
        hashed.await.map_err(unavailable)
    }

    /// Compares a password with the user's hash, or with the placeholder. Both take equally long.
    pub async fn compare(&self, turn: &Turn, password: &str, stored: Option<String>) -> Result<Fit, ServiceError> {
        let (salt, cost, password) = (*self.env.uuid().as_bytes(), self.cost, password.to_owned());
        let (turn, nobodys) = (turn.clone(), self.nobodys_hash.clone());
        let compared = self.env.run_blocking(move || {
            let _turn = turn;
            let Some(stored) = stored else {
                fits(&password, &nobodys);
                return Ok(Fit::No);
            };
            let fit = fits(&password, &stored);
            if !is_outdated(&stored, cost) {
                return Ok(if fit { Fit::Yes(None) } else { Fit::No });
            }
            // An older hash takes less time to check. Compute a new hash in any case, so that the time does not reveal whether the user
            // exists.
            let newer = hash(&password, &salt, cost)?;
            Ok(if fit { Fit::Yes(Some(newer)) } else { Fit::No })
        });
        compared.await.map_err(unavailable)
    }
}

/// Hashes a password under a salt of 16 bytes, as a PHC string.
pub fn hash(password: &str, salt: &[u8; 16], cost: Cost) -> Result<String, String> {
    let params = Params::new(cost.memory_kib, cost.passes, 1, None).map_err(|e| e.to_string())?;
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = hasher.hash_password_with_salt(password.as_bytes(), salt).map_err(|e| e.to_string())?;
    Ok(hash.to_string())
}

/// Returns a hash of this cost that no password matches. Its bytes are made up, because computing them would delay each start.
pub fn placeholder(cost: Cost) -> Result<String, String> {
    let Cost { memory_kib, passes } = cost;
    let text = format!("$argon2id$v=19$m={memory_kib},t={passes},p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    PasswordHash::new(&text).map_err(|e| e.to_string())?;
    Ok(text)
}

/// True if `password` matches `hash`. A malformed hash matches no password.
pub fn fits(password: &str, hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

/// True if the hash costs less than `cost`, or is of another kind.
pub fn is_outdated(hash: &str, cost: Cost) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return true };
    let number = |name: &str| hash.params.get_decimal(name).unwrap_or(0);
    hash.algorithm.as_str() != "argon2id" || number("m") < cost.memory_kib || number("t") < cost.passes
}
