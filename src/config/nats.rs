//! The NATS servers of cells whose hosts are agents of their own, and the connection to them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cellshift_nats::credentials::{CredentialsError, UserKey};
use cellshift_nats::{Connection, ConnectionError, ConnectionOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::env::Env;

/// The pause between two looks whether the server still answers. After three times this the connection counts as lost.
const PING_INTERVAL: Duration = Duration::from_secs(3);
/// The beginning of a certificate in a file.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// The NATS servers of a cell, and how to log in there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nats {
    /// The addresses of the servers, such as `nats://10.0.0.1:4222`, or `tls://…` to insist on TLS.
    pub servers: Vec<String>,
    /// The file with the seed of the user's key, which only its owner may read. If unset, the servers must have no users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The file with the certificates of the authorities that a server's certificate may have. With it, the connection needs TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<PathBuf>,
}

/// The reason why no connection to NATS can be tried. Each begins with the key in the table.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// The key cannot be used.
    #[error("key: {0}")]
    Key(#[from] CredentialsError),
    /// The authorities cannot be used.
    #[error("authorities: {}: {reason}", path.display())]
    Authorities { path: PathBuf, reason: String },
    /// The client refuses an address.
    #[error("servers: {0}")]
    Servers(#[from] ConnectionError),
}

impl Nats {
    /// Returns the key of a wrong value, and what it must be.
    pub fn misfit(&self) -> Option<(&'static str, &'static str)> {
        let all_are_servers = !self.servers.is_empty() && self.servers.iter().all(|server| is_server(server));
        (!all_are_servers).then_some(("servers", "a list of addresses such as nats://10.0.0.1:4222 or tls://nats.example:4222"))
    }

    /// Begins to connect under this name, and returns without waiting for a server. Replies come to subjects that begin with `inbox`. Fails
    /// if a file cannot be used.
    pub async fn connect(&self, env: &Env, name: String, inbox: String) -> Result<Arc<Connection>, NatsError> {
        let files = self.clone();
        let key = env.run_blocking(move || files.read_files()).await?;
        let options = ConnectionOptions {
            servers: self.servers.clone(),
            seed: key.map(|key| key.seed),
            authorities: self.authorities.clone(),
            name,
            inbox,
            ping_interval: PING_INTERVAL,
        };
        Ok(Connection::open(env, options).await?)
    }

    /// Reads the key, and looks whether the authorities can be read. Blocks.
    fn read_files(&self) -> Result<Option<UserKey>, NatsError> {
        if let Some(path) = &self.authorities {
            // The client would try to connect without them, for ever.
            check_certificates(path).map_err(|reason| NatsError::Authorities { path: path.clone(), reason })?;
        }
        Ok(self.key.as_deref().map(UserKey::read).transpose()?)
    }
}

/// True for an address with a scheme of NATS and a host.
fn is_server(address: &str) -> bool {
    let place = ["nats://", "tls://"].iter().find_map(|scheme| address.strip_prefix(scheme));
    place.is_some_and(|place| !place.is_empty() && !place.starts_with([':', '/']) && !place.contains(char::is_whitespace))
}

/// Fails with the reason if the file has no certificate. Blocks.
fn check_certificates(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    match text.contains(CERTIFICATE) {
        true => Ok(()),
        false => Err("it has no certificate in PEM".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(servers: &[&str]) -> Nats {
        Nats { servers: servers.iter().map(|server| (*server).to_owned()).collect(), ..Nats::default() }
    }

    #[test]
    fn addresses_name_a_scheme_and_a_host() {
        for right in [&["nats://127.0.0.1:4222"][..], &["tls://nats.example:4222", "nats://[::1]:4222"], &["nats://nats"]] {
            assert_eq!(servers(right).misfit(), None, "{right:?}");
        }
        for wrong in [&[][..], &["127.0.0.1:4222"], &["http://nats"], &["nats://"], &["nats://:4222"], &["nats://a", "nats://a b"]] {
            assert_eq!(servers(wrong).misfit().map(|(key, _)| key), Some("servers"), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_used_is_named_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        let nats = servers(&["nats://127.0.0.1:4222"]);
        let reason = async |nats: Nats| {
            let opened = nats.connect(&Env::system(), "test".to_owned(), "inbox".to_owned()).await;
            opened.err().expect("a refusal").to_string()
        };
        let missing = reason(Nats { key: Some(folder.path().join("none.nk")), ..nats.clone() }).await;
        assert!(missing.starts_with("key: the key file ") && missing.contains("none.nk"), "{missing}");
        let without = reason(Nats { authorities: Some(empty), ..nats }).await;
        assert!(without.starts_with("authorities: ") && without.ends_with("it has no certificate in PEM"), "{without}");
    }
}
