//! Reset a server's state, renew its addresses, and read what its guest wrote to its console.

use actix_web::http::StatusCode;
use serde_json::{Value, json};

use super::ActionRequest;
use crate::http::compute::answer::{Answer, conflict, empty, ok};
use crate::http::compute::server_external_events::renew_addresses;
use crate::http::compute::servers::{access, schemas};
use crate::saga::reset::ResetTo;

pub(super) async fn reset_state(asked: &ActionRequest<'_>) -> Answer {
    schemas::RESET_STATE.check(asked.version, asked.body).await?;
    let located = asked.api.locate_for(asked.caller, asked.id, "os_compute_api:os-admin-actions:reset_state").await?;
    let to = if asked.body["os-resetState"]["state"].as_str() == Some("active") { ResetTo::Active } else { ResetTo::Error };
    asked.api.operations.reset_state(asked.caller, located.instance.uuid, to).await.map_err(access::refused)?;
    empty(StatusCode::ACCEPTED)
}

/// Reads the server's addresses anew. The guest itself takes them from its network, so nothing is written into it.
pub(super) async fn inject_network_info(asked: &ActionRequest<'_>) -> Answer {
    let rule = "os_compute_api:os-admin-actions:inject_network_info";
    let located = asked.api.locate_unlocked(asked.caller, asked.id, rule).await?;
    renew_addresses(asked.api, located.instance.uuid).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn console_output(asked: &ActionRequest<'_>) -> Answer {
    schemas::CONSOLE_OUTPUT.check(asked.version, asked.body).await?;
    let located = asked.api.locate_for(asked.caller, asked.id, "os_compute_api:os-console-output").await?;
    let (Some(host), Some(cell)) = (&located.instance.host, &located.cell) else {
        return Err(conflict(format!("Instance {} is not ready", asked.id)));
    };
    let lines = asked.api.operations.console(cell, host, located.instance.uuid).await.map_err(access::refused)?;
    ok(&json!({"output": newest(&lines, &asked.body["os-getConsoleOutput"]["length"])}))
}

/// Returns the last `length` lines; all for null and -1. What follows the last line's end counts as a line, as in Nova.
fn newest(lines: &str, length: &Value) -> String {
    let number = length.as_i64().or_else(|| length.as_str()?.parse().ok());
    let Some(wanted) = number.and_then(|number| usize::try_from(number).ok()) else { return lines.to_owned() };
    let all: Vec<&str> = lines.split('\n').collect();
    all[all.len().saturating_sub(wanted)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_returned() {
        let lines = "one\ntwo\nthree\n";
        let wanted = [
            (json!(null), lines),
            (json!(-1), lines),
            (json!(2), "three\n"),
            (json!("3"), "two\nthree\n"),
            (json!(0), ""),
            (json!(9), lines),
        ];
        for (length, expected) in wanted {
            assert_eq!(newest(lines, &length), expected, "{length}");
        }
    }
}
