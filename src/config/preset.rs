//! The names that a new cloud gets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The names of the things that the first start makes beside cells and hosts. Later starts keep them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Two generations of hardware with their flavors and zones, and a small image.
    #[default]
    Cellshift,
    /// DevStack's names, so that other projects' tests and tutorials run unchanged: its flavors and their ids, an image `cirros-…`, the one zone
    /// `nova`, the users `demo`, `alt_demo` and `admin`, and the clouds `devstack`, `devstack-alt`, `devstack-admin` and
    /// `devstack-system-admin`.
    Devstack,
}
