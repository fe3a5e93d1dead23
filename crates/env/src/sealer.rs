//! Seals secrets that are stored in a record or travel to a host. The service seals with its token keys; all processes with the keys of the
//! data directory can open them.

use fernet::Fernet;
use zeroize::Zeroizing;

/// Seals and opens secrets.
pub trait Sealer: Send + Sync {
    /// Seals a secret, in printable characters.
    fn seal(&self, secret: &[u8]) -> String;
    /// Opens a secret; none if other keys sealed it.
    fn unseal(&self, sealed: &str) -> Option<Zeroizing<Vec<u8>>>;
}

/// Seals with a key that ends with the process, for environments without keys.
pub struct PassingKey(Option<Fernet>);

impl PassingKey {
    /// Makes a new key.
    pub fn new() -> PassingKey {
        PassingKey(Fernet::new(&Fernet::generate_key()))
    }
}

impl Default for PassingKey {
    fn default() -> PassingKey {
        PassingKey::new()
    }
}

impl Sealer for PassingKey {
    fn seal(&self, secret: &[u8]) -> String {
        self.0.as_ref().map(|key| key.encrypt(secret)).unwrap_or_default()
    }

    fn unseal(&self, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.0.as_ref()?.decrypt(sealed).ok().map(Zeroizing::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_opens_what_was_sealed() {
        let (one, other) = (PassingKey::new(), PassingKey::new());
        let sealed = one.seal(b"secret");
        assert!(!sealed.contains("secret"));
        assert_eq!(one.unseal(&sealed).unwrap().as_slice(), b"secret");
        assert!(other.unseal(&sealed).is_none());
    }
}
