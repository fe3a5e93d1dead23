//! The patterns of a filter, one row each. Each cell reads its rows and checks them here, as lists check build requests.

use crate::domain::instance::Instance;
use crate::domain::instance_filter::{InstanceFilter, TextPattern};
use crate::domain::network_info::NetworkInfo;

/// A pattern of the filter, and the text that it searches.
pub(super) struct Pattern {
    /// The filter's pattern; None admits each server.
    pub(super) text_of: fn(&InstanceFilter) -> Option<&TextPattern>,
    searched: Searched,
}

/// The text that a pattern searches.
enum Searched {
    /// A field of the row. A null field counts as empty text.
    Field(fn(&Instance) -> Option<&str>),
    /// Each address of this IP version.
    Addresses(u8),
}

pub(super) const PATTERNS: &[Pattern] = &[
    Pattern { text_of: |filter| filter.name.as_ref(), searched: Searched::Field(|instance| Some(&instance.display_name)) },
    Pattern {
        text_of: |filter| filter.description.as_ref(),
        searched: Searched::Field(|instance| instance.display_description.as_deref()),
    },
    Pattern { text_of: |filter| filter.hostname.as_ref(), searched: Searched::Field(|instance| instance.hostname.as_deref()) },
    Pattern { text_of: |filter| filter.ip.as_ref(), searched: Searched::Addresses(4) },
    Pattern { text_of: |filter| filter.ip6.as_ref(), searched: Searched::Addresses(6) },
];

impl Pattern {
    /// True if the pattern searches addresses, which are in the info cache and not in the row.
    pub(super) fn searches_addresses(&self) -> bool {
        matches!(self.searched, Searched::Addresses(_))
    }

    /// True if the text that is searched has the pattern.
    pub(super) fn finds(&self, text_pattern: &TextPattern, instance: &Instance, network: Option<&NetworkInfo>) -> bool {
        match self.searched {
            Searched::Field(text) => text_pattern.is_match(text(instance).unwrap_or_default()),
            Searched::Addresses(version) => {
                let mut addresses = network.iter().flat_map(|info| info.addresses()).filter(|address| address.version() == version);
                addresses.any(|address| text_pattern.is_match(&address.address))
            }
        }
    }
}
