//! `cellshift sync-aggregates`: makes the hosts of aggregates members of these in Placement.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::Failure;
use super::output::{ServiceOptions, on_service, text};
use crate::client::OPERATORS;

/// The exit code if no cell has a host of an aggregate.
const UNMAPPED: u8 = 4;
/// The exit code if a host of an aggregate has no resource provider.
const WITHOUT_PROVIDER: u8 = 6;

/// How to synchronise.
#[derive(Args)]
pub(super) struct Sync {
    #[command(flatten)]
    service: ServiceOptions,
    /// Print what would be added, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(options: Sync) -> Result<ExitCode, Failure> {
    on_service(async {
        let (client, output) = (options.service.reach.client().await?, options.service.output);
        let answer = client.post(OPERATORS, "/aggregates/sync", json!({"dry_run": options.dry_run})).await?;
        output.show(&answer, words)?;
        Ok(match (hosts(&answer, "unmapped").is_empty(), hosts(&answer, "without_provider").is_empty()) {
            (true, true) => ExitCode::SUCCESS,
            (false, _) => ExitCode::from(UNMAPPED),
            (true, false) => ExitCode::from(WITHOUT_PROVIDER),
        })
    })
}

fn hosts<'a>(answer: &'a Value, key: &str) -> Vec<&'a str> {
    answer[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Says what was added, and which hosts cannot be.
fn words(answer: &Value) -> String {
    let (mut words, verb) = (String::new(), if answer["dry_run"] == true { "would be added" } else { "was added" });
    for member in answer["added"].as_array().into_iter().flatten() {
        // Writing to a String cannot fail.
        let _ = writeln!(words, "{} {verb} to aggregate {} ({})", text(member, "host"), text(member, "name"), text(member, "aggregate"));
    }
    let unmapped = hosts(answer, "unmapped");
    if !unmapped.is_empty() {
        let _ = writeln!(words, "No cell has these hosts of aggregates: {}. Remove them from their aggregates.", unmapped.join(", "));
    }
    let without = hosts(answer, "without_provider");
    if !without.is_empty() {
        let _ = writeln!(
            words,
            "These hosts of aggregates have no resource provider: {}. They get it when the service starts.",
            without.join(", ")
        );
    }
    if words.is_empty() {
        words.push_str("Placement has every host in its aggregates.\n");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_is_named_with_what_it_lacks() {
        let member = json!({"host": "h1", "name": "rack", "aggregate": "0f0f"});
        let answer = |dry_run: bool, added: Value, unmapped: Value, without: Value| {
            words(&json!({"dry_run": dry_run, "added": added, "unmapped": unmapped, "without_provider": without}))
        };
        assert_eq!(answer(false, json!([]), json!([]), json!([])), "Placement has every host in its aggregates.\n");
        assert_eq!(answer(false, json!([member]), json!([]), json!([])), "h1 was added to aggregate rack (0f0f)\n");
        let all = answer(true, json!([member]), json!(["h2", "h3"]), json!(["h4"]));
        let lines = "h1 would be added to aggregate rack (0f0f)\nNo cell has these hosts of aggregates: h2, h3. Remove them from their \
                      aggregates.\nThese hosts of aggregates have no resource provider: h4. They get it when the service starts.\n";
        assert_eq!(all, lines);
    }
}
