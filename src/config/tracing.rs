//! The options of traces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Traces for OpenTelemetry.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tracing {
    /// The URL of a collector that takes OpenTelemetry's protocol over HTTP, such as `http://127.0.0.1:4318`. If unset, no trace is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<String>,
}
