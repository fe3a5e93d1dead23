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
    /// Placement: a generation has moved on.
    ConcurrentUpdate,
    /// Placement: consumers hold some of the inventory.
    InventoryInUse,
    /// Placement: consumers hold something of the provider.
    ProviderInUse,
    /// Placement: the provider has children.
    ProviderWithChildren,
    /// Placement: another provider has the name.
    DuplicateName,
    /// The work inside a transaction has refused, so the transaction is rolled back.
    RefusedInside,
}

impl ReasonCode {
    /// Reads the kind of a failure from its words for users.
    pub(crate) fn of_words(words: &str) -> Option<ReasonCode> {
        let has = |options: &[&str]| options.iter().any(|option| words.contains(option));
        let unfit = ["Failed to allocate additional resources", "Using networks with QoS policy", "No more IP addresses"];
        match () {
            () if words.starts_with(NO_VALID_HOST) => Some(ReasonCode::NoValidHost),
            () if words.starts_with(QUOTA_EXCEEDED) => Some(ReasonCode::QuotaExceeded),
            () if has(&unfit) || has(&["is not a valid IP for any of the subnets", "is the gateway of subnet"]) => {
                Some(ReasonCode::UnfitPort)
            }
            () if words.ends_with("could not be found.") => Some(ReasonCode::Missing),
            () if has(&["is still in use", "already allocated"]) => Some(ReasonCode::InUse),
            () => None,
        }
    }
}
