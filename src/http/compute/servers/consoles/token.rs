//! The token of a console, which its URL carries. A browser cannot send a header with a WebSocket, so the token alone gives access, for a
//! short time. It is sealed with the service's keys: every process of the service can open it, and none needs to keep it.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::env::Env;

/// Tells tokens of consoles from other sealed texts.
const PURPOSE: &str = "serial console";

/// The right to open the console of a server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ConsoleToken {
    purpose: String,
    pub(super) server: Uuid,
    until: DateTime<Utc>,
}

impl ConsoleToken {
    pub(super) fn new(server: Uuid, env: &Env, ttl: Duration) -> ConsoleToken {
        let until = env.now() + TimeDelta::from_std(ttl).unwrap_or_default();
        ConsoleToken { purpose: PURPOSE.to_owned(), server, until }
    }

    /// Returns the text for the URL.
    pub(super) fn seal(&self, env: &Env) -> String {
        env.seal(serde_json::to_string(self).unwrap_or_default().as_bytes())
    }

    /// Reads the text of a URL; none if this service has not sealed it as a console's token, or its time is over.
    pub(super) fn open(text: &str, env: &Env) -> Option<ConsoleToken> {
        let token: ConsoleToken = serde_json::from_slice(&env.unseal(text)?).ok()?;
        (token.purpose == PURPOSE && token.until > env.now()).then_some(token)
    }
}
