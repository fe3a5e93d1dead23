//! The host's own key, for which controllers seal what a guest alone may know. It is made in the host's directory at the first start.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use cellshift_domain::guest_secrets::GuestSecrets;
use cellshift_domain::secret::{SealKey, Sealed};
use cellshift_env::key_pair::KeyPair;

use crate::host::CommandError;
use crate::site::HostPlace;
use crate::virt::files::Durability;

/// The file in the host's directory. Only its owner may read it.
const NAME: &str = "seal-key";

/// The key of a host.
pub(super) struct HostKey(KeyPair);

impl HostKey {
    /// Reads the host's key, or makes it at the first start. Blocking.
    pub fn open(place: &HostPlace, durability: Durability) -> io::Result<HostKey> {
        match fs::read_to_string(place.dir().join(NAME)) {
            Ok(text) => KeyPair::from_text(text.trim()).map(HostKey).ok_or_else(|| io::Error::other("it holds no key")),
            Err(error) if error.kind() == ErrorKind::NotFound => HostKey::made(place, durability),
            Err(error) => Err(error),
        }
    }

    fn made(place: &HostPlace, durability: Durability) -> io::Result<HostKey> {
        let (dir, pair) = (place.dir(), KeyPair::new());
        fs::create_dir_all(&dir)?;
        let partial = dir.join(format!(".{NAME}.new"));
        // A start that broke off may have left the file, with another mode.
        crate::virt::files::remove_file(&partial)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
        file.write_all(format!("{}\n", *pair.to_text()).as_bytes())?;
        durability.flush(&file)?;
        fs::rename(&partial, dir.join(NAME))?;
        durability.flush_names(&dir)?;
        Ok(HostKey(pair))
    }

    /// Returns the public key.
    pub fn public(&self) -> SealKey {
        SealKey::new(self.0.public())
    }

    /// Opens the secrets of a guest. Refused if they were sealed for another key.
    pub fn opened(&self, sealed: &Sealed) -> Result<GuestSecrets, CommandError> {
        let other_key = || CommandError::Refused("what the guest alone may know was sealed with a key that this host does not have".into());
        GuestSecrets::opened(sealed, |text| self.0.open(text)).ok_or_else(other_key)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use cellshift_domain::secret::Secret;
    use cellshift_env::key_pair::seal_for;

    use super::*;

    fn place(dir: &tempfile::TempDir, host: &str) -> HostPlace {
        HostPlace { cell: "cell1".into(), host: host.into(), cell_dir: dir.path().to_owned() }
    }

    #[test]
    fn a_host_keeps_its_key_and_opens_with_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (place(&dir, "host1"), place(&dir, "host2"));
        let key = HostKey::open(&one, Durability::Relaxed).ok().unwrap();
        let mode = fs::metadata(one.dir().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let secrets = GuestSecrets { admin_pass: Some(Secret::new("pa55".into())), ..GuestSecrets::default() };
        let sealed = secrets.sealed_for(key.public(), seal_for).unwrap();
        let again = HostKey::open(&one, Durability::Relaxed).ok().unwrap();
        assert_eq!(again.opened(&sealed).ok().unwrap(), secrets);
        let elsewhere = HostKey::open(&other, Durability::Relaxed).ok().unwrap();
        assert!(matches!(elsewhere.opened(&sealed), Err(CommandError::Refused(_))));
        fs::write(one.dir().join(NAME), "no key").unwrap();
        assert!(HostKey::open(&one, Durability::Relaxed).is_err());
    }
}
