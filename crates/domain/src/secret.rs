//! Values that only their owner may read: a password, user data, files for a guest. Outside the process they are [`Sealed`].

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

/// A secret in clear text. It has no `Serialize`, so no journal or message can contain it by mistake; it prints as `***`, and its memory is
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

/// A secret that only holders of the keys can read: the only form in which secrets are stored or sent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed(String);

impl Sealed {
    /// Wraps a sealed text.
    pub fn new(text: String) -> Sealed {
        Sealed(text)
    }

    /// Returns the sealed text, for opening.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(sealed)")
    }
}
