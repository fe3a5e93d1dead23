//! Reset a server's state, renew its addresses, and read what its guest wrote to its console.

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::ActionRequest;
use crate::http::compute::answer::{Answer, conflict, empty, ok};
use crate::http::compute::body::rules::rules;
use crate::http::compute::body::{ALWAYS, Body, number};
use crate::http::compute::server_external_events::renew_addresses;
use crate::http::compute::servers::access;
use crate::saga::reset::ResetTo;

pub(super) static RESET_STATE: Body<StateReset> = Body::within("os-resetState", ALWAYS);
pub(super) static CONSOLE_OUTPUT: Body<OutputRequest> = Body::within("os-getConsoleOutput", ALWAYS);

rules! {
    /// The states that an administrator can set.
    State = json!({"enum": ["active", "error"]});
    /// A number of lines.
    Lines = json!({"type": ["integer", "string", "null"], "pattern": "^-?[0-9]+$", "minimum": -1});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StateReset {
    #[schemars(with = "State")]
    state: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputRequest {
    #[serde(default, deserialize_with = "number")]
    #[schemars(with = "Lines")]
    length: Option<i64>,
}

pub(super) async fn reset_state(action: &ActionRequest<'_>) -> Answer {
    let StateReset { state } = action.read(&RESET_STATE).await?;
    let located = action.api.locate_for(action.caller, action.id, "os_compute_api:os-admin-actions:reset_state").await?;
    let to = if state == "active" { ResetTo::Active } else { ResetTo::Error };
    action.api.operations.reset_state(action.caller, located.instance.uuid, to).await.map_err(access::refused)?;
    empty(StatusCode::ACCEPTED)
}

/// Reads the server's addresses anew. The guest itself takes them from its network, so nothing is written into it.
pub(super) async fn inject_network_info(action: &ActionRequest<'_>) -> Answer {
    let rule = "os_compute_api:os-admin-actions:inject_network_info";
    let located = action.api.locate_unlocked(action.caller, action.id, rule).await?;
    renew_addresses(action.api, located.instance.uuid).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn console_output(action: &ActionRequest<'_>) -> Answer {
    let OutputRequest { length } = action.read(&CONSOLE_OUTPUT).await?;
    let located = action.api.locate_for(action.caller, action.id, "os_compute_api:os-console-output").await?;
    let (Some(host), Some(cell)) = (&located.instance.host, &located.cell) else {
        return Err(conflict(format!("Instance {} is not ready", action.id)));
    };
    let lines = action.api.operations.console(cell, host, located.instance.uuid).await.map_err(access::refused)?;
    ok(&json!({"output": newest(&lines, length)}))
}

/// Returns the last `length` lines; all for None and -1. What follows the last line's end counts as a line, as in Nova.
fn newest(lines: &str, length: Option<i64>) -> String {
    let Some(count) = length.and_then(|length| usize::try_from(length).ok()) else { return lines.to_owned() };
    let all: Vec<&str> = lines.split('\n').collect();
    all[all.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_returned() {
        let lines = "one\ntwo\nthree\n";
        let cases = [
            (json!(null), lines),
            (json!(-1), lines),
            (json!(2), "three\n"),
            (json!("3"), "two\nthree\n"),
            (json!(0), ""),
            (json!(9), lines),
        ];
        for (length, expected) in cases {
            let request: OutputRequest = serde_json::from_value(json!({"length": length})).unwrap();
            assert_eq!(newest(lines, request.length), expected, "{length}");
        }
    }
}
