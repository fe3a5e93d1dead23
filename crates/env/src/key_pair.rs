//! Secrets for one recipient: everybody who has the recipient's public key can seal for it, and the recipient alone can open. An agreement on
//! X25519 between a key of the sender's, made for this one secret, and the recipient's key gives the key of a Fernet token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use curve25519_dalek::montgomery::MontgomeryPoint;
use fernet::Fernet;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Tells keys of this use from others that the same agreement might give.
const USE: &[u8] = b"cellshift: a secret for a host, 1";

/// A recipient's pair of keys.
pub struct KeyPair(Zeroizing<[u8; 32]>);

impl KeyPair {
    /// Makes a new pair from the operating system's random numbers.
    pub fn new() -> KeyPair {
        KeyPair(Zeroizing::new(rand::random()))
    }

    /// Reads the text of [`KeyPair::to_text`]; none if it is damaged.
    pub fn from_text(text: &str) -> Option<KeyPair> {
        bytes_of(text).map(|bytes| KeyPair(Zeroizing::new(bytes)))
    }

    /// Returns the private key in hex, for a file that only its owner may read.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(*self.0))
    }

    /// Returns the public key in hex.
    pub fn public(&self) -> String {
        hex::encode(MontgomeryPoint::mul_base_clamped(*self.0).to_bytes())
    }

    /// Opens a secret; none if it was sealed for another key, or is damaged.
    pub fn open(&self, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        let (sender, token) = sealed.split_once('.')?;
        let sender = bytes_of(sender)?;
        let recipient = MontgomeryPoint::mul_base_clamped(*self.0).to_bytes();
        cipher(&self.0, MontgomeryPoint(sender), &sender, &recipient)?.decrypt(token).ok().map(Zeroizing::new)
    }
}

impl Default for KeyPair {
    fn default() -> KeyPair {
        KeyPair::new()
    }
}

/// Seals a secret for the recipient with this public key, in printable characters. Each call gives another text. None if the key is none.
pub fn seal_for(public: &str, secret: &[u8]) -> Option<String> {
    let recipient = bytes_of(public)?;
    let passing = KeyPair::new();
    let sender = MontgomeryPoint::mul_base_clamped(*passing.0).to_bytes();
    let token = cipher(&passing.0, MontgomeryPoint(recipient), &sender, &recipient)?.encrypt(secret);
    Some(format!("{}.{token}", hex::encode(sender)))
}

/// Returns the cipher on which the holder of the private key `own` and the owner of `other` agree. None if `other` is one of the few points
/// that agree with everybody on the same key.
fn cipher(own: &[u8; 32], other: MontgomeryPoint, sender: &[u8; 32], recipient: &[u8; 32]) -> Option<Fernet> {
    let agreed = Zeroizing::new(other.mul_clamped(*own).to_bytes());
    if *agreed == [0; 32] {
        return None;
    }
    // The one step of NIST SP 800-56C: a counter, the agreed secret, and what the key is for.
    let parts: [&[u8]; 5] = [&1_u32.to_be_bytes(), agreed.as_slice(), USE, sender, recipient];
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    Fernet::new(&Zeroizing::new(URL_SAFE.encode(hash.finalize())))
}

fn bytes_of(text: &str) -> Option<[u8; 32]> {
    hex::decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_recipient_opens_what_was_sealed_for_it() {
        let (recipient, other) = (KeyPair::new(), KeyPair::new());
        let sealed = seal_for(&recipient.public(), b"secret").unwrap();
        assert!(!sealed.contains("secret"));
        assert_eq!(recipient.open(&sealed).unwrap().as_slice(), b"secret");
        assert!(other.open(&sealed).is_none());
        assert_ne!(seal_for(&recipient.public(), b"secret").unwrap(), sealed);
    }

    #[test]
    fn a_pair_is_the_same_when_it_is_read_again() {
        let pair = KeyPair::new();
        let read = KeyPair::from_text(&pair.to_text()).unwrap();
        assert_eq!(read.public(), pair.public());
        assert!(KeyPair::from_text("no key").is_none());
    }

    #[test]
    fn public_keys_are_those_of_rfc_7748() {
        // Alice's keys in section 6.1.
        let alice = KeyPair::from_text("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a").unwrap();
        assert_eq!(alice.public(), "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
    }

    #[test]
    fn a_damaged_seal_is_not_opened() {
        let pair = KeyPair::new();
        let sealed = seal_for(&pair.public(), b"secret").unwrap();
        let (sender, token) = sealed.split_once('.').unwrap();
        for damaged in [String::new(), token.to_owned(), format!("{sender}.{}", &token[1..]), format!("{}.{token}", "00".repeat(32))] {
            assert!(pair.open(&damaged).is_none(), "{damaged}");
        }
        for public in ["", "zz", &"00".repeat(32)] {
            assert!(seal_for(public, b"secret").is_none(), "{public}");
        }
    }
}
