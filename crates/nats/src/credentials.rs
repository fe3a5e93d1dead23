//! The keys of a NATS server's users. The server's configuration has the public half only; the secret half, the seed, is in a file that
//! only its owner may read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cellshift_domain::secret::Secret;

/// The permissions of others to a file.
const OTHERS: u32 = 0o077;

/// The reason why a key cannot be made, stored or read.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file cannot be made or read.
    #[error("the key file {}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Others than the owner may read the file.
    #[error("the key file {} may be read by others (mode {mode:o}): chmod 600 {}", .path.display(), .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The text is no key of a user.
    #[error("the key cannot be used: {0}")]
    Key(String),
}

/// The key of a user.
#[derive(Clone, Debug)]
pub struct UserKey {
    /// The public half, for the server's configuration. It begins with `U`.
    pub public: String,
    /// The secret half, for the user's own machine. It begins with `SU`.
    pub seed: Secret<String>,
}

impl UserKey {
    /// Makes a new key.
    pub fn new() -> Result<UserKey, CredentialsError> {
        let pair = nkeys::KeyPair::new_user();
        let seed = pair.seed().map_err(|error| CredentialsError::Key(error.to_string()))?;
        Ok(UserKey { public: pair.public_key(), seed: seed.into() })
    }

    /// Takes the key of a seed.
    pub fn of_seed(seed: &Secret<String>) -> Result<UserKey, CredentialsError> {
        let pair = nkeys::KeyPair::from_seed(seed.expose().trim()).map_err(|error| CredentialsError::Key(error.to_string()))?;
        let public = pair.public_key();
        match public.starts_with('U') {
            true => Ok(UserKey { public, seed: seed.expose().trim().to_owned().into() }),
            false => Err(CredentialsError::Key("it is the key of no user".to_owned())),
        }
    }

    /// Checks that a text is the public half of a user's key.
    pub fn check_public(text: &str) -> Result<(), CredentialsError> {
        nkeys::KeyPair::from_public_key(text).map_err(|error| CredentialsError::Key(error.to_string()))?;
        match text.starts_with('U') {
            true => Ok(()),
            false => Err(CredentialsError::Key("it is the key of no user".to_owned())),
        }
    }

    /// Writes the seed to a new file that only its owner may read. Fails if there is such a file. Blocks.
    pub fn write(&self, path: &Path) -> Result<(), CredentialsError> {
        let failed = |error| CredentialsError::File { path: path.to_owned(), error };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        writeln!(file, "{}", self.seed.expose()).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Reads a file with a seed. Refuses a file that others may read. Blocks.
    pub fn read(path: &Path) -> Result<UserKey, CredentialsError> {
        let failed = |error| CredentialsError::File { path: path.to_owned(), error };
        let mut file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(CredentialsError::Open { path: path.to_owned(), mode });
        }
        let mut seed = String::new();
        file.read_to_string(&mut seed).map_err(failed)?;
        UserKey::of_seed(&seed.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h1.nk");
        let key = UserKey::new().unwrap();
        key.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = UserKey::read(&path).unwrap();
        assert_eq!((read.public, read.seed), (key.public.clone(), key.seed.clone()));
        assert!(matches!(key.write(&path), Err(CredentialsError::File { .. })), "a key is never written over");
    }

    #[test]
    fn a_key_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h1.nk");
        UserKey::new().unwrap().write(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let refusal = UserKey::read(&path).unwrap_err().to_string();
        assert!(refusal.ends_with(&format!("(mode 640): chmod 600 {}", path.display())), "{refusal}");
    }

    #[test]
    fn a_seed_that_is_no_users_is_refused() {
        let server = nkeys::KeyPair::new_server().seed().unwrap();
        for wrong in ["", "SU", "hello", server.as_str()] {
            assert!(matches!(UserKey::of_seed(&wrong.to_owned().into()), Err(CredentialsError::Key(_))), "{wrong}");
        }
        assert!(!format!("{:?}", UserKey::new().unwrap()).contains("SU"), "a seed is not printed");
    }

    #[test]
    fn a_public_key_is_a_users_or_refused() {
        let key = UserKey::new().unwrap();
        assert!(UserKey::check_public(&key.public).is_ok());
        let server = nkeys::KeyPair::new_server().public_key();
        for wrong in ["", "U", "hello", key.seed.expose(), server.as_str()] {
            assert!(matches!(UserKey::check_public(wrong), Err(CredentialsError::Key(_))), "{wrong}");
        }
    }
}
