//! The scheduler's answer to an operator who asks where a server could go: every host with the rules that refuse it, or with its weights.

use serde::{Deserialize, Serialize};

/// The verdict on every host, the best first and the refused ones last.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// A verdict for each host.
    pub destinations: Vec<HostVerdict>,
    /// The cells that did not answer. None of their hosts is judged, and none would be chosen.
    pub silent_cells: Vec<String>,
}

/// The verdict on one host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostVerdict {
    /// The cell's name.
    pub cell: String,
    /// The host's name.
    pub host: String,
    /// The zone that an aggregate names; none if no aggregate does.
    pub availability_zone: Option<String>,
    /// Every rule that refuses the host; empty for a host that may be chosen.
    pub refusals: Vec<HostRefusal>,
    /// The part of each weigher in `weight`; empty for a refused host.
    pub weights: Vec<HostWeight>,
    /// The sum by which hosts are ordered; none for a refused host.
    pub weight: Option<f64>,
}

/// A rule that refuses a host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostRefusal {
    /// A filter's name, `placement` for room and traits, or `the request` for hosts that the move does not consider.
    pub rule: String,
    /// In a few words.
    pub reason: String,
}

/// The part of one weigher in a host's weight.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostWeight {
    /// The weigher's name.
    pub weigher: String,
    /// The scaled weight times its multiplier.
    pub weight: f64,
}
