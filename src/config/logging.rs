//! The options of the log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The format of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

/// The log, on standard error.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// `error`, `warn`, `info`, `debug`, `trace`, `off`, or per module: `info,cellshift::saga=debug`.
    pub level: String,
    /// `text` or `json`, with one event per line.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Log {
        Log { level: "info,actix_server=warn".into(), format: LogFormat::Text }
    }
}
