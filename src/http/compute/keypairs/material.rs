//! What a key pair is made of: fingerprints of given public keys, and new keys for clients that ask for one.

use md5::{Digest as _, Md5};
use sha1::Sha1;
use sha2::Sha256;
use ssh_key::private::{Ed25519Keypair, KeypairData};
use ssh_key::{LineEnding, PrivateKey, PublicKey};
use uuid::Uuid;

/// A pair that was made here.
pub struct Generated {
    pub public_key: String,
    /// In OpenSSH's form. It is given to the client and kept nowhere.
    pub private_key: String,
}

/// The fingerprint of a public key in OpenSSH's form, as the compute API has always shown it: MD5 in pairs of digits.
pub fn ssh_fingerprint(public_key: &str) -> Result<String, String> {
    let key = PublicKey::from_openssh(public_key.trim()).map_err(|error| format!("it is not an SSH public key: {error}"))?;
    let blob = key.to_bytes().map_err(|error| format!("it cannot be encoded: {error}"))?;
    Ok(pairs(&Md5::digest(blob)))
}

/// The fingerprint of a certificate in PEM: SHA-1 of its DER in pairs of digits.
pub fn x509_fingerprint(certificate: &str) -> Result<String, String> {
    let (_, after) = certificate.split_once("-----BEGIN CERTIFICATE-----").ok_or("it is not a certificate in PEM")?;
    let (body, _) = after.split_once("-----END CERTIFICATE-----").ok_or("it is not a certificate in PEM")?;
    let text: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    let der = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).map_err(|_| "its base64 cannot be read")?;
    if der.first() != Some(&0x30) {
        return Err("it is not a certificate".to_owned());
    }
    Ok(pairs(&Sha1::digest(der)))
}

/// A new Ed25519 pair. The seed is drawn from ids, of which each holds 122 random bits.
pub fn generate(ids: [Uuid; 3]) -> Result<Generated, ssh_key::Error> {
    let mut hash = Sha256::new();
    for id in ids {
        hash.update(id.as_bytes());
    }
    let pair = Ed25519Keypair::from_seed(&hash.finalize().into());
    let private = PrivateKey::new(KeypairData::Ed25519(pair), "generated-by-cellshift")?;
    Ok(Generated { public_key: private.public_key().to_openssh()?, private_key: private.to_openssh(LineEnding::LF)?.to_string() })
}

fn pairs(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fingerprint is what `ssh-keygen -l -E md5` says of this key.
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
        let made = generate([Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3)]).unwrap();
        let private = PrivateKey::from_openssh(&made.private_key).unwrap();
        assert_eq!(private.public_key().to_openssh().unwrap(), made.public_key);
        let other = generate([Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(4)]).unwrap();
        assert_ne!(made.public_key, other.public_key);
    }

    #[test]
    fn a_certificate_has_a_fingerprint() {
        let pem = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        assert_eq!(x509_fingerprint(pem).unwrap().len(), 59);
        assert!(x509_fingerprint("MAA=").is_err());
    }
}
