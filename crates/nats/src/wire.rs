//! The form of messages: JSON with headers. The headers name the sender's release and protocol, and say when the message was sent and how
//! long its sender waits.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use cellshift_domain::reason;
use cellshift_domain::reason::{Inside, Reason};
use cellshift_host::link::{Delivered, LONGEST_PATIENCE};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The number of this release's form of messages. It rises when an earlier release would misread a message.
pub const PROTOCOL: u32 = 1;
/// The release of this program.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");
/// The maximum size of a message in bytes, without its headers. NATS refuses more than 1 MiB.
pub const MESSAGE_MAX: usize = 512 * 1024;

const PROTOCOL_HEADER: &str = "Cellshift-Protocol";
const RELEASE_HEADER: &str = "Cellshift-Release";
const SENDER_HEADER: &str = "Cellshift-Sender";
const SENT_HEADER: &str = "Cellshift-Sent-Micros";
const PATIENCE_HEADER: &str = "Cellshift-Patience-Millis";

/// The answer to a message of any kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Answer<T> {
    /// The word of the receiver.
    Word(Delivered<T>),
    /// The receiver has done what it was asked for, and its answer is too large to send.
    TooLarge {
        /// The size of the answer in bytes.
        bytes: usize,
    },
}

/// The headers of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    /// The sender's connection.
    pub sender: Uuid,
    /// The moment of sending, by the sender's own monotonic clock.
    pub sent: Duration,
    /// The time for which the sender waits for the answer.
    pub patience: Duration,
}

impl Stamp {
    /// Returns the headers, with this release and its protocol.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(PROTOCOL_HEADER, PROTOCOL.to_string());
        headers.insert(RELEASE_HEADER, RELEASE);
        headers.insert(SENDER_HEADER, self.sender.to_string());
        headers.insert(SENT_HEADER, self.sent.as_micros().to_string());
        headers.insert(PATIENCE_HEADER, self.patience.as_millis().to_string());
        headers
    }

    /// Reads the headers; none if one is missing or cannot be parsed. A higher protocol is no reason to refuse: what its messages mean is
    /// decided by whether they parse.
    pub fn read(headers: Option<&HeaderMap>) -> Option<Stamp> {
        let value = |name| headers?.get(name).map(|value| value.as_str());
        let protocol: u32 = value(PROTOCOL_HEADER)?.parse().ok()?;
        let sender = value(SENDER_HEADER)?.parse().ok()?;
        let sent = Duration::from_micros(value(SENT_HEADER)?.parse().ok()?);
        let patience = Duration::from_millis(value(PATIENCE_HEADER)?.parse().ok()?).min(LONGEST_PATIENCE);
        (protocol >= 1).then_some(Stamp { sender, sent, patience })
    }
}

/// Returns the release that the headers name.
pub(crate) fn release_of(headers: Option<&HeaderMap>) -> &str {
    headers.and_then(|headers| headers.get(RELEASE_HEADER)).map_or("unknown", |release| release.as_str())
}

/// Writes a message. Fails with the reason if it is too large to send.
pub(crate) fn encode<T: Serialize>(message: &T) -> Result<Bytes, Reason> {
    let bytes = serde_json::to_vec(message).map_err(|error| reason!("the message cannot be written: {}", Inside(error)))?;
    match bytes.len() <= MESSAGE_MAX {
        true => Ok(bytes.into()),
        false => Err(reason!("the message has {} bytes, and NATS carries at most {MESSAGE_MAX}; it was not sent", bytes.len())),
    }
}

/// Writes an answer, or that it is too large.
pub(crate) fn encode_answer<T: Serialize>(answer: Delivered<T>) -> Bytes {
    let answer = Answer::Word(answer);
    let instead = match serde_json::to_vec(&answer) {
        Ok(bytes) if bytes.len() <= MESSAGE_MAX => return bytes.into(),
        Ok(bytes) => {
            log::warn!("an answer has {} bytes, and NATS carries at most {MESSAGE_MAX}; it is not sent", bytes.len());
            Answer::TooLarge { bytes: bytes.len() }
        }
        Err(error) => {
            log::warn!("an answer cannot be written: {error}");
            Answer::Word(Delivered::CannotTell)
        }
    };
    serde_json::to_vec::<Answer<()>>(&instead).unwrap_or_default().into()
}

/// Reads a message; none if this release does not know it, or if it is larger than this program sends any.
pub(crate) fn decode<T: DeserializeOwned>(payload: &[u8]) -> Option<T> {
    (payload.len() <= MESSAGE_MAX).then(|| serde_json::from_slice(payload).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use cellshift_domain::host_protocol::HostReply;

    use super::*;

    fn stamp() -> Stamp {
        Stamp { sender: Uuid::from_u128(7), sent: Duration::from_micros(1_500_001), patience: Duration::from_millis(250) }
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        assert_eq!(Stamp::read(Some(&stamp().headers())), Some(stamp()));
        assert_eq!(release_of(Some(&stamp().headers())), RELEASE);
        let long = Stamp { patience: Duration::from_secs(86_400), ..stamp() };
        assert_eq!(Stamp::read(Some(&long.headers())).unwrap().patience, LONGEST_PATIENCE);
    }

    #[test]
    fn a_message_without_its_headers_is_not_known() {
        assert_eq!(Stamp::read(None), None);
        for (name, value) in
            [(PROTOCOL_HEADER, "0"), (PROTOCOL_HEADER, "x"), (SENDER_HEADER, "me"), (SENT_HEADER, "-1"), (PATIENCE_HEADER, "")]
        {
            let mut headers = stamp().headers();
            headers.insert(name, value);
            assert_eq!(Stamp::read(Some(&headers)), None, "{name}: {value}");
        }
        let mut newer = stamp().headers();
        newer.insert(PROTOCOL_HEADER, "2");
        assert_eq!(Stamp::read(Some(&newer)), Some(stamp()), "a newer sender may send what this release knows");
    }

    #[test]
    fn a_message_that_is_too_large_is_not_written() {
        let refusal = encode(&"x".repeat(MESSAGE_MAX)).unwrap_err();
        assert_eq!(refusal.to_string(), "the message has 524290 bytes, and NATS carries at most 524288; it was not sent");
        let largest = "x".repeat(MESSAGE_MAX - 2);
        assert_eq!(decode(&encode(&largest).unwrap()), Some(largest));
    }

    #[test]
    fn a_message_that_is_too_large_is_not_read() {
        let payload = format!("\"{}\"", "x".repeat(MESSAGE_MAX - 1));
        assert_eq!(decode::<String>(payload.as_bytes()), None);
    }

    #[test]
    fn an_answer_that_is_too_large_says_so() {
        let answer = encode_answer(Delivered::Answered("x".repeat(MESSAGE_MAX)));
        assert!(matches!(decode(&answer), Some(Answer::<String>::TooLarge { bytes }) if bytes > MESSAGE_MAX));
        let answer = encode_answer(Delivered::Answered(HostReply::Done));
        assert_eq!(decode(&answer), Some(Answer::Word(Delivered::Answered(HostReply::Done))));
    }
}
