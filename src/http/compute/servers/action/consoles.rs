//! `os-getVNCConsole`, `os-getSPICEConsole` and `os-getSerialConsole`, up to microversion 2.5.

use serde_json::json;

use super::ActionRequest;
use crate::http::compute::answer::{Answer, no_such_resource, ok};
use crate::http::compute::servers::{consoles, schemas};

pub(super) async fn vnc(asked: &ActionRequest<'_>) -> Answer {
    refuse(asked, "os-getVNCConsole", &schemas::VNC_CONSOLE).await
}

pub(super) async fn spice(asked: &ActionRequest<'_>) -> Answer {
    refuse(asked, "os-getSPICEConsole", &schemas::SPICE_CONSOLE).await
}

pub(super) async fn serial(asked: &ActionRequest<'_>) -> Answer {
    if !asked.version.at_most(consoles::LAST_ACTION) {
        return Err(no_such_resource());
    }
    schemas::SERIAL_CONSOLE.check(asked.version, asked.body).await?;
    let url = consoles::open_serial(asked.api, asked.caller, asked.id, &asked.base).await?;
    ok(&json!({"console": {"type": consoles::SERIAL, "url": url}}))
}

async fn refuse(asked: &ActionRequest<'_>, action: &str, schema: &'static crate::http::schema::Schema) -> Answer {
    if !asked.version.at_most(consoles::LAST_ACTION) {
        return Err(no_such_resource());
    }
    schema.check(asked.version, asked.body).await?;
    let kind = asked.body[action]["type"].as_str().unwrap_or_default();
    Err(consoles::refuse(asked.api, asked.caller, asked.id, kind).await)
}
