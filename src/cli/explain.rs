//! `cellshift explain SERVER`: where a server could move, and which rule refuses each other host.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::output::{ServiceOptions, counted, examples, grouped, on_service, printable};
use super::progress::patiently;
use super::terminal::say;
use super::{Failure, names};
use crate::client::OPERATORS;

/// The number of hosts that fit that are named.
const BEST: usize = 10;

/// The move to explain.
#[derive(Args)]
pub(super) struct Explain {
    /// The server: its name, its id, or the beginning of its id.
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    service: ServiceOptions,
    /// Explain a resize to this flavor (its id or name) instead of a migration.
    #[arg(long, value_name = "FLAVOR")]
    flavor: Option<String>,
    /// Explain a move to this host alone.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Print a line for every host, in place of the ten best and the others by reason.
    #[arg(long)]
    all: bool,
    /// Print the answer as JSON, as -o json does.
    #[arg(long, hide = true)]
    json: bool,
}

/// Returns 0 if a host would take the server, and 3 if none would.
pub(super) fn run(options: Explain) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = options.service.reach.client().await?;
        let server = names::server(&client, &options.server).await?;
        let parameters = [("flavor", options.flavor), ("host", options.host)];
        let parameters = parameters.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let query = reqwest::Url::parse_with_params("http://x/", parameters)?.query().map(|query| format!("?{query}")).unwrap_or_default();
        let body = patiently("asking the scheduler", client.get(OPERATORS, &format!("/servers/{server}/destinations{query}"))).await?;
        match options.json {
            true => say!("{}", serde_json::to_string_pretty(&body)?),
            false => options.service.output.show(&body, |body| text(body, options.all))?,
        }
        let fits = destinations(&body).any(|host| host["weight"].is_number());
        Ok(if fits { ExitCode::SUCCESS } else { ExitCode::from(3) })
    })
}

fn destinations(body: &Value) -> impl Iterator<Item = &Value> {
    body["destinations"].as_array().into_iter().flatten()
}

/// Writes the hosts that fit, the best first, and those that are refused by reason; or one line per host.
pub(super) fn text(body: &Value, all: bool) -> String {
    let leaves = if body["may_leave_cell"] == true { "may leave it" } else { "may not leave it" };
    let mut text = format!(
        "server {} with flavor {} is on {} in {} and {leaves}\n",
        printable(&word(&body["name"])),
        word(&body["flavor"]),
        word(&body["host"]),
        word(&body["cell"])
    );
    let (cells, hosts) = (width(body, "cell"), width(body, "host"));
    let (fitting, refused): (Vec<&Value>, Vec<&Value>) = destinations(body).partition(|host| host["weight"].is_number());
    let count = if all { fitting.len() } else { BEST };
    // Writing to a String cannot fail.
    for host in fitting.iter().take(count).copied().chain(refused.iter().copied().filter(|_| all)) {
        let _ = writeln!(text, "{:cells$}  {:hosts$}  {}", word(&host["cell"]), word(&host["host"]), verdict(host));
    }
    if fitting.is_empty() && refused.is_empty() {
        text += "There is no other host.\n";
    }
    if fitting.len() > count {
        let (more, fit) = (fitting.len() - count, if fitting.len() == count + 1 { "fits" } else { "fit" });
        let _ = writeln!(text, "{more} more {fit}; --all lists them");
    }
    if !all {
        by_reason(&refused).into_iter().for_each(|line| text.push_str(&line));
    }
    for cell in body["silent_cells"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "{:cells$}  {:hosts$}  does not answer: none of its hosts would be chosen", word(cell), "");
    }
    text
}

