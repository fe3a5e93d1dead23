//! The key that seals stored credentials. It is random, made with the first credential, and stored sealed with the token keys. Whenever these
//! change it is sealed anew, so that a credential outlives every token key.

use std::sync::Arc;

use cellshift_store::{Conn, DbError};
use fernet::Fernet;
use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::keys::KeySet;
use super::tokens::unavailable;
use super::{EmbeddedIdentity, ServiceError};
use crate::identity::credentials::records as credentials;
use crate::identity::state;

/// The purpose for [`KeySet::seal`].
const PURPOSE: &str = "credential key";

/// The number of attempts to store the key while other processes store it, too.
const ATTEMPTS: usize = 8;

/// The opened key, once this process knows it.
#[derive(Default)]
pub(super) struct Vault {
    key: Mutex<Option<Arc<VaultKey>>>,
}

/// The key in clear text.
pub(super) struct VaultKey {
    text: Zeroizing<String>,
    fernet: Fernet,
    /// The token keys when the key was last sealed.
    sealed_with: Arc<KeySet>,
}

impl VaultKey {
    /// Seals a credential's contents.
    pub(super) fn seal(&self, blob: &str) -> String {
        self.fernet.encrypt(blob.as_bytes())
    }

    /// Opens a credential's contents. None if another key sealed them.
    pub(super) fn open(&self, sealed: &str) -> Option<String> {
        String::from_utf8(self.fernet.decrypt(sealed).ok()?).ok()
    }
}

/// The result of an attempt to seal the stored key anew.
enum Stored {
    Key(Zeroizing<String>),
    /// No credential was ever made.
    None,
    /// The token keys that sealed it are gone.
    Unreadable,
    /// Another process has changed it meanwhile.
    Changed,
}

impl EmbeddedIdentity {
    /// Opens the stored key, if there is one, and seals it with the primary token key. Logs an error if it cannot be opened.
    pub(super) async fn open_vault(&self) -> Result<(), ServiceError> {
        let keys = self.keys.current().await;
        if let Stored::Unreadable = self.renew(&keys, false).await? {
            log::error!("the stored credentials cannot be opened, because the token keys that sealed their key are gone");
        }
        Ok(())
    }

    /// Returns the key for new contents, which is made if no credential is stored. Unavailable if it cannot be opened.
    pub(super) async fn vault_key(&self) -> Result<Arc<VaultKey>, ServiceError> {
        let key = self.opened_key(true).await?;
        key.ok_or_else(|| unavailable("the stored credentials cannot be opened with the present token keys".into()))
    }

    /// Returns the key for what is stored. None if it cannot be opened.
    pub(super) async fn stored_vault_key(&self) -> Result<Option<Arc<VaultKey>>, ServiceError> {
        self.opened_key(false).await
    }

    async fn opened_key(&self, make: bool) -> Result<Option<Arc<VaultKey>>, ServiceError> {
        if let Some(key) = self.vault.key.lock().clone() {
            return Ok(Some(key));
        }
        let keys = self.keys.current().await;
        self.renew(&keys, make).await?;
        Ok(self.vault.key.lock().clone())
    }

    /// Seals a known key anew if the token keys have changed. A failure is logged, and the next request tries again: nobody's token
    /// depends on it.
    pub(super) async fn follow_keys(&self, keys: &Arc<KeySet>) {
        let is_behind = self.vault.key.lock().as_ref().is_some_and(|key| !Arc::ptr_eq(&key.sealed_with, keys));
        if is_behind && let Err(error) = self.renew(keys, false).await {
            log::warn!("the key of the stored credentials is not sealed with the new token keys yet: {error}");
        }
    }

    /// Reads the stored key and stores it sealed with the primary token key. With `make`, makes a key where no credential needs another.
    async fn renew(&self, keys: &Arc<KeySet>, make: bool) -> Result<Stored, ServiceError> {
        for _ in 0..ATTEMPTS {
            let former = self.vault.key.lock().as_ref().map(|key| key.text.clone());
            let sealing = keys.clone();
            let stored = self.write_aside(move |conn| seal_anew(conn, &sealing, former, make)).await?;
            match stored {
                Stored::Changed => continue,
                Stored::Key(text) => {
                    let fernet = Fernet::new(&text).ok_or_else(|| unavailable("the key of the stored credentials is not one".into()))?;
                    let key = VaultKey { text: text.clone(), fernet, sealed_with: keys.clone() };
                    *self.vault.key.lock() = Some(Arc::new(key));
                    return Ok(Stored::Key(text));
                }
                other => return Ok(other),
            }
        }
        Err(unavailable("other processes change the key of the stored credentials all the time".into()))
    }
}

fn seal_anew(conn: &mut Conn, keys: &KeySet, former: Option<Zeroizing<String>>, make: bool) -> Result<Stored, DbError> {
    let stored = state::credential_key(conn)?;
    let opened = stored.as_deref().and_then(|sealed| keys.open(PURPOSE, sealed)).and_then(|bytes| String::from_utf8(bytes).ok());
    let text = match (opened.map(Zeroizing::new).or(former), &stored) {
        (Some(text), _) => text,
        (None, None) if !make => return Ok(Stored::None),
        // Credentials that nobody can read keep their key, in case that the token keys come back.
        (None, _) if !make || credentials::any(conn)? => return Ok(Stored::Unreadable),
        (None, _) => Zeroizing::new(Fernet::generate_key()),
    };
    match state::replace_credential_key(conn, stored.as_deref(), &keys.seal(PURPOSE, text.as_bytes()))? {
        true => Ok(Stored::Key(text)),
        false => Ok(Stored::Changed),
    }
}
