//! Values that nobody but their owner may read: a password, user data, files for a guest. They are told only as [`Sealed`].

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

/// A secret in the clear. It has no `Serialize`, so no journal or message can carry it by mistake; it prints as `***`, and its memory
/// is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret<T: Zeroize>(Zeroizing<T>);

impl<T: Zeroize> Secret<T> {
    /// Takes a value in.
    pub fn new(value: T) -> Secret<T> {
        Secret(Zeroizing::new(value))
    }

    /// The value itself.
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

/// A secret as only the holders of the keys can read it: the one form in which it is stored or sent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed(String);

impl Sealed {
    /// The text that a sealer gave.
    pub fn new(text: String) -> Sealed {
        Sealed(text)
    }

    /// The sealed text, for an opener.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(sealed)")
    }
}
