//! Tokens: Fernet-sealed, so that any process with the keys can judge them without a record of each.
//!
//! A token holds ids and times only; names and roles are looked up when it is judged, so what an administrator takes away
//! is gone at once. It stays gone: what is taken away also revokes the tokens of before, which giving it back does not revive.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::keys::KeySet;
use super::{Role, ServiceError, Target};
use crate::db::services::identity::Project;
use crate::domain::inside;

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
    /// The accounts' revision when its user was last authenticated: a revocation at a later one ends it, whatever clocks say. 0 in
    /// tokens of older releases.
    #[serde(rename = "r", default)]
    pub revision: i64,
}

impl Payload {
    /// Where the token is good; none when unscoped.
    pub(super) fn target(&self) -> Option<Target> {
        Target::parse(&self.scope)
    }

    pub(super) fn seal(&self, keys: &KeySet) -> Result<String, ServiceError> {
        let text = serde_json::to_vec(self).map_err(|e| unavailable(format!("a token cannot be written: {e}")))?;
        Ok(keys.seal_token(&text))
    }

    /// Reads what was sealed by any of the keys; the time is not judged here.
    pub(super) fn open(token: &str, keys: &KeySet) -> Option<Payload> {
        serde_json::from_slice(&keys.open_token(token)?).ok()
    }
}

/// Judged tokens, remembered as long as nothing changes that they depend on, so that a client's requests cost one look-up.
///
/// Every change of accounts, in any process, raises their revision in the database. It is asked for once in [`ASK_EVERY`] at most; the
/// tokens that were judged at another revision are forgotten then.
#[derive(Default)]
pub(super) struct TokenCache {
    known: BTreeMap<String, (DateTime<Utc>, Token)>,
    /// At which revision all of them were judged.
    revision: i64,
    asked_at: Option<Instant>,
    /// How often something was changed here.
    doubts: u64,
    /// With which keys they were opened.
    keys: Weak<KeySet>,
}

/// A question for the revision, on its way.
pub(super) struct Question {
    asked_at: Instant,
    doubts: u64,
}

/// How long the revision is believed: what another process takes away is gone within this time.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Seconds that a judged token is believed although no revision says otherwise, for what is changed past this program.
const CACHE_SECONDS: i64 = 10;
/// Tokens remembered at most.
const CACHE_MAX: usize = 4096;

impl TokenCache {
    pub(super) fn get(&self, token: &str, now: DateTime<Utc>) -> Option<Token> {
        let (until, known) = self.known.get(token)?;
        (now < *until && now < known.expires_at).then(|| known.clone())
    }

    /// True while the revision is believed, and the keys are still those.
    pub(super) fn is_fresh(&self, keys: &Arc<KeySet>) -> bool {
        self.asked_at.is_some_and(|asked| asked.elapsed() < ASK_EVERY) && Weak::ptr_eq(&self.keys, &Arc::downgrade(keys))
    }

    /// Begins to ask for the revision.
    pub(super) fn ask(&self) -> Question {
        Question { asked_at: Instant::now(), doubts: self.doubts }
    }

    /// Takes in what the answer was. It is not believed for long when something was changed while the question was on its way.
    pub(super) fn learn(&mut self, revision: i64, question: Question, keys: &Arc<KeySet>) {
        let keys = Arc::downgrade(keys);
        if revision != self.revision || !Weak::ptr_eq(&self.keys, &keys) {
            self.known.clear();
            (self.revision, self.keys) = (revision, keys);
        }
        self.asked_at = (question.doubts == self.doubts).then_some(question.asked_at);
    }

    /// Remembers a token that these keys opened, and that was judged after this revision had been read.
    pub(super) fn put(&mut self, token: &str, value: &Token, now: DateTime<Utc>, (revision, keys): (i64, &Arc<KeySet>)) {
        if revision != self.revision || !Weak::ptr_eq(&self.keys, &Arc::downgrade(keys)) {
            return;
        }
        if self.known.len() >= CACHE_MAX {
            self.known.clear();
        }
        self.known.insert(token.to_owned(), (now + chrono::TimeDelta::seconds(CACHE_SECONDS), value.clone()));
    }

    /// Something was changed: the next request asks for the revision.
    pub(super) fn doubt(&mut self) {
        self.doubts += 1;
        self.asked_at = None;
    }
}

pub(super) fn unavailable(reason: String) -> ServiceError {
    ServiceError::Unavailable { service: "identity", reason: inside::of(reason) }
}