/// Returns a line for each reason, that of the most hosts first.
fn by_reason(refused: &[&Value]) -> Vec<String> {
    let groups = grouped(refused.iter().map(|host| (verdict(host), word(&host["host"]))));
    groups.iter().map(|(verdict, hosts)| format!("{} {verdict} ({})\n", counted(hosts.len(), "host"), examples(hosts))).collect()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A weight that decides nothing, as it is written.
const NOTHING: &str = "0.00";

/// Writes two decimals, and no sign before zero.
fn decimals(number: f64) -> String {
    let text = format!("{number:.2}");
    if text == "-0.00" { NOTHING.to_owned() } else { text }
}

fn width(body: &Value, key: &str) -> usize {
    destinations(body).filter_map(|host| host[key].as_str()).map(str::len).max().unwrap_or_default()
}

fn verdict(host: &Value) -> String {
    let parts = |key: &str| host[key].as_array().into_iter().flatten();
    match host["weight"].as_f64() {
        Some(weight) => {
            let weights = parts("weights").map(|part| (word(&part["weigher"]), decimals(part["weight"].as_f64().unwrap_or_default())));
            let terms: Vec<String> =
                weights.filter(|(_, weight)| weight != NOTHING).map(|(name, weight)| format!("{name} {weight}")).collect();
            let brackets = if terms.is_empty() { String::new() } else { format!(" ({})", terms.join(", ")) };
            format!("fits, weight {}{brackets}", decimals(weight))
        }
        None => {
            let refusals: Vec<String> =
                parts("refusals").map(|part| format!("{}: {}", word(&part["rule"]), word(&part["reason"]))).collect();
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
            "server": "s", "name": "web", "flavor": "gen1.small", "cell": "cell1", "host": "h1", "may_leave_cell": false,
            "destinations": [
                {"cell": "cell1", "host": "h2", "weight": 1.5, "weights": [{"weigher": "RAMWeigher", "weight": 1.5}, {"weigher": "CPUWeigher", "weight": -0.0}],
                 "refusals": []},
                {"cell": "cell2", "host": "h10", "weight": null, "weights": [],
                 "refusals": [{"rule": "the request", "reason": "not in cell cell1"}, {"rule": "placement", "reason": "VCPU: 2 wanted"}]},
            ],
            "silent_cells": ["cell3"],
        });
        let expected = "server web with flavor gen1.small is on h1 in cell1 and may not leave it\n\
                      cell1  h2   fits, weight 1.50 (RAMWeigher 1.50)\n\
                      cell2  h10  refused by the request: not in cell cell1; placement: VCPU: 2 wanted\n\
                      cell3       does not answer: none of its hosts would be chosen\n";
        assert_eq!(text(&body, true), expected);
    }

    #[test]
    fn a_cloud_without_other_hosts_says_so() {
        let body =
            json!({"server": "s", "name": "web", "flavor": "f", "cell": "c1", "host": "h1", "may_leave_cell": true, "destinations": []});
        assert_eq!(text(&body, false), "server web with flavor f is on h1 in c1 and may leave it\nThere is no other host.\n");
    }

    #[test]
    fn many_hosts_are_the_ten_best_and_a_line_for_each_reason() {
        let fitting_host =
            |number: i32| json!({"cell": "cell1", "host": format!("f{number}"), "weight": -0.001, "weights": [], "refusals": []});
        let refused_host = |number: i32, reason: &str| {
            json!({"cell": "cell2", "host": format!("r{number}"), "weight": null, "weights": [],
                   "refusals": [{"rule": "placement", "reason": reason}]})
        };
        let hosts = (0..12)
            .map(fitting_host)
            .chain([refused_host(0, "it is full")])
            .chain((1..6).map(|number| refused_host(number, "no such trait")));
        let body = json!({"server": "s", "flavor": "f", "cell": "cell1", "host": "h", "may_leave_cell": true,
                          "destinations": hosts.collect::<Vec<_>>(), "silent_cells": []});
        let table = text(&body, false);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 1 + BEST + 1 + 2, "{table}");
        assert_eq!(lines[1], "cell1  f0   fits, weight 0.00");
        let end = [
            "2 more fit; --all lists them",
            "5 hosts refused by placement: no such trait (r1, r2, r3, …)",
            "1 host refused by placement: it is full (r0)",
        ];
        assert_eq!(lines[BEST + 1..], end);
    }
}
