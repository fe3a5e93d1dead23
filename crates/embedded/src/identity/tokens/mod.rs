//! Tokens: sealed with Fernet, so that any process with the keys can validate them without a record of each.
//!
//! A token contains ids and times only. Names and roles are looked up at validation, so a change by an administrator works at once. A right
//! that is taken away also revokes the former tokens, and giving it back does not revive them.

pub mod authentication;
pub mod records;
pub mod revocations;
pub mod routes;

use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cellshift_domain::reason::Reason;
use chrono::{DateTime, Utc};
use lru::LruCache;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::keys::KeySet;
use super::{Project, Role, ServiceError, Target};

/// A domain as a token names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainName {
    pub id: String,
    pub name: String,
}

/// The scope of a valid token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Only usable to request another token.
    Unscoped,
    /// A project, and its domain.
    Project { project: Project, domain: DomainName },
    /// A domain.
    Domain(DomainName),
    /// The whole deployment.
    System,
}

/// A validated token.
#[derive(Clone, PartialEq, Debug)]
pub struct Token {
    pub user_id: String,
    pub user_name: String,
    pub user_domain: DomainName,
    pub scope: Scope,
    /// Includes implied roles, ordered by name.
    pub roles: Vec<Role>,
    /// `password`, `token`, `application_credential`.
    pub methods: Vec<String>,
    pub issued_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    /// The token's own id, then the id of the first token in its chain.
    pub audit_ids: Vec<String>,
    /// The application credential that the token was got with.
    pub application_credential: Option<TokenCredential>,
}

/// The application credential of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenCredential {
    pub id: String,
    pub name: String,
    /// The token may not make or delete application credentials.
    pub restricted: bool,
}

/// A token and its string form.
#[derive(Clone, PartialEq, Debug)]
pub struct IssuedToken {
    pub id: String,
    pub token: Token,
}

/// The sealed contents of a token. Names are short because they travel with each request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Payload {
    #[serde(rename = "u")]
    pub user_id: String,
    /// The text of [`Target::as_text`]; empty if unscoped.
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
    /// The accounts' revision when the user last authenticated. A revocation at a later revision voids the token, independent of clocks. 0
    /// in tokens of older releases.
    #[serde(rename = "r", default)]
    pub revision: i64,
    /// The id of the application credential that the token was got with.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
}

impl Payload {
    /// Returns the token's scope; none if unscoped.
    pub(super) fn target(&self) -> Option<Target> {
        Target::parse(&self.scope)
    }

    pub(super) fn seal(&self, keys: &KeySet) -> Result<String, ServiceError> {
        let text = serde_json::to_vec(self).map_err(|e| unavailable(format!("a token cannot be written: {e}")))?;
        Ok(keys.seal_token(&text))
    }

    /// Opens a token that any of the keys sealed. Does not check its expiry.
    pub(super) fn open(token: &str, keys: &KeySet) -> Option<Payload> {
        serde_json::from_slice(&keys.open_token(token)?).ok()
    }
}

/// A cache of judged tokens, valid while their basis is unchanged, so that a client's requests cost one look-up.
///
/// Each change of accounts, in any process, raises their revision in the database. The revision is read at most once per [`ASK_EVERY`]; a
/// new revision clears the cache.
pub struct TokenCache {
    /// Each token with the time until which its judgement is trusted.
    judged: LruCache<String, (DateTime<Utc>, Token)>,
    /// The revision at which all cached tokens were judged.
    revision: i64,
    read_at: Option<Instant>,
    /// The number of changes made in this process.
    doubts: u64,
    /// The keys that opened the cached tokens.
    keys: Weak<KeySet>,
}

/// A pending read of the revision.
pub struct Question {
    read_at: Instant,
    doubts: u64,
}

/// The time for which the revision is trusted: a revocation by another process takes effect within it.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// The seconds for which a judged token is trusted even at the same revision, in case the database was changed outside this program.
const CACHE_SECONDS: i64 = 10;
/// The maximum number of cached tokens; the least recently used one is dropped first.
pub const CACHE_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("it is above 0");

impl Default for TokenCache {
    fn default() -> TokenCache {
        TokenCache { judged: LruCache::sparse(CACHE_MAX), revision: 0, read_at: None, doubts: 0, keys: Weak::new() }
    }
}

impl TokenCache {
    /// Returns a cached token that may still be trusted now. Marks it as used.
    pub fn get(&mut self, token: &str, now: DateTime<Utc>) -> Option<Token> {
        let (until, cached) = self.judged.get(token)?;
        (now < *until && now < cached.expires_at).then(|| cached.clone())
    }

    /// True while the revision is trusted and the keys are unchanged.
    pub fn is_fresh(&self, keys: &Arc<KeySet>) -> bool {
        self.read_at.is_some_and(|moment| moment.elapsed() < ASK_EVERY) && Weak::ptr_eq(&self.keys, &Arc::downgrade(keys))
    }

    /// Begins a read of the revision.
    pub fn ask(&self) -> Question {
        Question { read_at: Instant::now(), doubts: self.doubts }
    }

    /// Takes in the revision that was read. It is not trusted further if a change was made during the read.
    pub fn learn(&mut self, revision: i64, question: Question, keys: &Arc<KeySet>) {
        let keys = Arc::downgrade(keys);
        if revision != self.revision || !Weak::ptr_eq(&self.keys, &keys) {
            self.judged.clear();
            (self.revision, self.keys) = (revision, keys);
        }
        self.read_at = (question.doubts == self.doubts).then_some(question.read_at);
    }

    /// Caches a token that these keys opened and that was judged after this revision was read.
    pub fn put(&mut self, token: &str, value: &Token, now: DateTime<Utc>, (revision, keys): (i64, &Arc<KeySet>)) {
        if revision != self.revision || !Weak::ptr_eq(&self.keys, &Arc::downgrade(keys)) {
            return;
        }
        self.judged.put(token.to_owned(), (now + chrono::TimeDelta::seconds(CACHE_SECONDS), value.clone()));
    }

    /// Notes a change: the next request reads the revision.
    pub fn doubt(&mut self) {
        self.doubts += 1;
        self.read_at = None;
    }
}

pub(super) fn unavailable(reason: String) -> ServiceError {
    ServiceError::Unavailable { service: "identity", reason: Reason::inside(reason) }
}
