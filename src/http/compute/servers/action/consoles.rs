//! `os-getVNCConsole`, `os-getSPICEConsole` and `os-getSerialConsole`, up to microversion 2.5.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::ActionRequest;
use crate::http::compute::answer::{Answer, no_such_resource, ok};
use crate::http::compute::body::rules::rules;
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::compute::servers::consoles;
use crate::http::error::ApiError;

pub(super) static VNC: Body<VncConsole> = Body::within("os-getVNCConsole", ALWAYS);
pub(super) static SPICE: Body<SpiceConsole> = Body::within("os-getSPICEConsole", ALWAYS);
pub(super) static SERIAL: Body<SerialConsole> = Body::within("os-getSerialConsole", ALWAYS);

rules! {
    /// The types of VNC consoles.
    VncType = json!({"enum": ["novnc", "xvpvnc"]});
    /// The types of SPICE consoles.
    SpiceType = json!({"enum": ["spice-html5"]});
    /// The types of serial consoles.
    SerialType = json!({"enum": [consoles::SERIAL]});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VncConsole {
    #[serde(rename = "type")]
    #[schemars(with = "VncType")]
    kind: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpiceConsole {
    #[serde(rename = "type")]
    #[schemars(with = "SpiceType")]
    kind: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SerialConsole {
    #[serde(rename = "type")]
    #[schemars(with = "SerialType")]
    _kind: String,
}

pub(super) async fn vnc(action: &ActionRequest<'_>) -> Answer {
    check_version(action)?;
    let console = action.read(&VNC).await?;
    Err(consoles::refuse(action.api, action.caller, action.id, &console.kind).await)
}

pub(super) async fn spice(action: &ActionRequest<'_>) -> Answer {
    check_version(action)?;
    let console = action.read(&SPICE).await?;
    Err(consoles::refuse(action.api, action.caller, action.id, &console.kind).await)
}

pub(super) async fn serial(action: &ActionRequest<'_>) -> Answer {
    check_version(action)?;
    action.read(&SERIAL).await?;
    let url = consoles::open_serial(action.api, action.caller, action.id, &action.base).await?;
    ok(&json!({"console": {"type": consoles::SERIAL, "url": url}}))
}

fn check_version(action: &ActionRequest<'_>) -> Result<(), ApiError> {
    if action.version.at_most(consoles::LAST_ACTION) { Ok(()) } else { Err(no_such_resource()) }
}
