//! Values that only their owner may read: a password, user data, files for a guest. Outside the process they are [`Sealed`], except for
//! the secret of a right that its message gives to the reader ([`in_clear`]).

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

/// A secret in clear text. It has no `Serialize`, so no journal or message can contain it by mistake ([`in_clear`] is for a message that
/// must); it prints as `***`, and its memory is
/// overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret<T: Zeroize>(Zeroizing<T>);

impl<T: Zeroize> Secret<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Secret<T> {
        Secret(Zeroizing::new(value))
    }

    /// Returns the value.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> From<T> for Secret<T> {
    fn from(value: T) -> Secret<T> {
        Secret::new(value)
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The form of a secret within a message that carries it to its only user: `#[serde(with = "in_clear")]` says so at the field.
pub mod in_clear {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use zeroize::Zeroize;

    use super::Secret;

    /// Writes the value itself.
    pub fn serialize<T: Serialize + Zeroize, S: Serializer>(secret: &Secret<T>, serializer: S) -> Result<S::Ok, S::Error> {
        secret.expose().serialize(serializer)
    }

    /// Reads the value itself.
    pub fn deserialize<'de, T: Deserialize<'de> + Zeroize, D: Deserializer<'de>>(deserializer: D) -> Result<Secret<T>, D::Error> {
        T::deserialize(deserializer).map(Secret::new)
    }
}

/// A secret that only holders of the keys can read: the form in which secrets are stored, and sent to guests.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Sealed {
    text: String,
    recipient: Option<SealKey>,
}

/// The public key of a host, for which secrets are sealed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SealKey(String);

/// The stored form: a text alone is sealed with the keys of the deployment.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Deployment(String),
    Host { recipient: SealKey, text: String },
}

impl From<Form> for Sealed {
    fn from(form: Form) -> Sealed {
        match form {
            Form::Deployment(text) => Sealed { text, recipient: None },
            Form::Host { recipient, text } => Sealed { text, recipient: Some(recipient) },
        }
    }
}

impl From<Sealed> for Form {
    fn from(Sealed { text, recipient }: Sealed) -> Form {
        match recipient {
            None => Form::Deployment(text),
            Some(recipient) => Form::Host { recipient, text },
        }
    }
}

impl Sealed {
    /// Wraps a text that was sealed with the keys of the deployment.
    pub fn new(text: String) -> Sealed {
        Sealed { text, recipient: None }
    }

    /// Wraps a text that was sealed for the host with this key.
    pub fn for_host(recipient: SealKey, text: String) -> Sealed {
        Sealed { text, recipient: Some(recipient) }
    }

    /// Returns the sealed text, for opening.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the key of the host for which the secret was sealed; none if it was sealed with the keys of the deployment.
    pub fn recipient(&self) -> Option<&SealKey> {
        self.recipient.as_ref()
    }
}

impl SealKey {
    /// Wraps a public key in hex.
    pub fn new(public: String) -> SealKey {
        SealKey(public)
    }

    /// Returns the key in hex.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(sealed)")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sealed_values_of_earlier_releases_have_no_recipient() {
        let stored = json!("gAAAA");
        let sealed: Sealed = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!((sealed.as_str(), sealed.recipient()), ("gAAAA", None));
        assert_eq!(serde_json::to_value(sealed).unwrap(), stored);
    }

    #[test]
    fn a_recipient_travels_with_what_is_sealed_for_it() {
        let sealed = Sealed::for_host(SealKey::new("0a".into()), "gAAAA".into());
        let form = serde_json::to_value(&sealed).unwrap();
        assert_eq!(form, json!({"recipient": "0a", "text": "gAAAA"}));
        assert_eq!(serde_json::from_value::<Sealed>(form).unwrap(), sealed);
    }
}
