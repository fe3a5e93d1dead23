//! `cellshift explain SERVER`: where a server could move, and which rule refuses each other host.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::output::{Asked, on_service};
use super::progress::patiently;
use super::terminal::say;
use super::{Failure, names};
use crate::client::OPERATORS;

/// The move to explain.
#[derive(Args)]
pub(super) struct Explain {
    /// The server: its name, its id, or the beginning of its id.
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    asked: Asked,
    /// Explain a resize to this flavor (its id or name) instead of a migration.
    #[arg(long, value_name = "FLAVOR")]
    flavor: Option<String>,
    /// Explain a move to this host alone.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Print the answer as JSON, as -o json does.
    #[arg(long, hide = true)]
    json: bool,
}

/// Returns 0 if a host would take the server, and 3 if none would.
pub(super) fn run(asked: Explain) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = asked.asked.reach.client().await?;
        let server = names::server(&client, &asked.server).await?;
        let wanted = [("flavor", asked.flavor), ("host", asked.host)];
        let wanted = wanted.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let query = reqwest::Url::parse_with_params("http://x/", wanted)?.query().map(|query| format!("?{query}")).unwrap_or_default();
        let body = patiently("asking the scheduler", client.get(OPERATORS, &format!("/servers/{server}/destinations{query}"))).await?;
        match asked.json {
            true => say!("{}", serde_json::to_string_pretty(&body)?),
            false => asked.asked.output.show(&body, text)?,
        }
        let fits = destinations(&body).any(|host| host["weight"].is_number());
        Ok(if fits { ExitCode::SUCCESS } else { ExitCode::from(3) })
    })
}

fn destinations(body: &Value) -> impl Iterator<Item = &Value> {
    body["destinations"].as_array().into_iter().flatten()
}

/// Writes one line per host, the best first.
fn text(body: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let leaves = if body["may_leave_cell"] == true { "may leave it" } else { "may not leave it" };
    let mut text = format!(
        "server {} with flavor {} is on {} in {} and {leaves}\n",
        word(&body["server"]),
        word(&body["flavor"]),
        word(&body["host"]),
        word(&body["cell"])
    );
    let (cells, hosts) = (width(body, "cell"), width(body, "host"));
    for host in destinations(body) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:cells$}  {:hosts$}  {}", word(&host["cell"]), word(&host["host"]), verdict(host));
    }
    for cell in body["silent_cells"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "{:cells$}  {:hosts$}  does not answer: none of its hosts would be chosen", word(cell), "");
    }
    text
}

fn width(body: &Value, key: &str) -> usize {
    destinations(body).filter_map(|host| host[key].as_str()).map(str::len).max().unwrap_or_default()
}

fn verdict(host: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parts = |key: &str| host[key].as_array().into_iter().flatten();
    match host["weight"].as_f64() {
        Some(weight) => {
            let weights = parts("weights");
            let weights: Vec<String> =
                weights.map(|part| format!("{} {:.2}", text(&part["weigher"]), part["weight"].as_f64().unwrap_or_default())).collect();
            format!("fits, weight {weight:.2} ({})", weights.join(", "))
        }
        None => {
            let refusals: Vec<String> =
                parts("refusals").map(|part| format!("{}: {}", text(&part["rule"]), text(&part["reason"]))).collect();
            format!("refused by {}", refusals.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_host_has_a_line_with_its_verdict() {
        let body = json!({
            "server": "s", "flavor": "gen1.small", "cell": "cell1", "host": "h1", "may_leave_cell": false,
            "destinations": [
                {"cell": "cell1", "host": "h2", "weight": 1.5, "weights": [{"weigher": "RAMWeigher", "weight": 1.5}], "refusals": []},
                {"cell": "cell2", "host": "h10", "weight": null, "weights": [],
                 "refusals": [{"rule": "the request", "reason": "not in cell cell1"}, {"rule": "placement", "reason": "VCPU: 2 wanted"}]},
            ],
            "silent_cells": ["cell3"],
        });
        let wanted = "server s with flavor gen1.small is on h1 in cell1 and may not leave it\n\
                      cell1  h2   fits, weight 1.50 (RAMWeigher 1.50)\n\
                      cell2  h10  refused by the request: not in cell cell1; placement: VCPU: 2 wanted\n\
                      cell3       does not answer: none of its hosts would be chosen\n";
        assert_eq!(text(&body), wanted);
    }
}
