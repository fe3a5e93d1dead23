//! The stored form of requests: each part stores its own request in the form of [`Request`], which is made from the list of operations in
//! `mod.rs`.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Request;

/// Stores the request of one operation in the form of [`Request`].
pub(super) mod as_request {
    use super::*;

    pub fn serialize<S: Serializer, R: Clone + Into<Request>>(own: &R, serializer: S) -> Result<S::Ok, S::Error> {
        own.clone().into().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>, R: TryFrom<Request>>(deserializer: D) -> Result<R, D::Error> {
        R::try_from(Request::deserialize(deserializer)?).map_err(|_| D::Error::custom("the request is another operation's"))
    }
}
