//! Tokens: Fernet-sealed, so that any process with the keys can judge them without a record of each.
//!
//! A token holds ids and times only; names and roles are looked up when it is judged, so what an administrator takes away
//! is gone at once.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use chrono::{DateTime, Utc};
use fernet::{Fernet, MultiFernet};
use serde::{Deserialize, Serialize};

use super::{Role, ServiceError, Target};
use crate::db::services::identity::Project;

/// What a token is good for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Only to ask for another.
    Unscoped,
    /// One project.
    Project(Project),
    /// The domain `default`.
    Domain,
    /// The whole deployment.
    System,
}

/// A valid token, read.
#[derive(Clone, PartialEq, Debug)]
pub struct Token {
    pub user_id: String,
    pub user_name: String,
    pub scope: Scope,
    /// With implied ones, by name.
    pub roles: Vec<Role>,
    /// `password`, `token`.
    pub methods: Vec<String>,
    pub issued_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    /// Its own id, then that of the first token it was made from.
    pub audit_ids: Vec<String>,
}

/// A token and the string that carries it.
#[derive(Clone, PartialEq, Debug)]
pub struct IssuedToken {
    pub id: String,
    pub token: Token,
}

/// What is sealed. Short names: it travels with every request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Payload {
    #[serde(rename = "u")]
    pub user_id: String,
    /// [`Target::as_text`], empty when unscoped.
    #[serde(rename = "s")]
    pub scope: String,
    #[serde(rename = "m")]
    pub methods: Vec<String>,
    /// Microseconds since 1970.
    #[serde(rename = "i")]
    pub issued_at: i64,
    #[serde(rename = "e")]
    pub expires_at: i64,
    #[serde(rename = "a")]
    pub audit_ids: Vec<String>,
}

impl Payload {
    /// Where the token is good; none when unscoped.
    pub(super) fn target(&self) -> Option<Target> {
        Target::parse(&self.scope)
    }

    pub(super) fn seal(&self, keys: &MultiFernet) -> Result<String, ServiceError> {
        let text = serde_json::to_vec(self).map_err(|e| unavailable(format!("a token cannot be written: {e}")))?;
        Ok(keys.encrypt(&text))
    }

    /// Reads what was sealed by any of the keys; the time is not judged here.
    pub(super) fn open(token: &str, keys: &MultiFernet) -> Option<Payload> {
        serde_json::from_slice(&keys.decrypt(token).ok()?).ok()
    }
}

/// The keys of a file, one per line: the first seals, all open. A file that does not exist is made with one new key.
pub(super) fn load_keys(file: &Path) -> Result<MultiFernet, ServiceError> {
    let failed = |e: &dyn std::fmt::Display| unavailable(format!("token keys in {}: {e}", file.display()));
    if !file.exists() {
        let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|e| failed(&e))?;
        // tempfile makes it readable for its owner only.
        let mut fresh = tempfile::NamedTempFile::new_in(folder).map_err(|e| failed(&e))?;
        writeln!(fresh, "{}", Fernet::generate_key()).map_err(|e| failed(&e))?;
        fresh.as_file().sync_all().map_err(|e| failed(&e))?;
        fresh.persist(file).map_err(|e| failed(&e))?;
    }
    let text = std::fs::read_to_string(file).map_err(|e| failed(&e))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Option<Vec<Fernet>> = lines.map(Fernet::new).collect();
    match keys {
        Some(keys) if !keys.is_empty() => Ok(MultiFernet::new(keys)),
        _ => Err(failed(&"each line must be a Fernet key (32 bytes in URL-safe base64), and there must be one")),
    }
}

/// Judged tokens, remembered for a moment so that a client's burst of requests costs one look-up.
#[derive(Default)]
pub(super) struct TokenCache {
    known: BTreeMap<String, (DateTime<Utc>, Token)>,
    /// Raised by [`TokenCache::clear`], so that a look-up that began before a change is not remembered after it.
    generation: u64,
}

/// Seconds that a judged token is believed without asking again.
const CACHE_SECONDS: i64 = 10;
/// Tokens remembered at most.
const CACHE_MAX: usize = 4096;

impl TokenCache {
    pub(super) fn get(&self, token: &str, now: DateTime<Utc>) -> Option<Token> {
        let (until, known) = self.known.get(token)?;
        (now < *until && now < known.expires_at).then(|| known.clone())
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn put(&mut self, token: &str, value: &Token, now: DateTime<Utc>, generation: u64) {
        if generation != self.generation {
            return;
        }
        if self.known.len() >= CACHE_MAX {
            self.known.clear();
        }
        self.known.insert(token.to_owned(), (now + chrono::TimeDelta::seconds(CACHE_SECONDS), value.clone()));
    }

    pub(super) fn clear(&mut self) {
        self.generation += 1;
        self.known.clear();
    }
}

pub(super) fn unavailable(reason: String) -> ServiceError {
    ServiceError::Unavailable { service: "identity", reason }
}
