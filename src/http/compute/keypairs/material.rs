//! SSH keys: fingerprints of given ones, and new ones for clients that ask for one.

use md5::{Digest as _, Md5};
use sha2::Sha256;
use ssh_key::private::{Ed25519Keypair, KeypairData};
use ssh_key::{LineEnding, PrivateKey, PublicKey};
use uuid::Uuid;

/// A generated key pair.
pub struct Generated {
    pub public_key: String,
    /// Given to the client and kept nowhere.
    pub private_key: String,
}

/// Returns the fingerprint of an OpenSSH public key as the compute API shows it: MD5 in pairs of digits.
pub fn ssh_fingerprint(public_key: &str) -> Result<String, String> {
    let key = PublicKey::from_openssh(public_key.trim()).map_err(|error| format!("it is not an SSH public key: {error}"))?;
    let blob = key.to_bytes().map_err(|error| format!("it cannot be encoded: {error}"))?;
    Ok(pairs(&Md5::digest(blob)))
}

/// The seed of a new pair, drawn from ids, of which each holds 122 random bits.
pub fn seed(ids: [Uuid; 3]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for id in ids {
        hash.update(id.as_bytes());
    }
    hash.finalize().into()
}

/// A new Ed25519 pair, in OpenSSH's form.
pub fn generate(seed: &[u8; 32]) -> Result<Generated, ssh_key::Error> {
    let pair = Ed25519Keypair::from_seed(seed);
    let private = PrivateKey::new(KeypairData::Ed25519(pair), "generated-by-cellshift")?;
    Ok(Generated { public_key: private.public_key().to_openssh()?, private_key: private.to_openssh(LineEnding::LF)?.to_string() })
}

/// A digest as fingerprints are written.
pub fn pairs(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ssh-keygen -l -E md5` prints this fingerprint for the key.
    #[test]
    fn a_public_key_has_its_known_fingerprint() {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti user@example.com\n";
        assert_eq!(ssh_fingerprint(key).unwrap(), "ae:6f:ba:1b:70:2c:ae:c7:5c:ab:6e:4d:5e:d4:c7:23");
        for wrong in ["", "ssh-rsa", "ssh-rsa AAAA", "hello world", "ssh-ed25519 !!!!"] {
            assert!(ssh_fingerprint(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_new_key_is_a_pair() {
        let pair = generate(&seed([1, 2, 3].map(Uuid::from_u128))).unwrap();
        let private = PrivateKey::from_openssh(&pair.private_key).unwrap();
        assert_eq!(private.public_key().to_openssh().unwrap(), pair.public_key);
        let other = generate(&seed([1, 2, 4].map(Uuid::from_u128))).unwrap();
        assert_ne!(pair.public_key, other.public_key);
    }
}
