//! The options of metrics.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::listen;

/// The metrics for Prometheus.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// If false, nothing is counted, and `/metrics` does not exist.
    pub enabled: bool,
    /// Address and port of a listener for `/metrics` alone, in the forms of `http.listen`. It asks for no token: whoever reaches it may read
    /// the metrics. If unset, the API's listener answers `/metrics` to callers whom the rule `ops:metrics` allows.
    #[serde(deserialize_with = "somewhere", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics { enabled: true, listen: None }
    }
}

impl Metrics {
    /// True if the API's listener answers `/metrics`.
    pub fn on_the_api(&self) -> bool {
        self.enabled && self.listen.is_none()
    }

    /// True if the two listeners would want one port.
    pub(super) fn collides_with(&self, api: SocketAddr) -> bool {
        let overlap = |own: SocketAddr| own.ip() == api.ip() || own.ip().is_unspecified() || api.ip().is_unspecified();
        self.listen.is_some_and(|own| own.port() != 0 && own.port() == api.port() && overlap(own))
    }
}

/// Parses an address that is given.
fn somewhere<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    listen::deserialize(deserializer).map(Some)
}
