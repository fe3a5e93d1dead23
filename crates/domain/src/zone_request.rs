//! The zone that an unshelve asks for: the server's own, none, or another.

use serde::{Deserialize, Serialize};

/// The requested zone of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ZoneRequest {
    /// The zone that was named before, if any.
    #[default]
    AsBefore,
    /// No zone: the server may go anywhere from now on.
    Unpinned,
    /// The named zone from now on.
    In(String),
}

impl ZoneRequest {
    /// Returns the zone of a server that was in `before`.
    pub fn over(&self, before: Option<&str>) -> Option<String> {
        match self {
            ZoneRequest::AsBefore => before.map(str::to_owned),
            ZoneRequest::Unpinned => None,
            ZoneRequest::In(zone) => Some(zone.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_keeps_replaces_or_removes_the_zone() {
        let other_zone = ZoneRequest::In("a2".to_owned());
        let rows = [
            (ZoneRequest::AsBefore, None, None),
            (ZoneRequest::AsBefore, Some("a1"), Some("a1")),
            (ZoneRequest::Unpinned, None, None),
            (ZoneRequest::Unpinned, Some("a1"), None),
            (other_zone.clone(), None, Some("a2")),
            (other_zone, Some("a1"), Some("a2")),
        ];
        for (wish, before, after) in rows {
            assert_eq!(wish.over(before).as_deref(), after, "{wish:?} over {before:?}");
        }
    }
}
