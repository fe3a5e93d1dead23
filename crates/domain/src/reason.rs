//! The kinds of failures on which a program acts. A stored failure is a text, so its kind is read from the text's fixed words: here alone.

/// The beginning of the sentence when no host passes, as Nova's clients know it.
pub const NO_VALID_HOST: &str = "No valid host was found.";

/// The beginning of the message when a project's quota is used up, as Neutron's clients know it.
pub const QUOTA_EXCEEDED: &str = "Quota exceeded for resources: ";

/// The kind of a failure, where somebody acts on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReasonCode {
    /// No host passes, or the named one does not.
    NoValidHost,
    /// The project's quota is used up.
    QuotaExceeded,
    /// The network or its hosts cannot give the port that the request describes.
    UnfitPort,
    /// A thing that the request names does not exist.
    Missing,
    /// Another has the thing that the request names.
    InUse,
}

impl ReasonCode {
    /// Reads the kind of a failure from its stored text, which begins with the part for users.
    pub fn of_stored(text: &str) -> Option<ReasonCode> {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let unfit = ["Failed to allocate additional resources", "Using networks with QoS policy", "No more IP addresses"];
        match () {
            () if text.starts_with(NO_VALID_HOST) => Some(ReasonCode::NoValidHost),
            () if text.starts_with(QUOTA_EXCEEDED) => Some(ReasonCode::QuotaExceeded),
            () if has(&unfit) || has(&["is not a valid IP for any of the subnets", "is the gateway of subnet"]) => {
                Some(ReasonCode::UnfitPort)
            }
            () if text.ends_with("could not be found.") => Some(ReasonCode::Missing),
            () if has(&["is still in use", "already allocated"]) => Some(ReasonCode::InUse),
            () => None,
        }
    }
}
