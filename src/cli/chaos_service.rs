//! `cellshift chaos load`, `status` and `stop`: an experiment on a running service, over its operators' API.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::Failure;
use super::chaos::{Reports, exit_code, quoted};
use super::output::{Output, ServiceOptions, entries, on_service, text};
use super::progress::Progress;
use super::terminal;
use crate::chaos::experiment::text::{seconds, text as in_words};
use crate::chaos::experiment::verdict::Verdict;
use crate::client::{Client, ClientError, OPERATORS};

/// The pause between two reads while waiting for an experiment.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const PATH: &str = "/chaos/experiment";

/// An experiment and the service that runs it.
#[derive(Args)]
pub(super) struct Load {
    /// The experiment (TOML, docs/EXPERIMENTS.md).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    service: ServiceOptions,
    /// Wait until it is over, and print the verdict.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    reports: Reports,
}

/// Shows the experiment that was loaded last.
#[derive(Args)]
pub(super) struct Status {
    #[command(flatten)]
    service: ServiceOptions,
    /// Wait until it is over.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    reports: Reports,
}

pub(super) fn load(options: Load) -> Result<ExitCode, Failure> {
    let Load { file, service: ServiceOptions { reach, output }, wait, reports } = options;
    let content = read(&file)?;
    let again = format!("cellshift chaos load {}", quoted(&file.display().to_string()));
    reports.check()?;
    on_service(async {
        let client = reach.client().await?;
        let body = client.post_text(OPERATORS, PATH, "application/toml", content).await.map_err(explained)?;
        if !wait || !output.is_json() {
            output.show(&body, |body| began(&body["experiment"]))?;
        }
        if wait { conclude(&client, true, &reports, Some(again), output).await } else { Ok(ExitCode::SUCCESS) }
    })
}

pub(super) fn status(options: Status) -> Result<ExitCode, Failure> {
    let Status { service: ServiceOptions { reach, output }, wait, reports } = options;
    reports.check()?;
    on_service(async {
        let client = reach.client().await?;
        conclude(&client, wait, &reports, None, output).await
    })
}

pub(super) fn stop(ServiceOptions { reach, output }: ServiceOptions) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = reach.client().await?;
        let body = client.delete(OPERATORS, PATH).await.map_err(explained)?;
        output.show(&body, |body| line(&body["experiment"]) + "\n")?;
        Ok(ExitCode::SUCCESS)
    })
}

fn read(file: &Path) -> Result<String, Failure> {
    Ok(std::fs::read_to_string(file).map_err(|error| format!("the experiment {} cannot be read: {error}", file.display()))?)
}

/// Explains a 404: a service without the path has chaos disabled.
fn explained(error: ClientError) -> Failure {
    match error {
        ClientError::Refused { status: 404, message, .. } if !message.contains("experiment") => {
            "the service has no /ops/v1/chaos: start it with [chaos] enabled = true in its configuration".into()
        }
        other => other.into(),
    }
}

/// Says what has begun, and what of the file the service leaves out.
fn began(experiment: &Value) -> String {
    let left_out = experiment["left_out"].as_array().into_iter().flatten().filter_map(Value::as_str);
    std::iter::once(line(experiment)).chain(left_out.map(|part| format!("  {part}"))).map(|line| line + "\n").collect()
}

/// Describes the experiment's progress in one line.
fn line(experiment: &Value) -> String {
    let word = |key: &str| experiment[key].as_str().unwrap_or_default();
    let injected = experiment["injected"].as_array().map_or(0, Vec::len);
    format!("{}: {}, faults so far: {injected}", word("title"), word("state"))
}

/// Prints the verdict, or the progress if there is no verdict yet.
async fn conclude(client: &Client, wait: bool, reports: &Reports, again: Option<String>, output: Output) -> Result<ExitCode, Failure> {
    let (mut seen, progress) = (0, wait.then(Progress::spinning));
    loop {
        let body = client.get(OPERATORS, PATH).await.map_err(explained)?;
        let experiment = &body["experiment"];
        if let Some(progress) = &progress {
            progress.aside(|| {
                for fault in entries(experiment, "injected").iter().skip(seen) {
                    let at = seconds(fault["at_ms"].as_u64().unwrap_or_default());
                    terminal::err(format_args!("{at:>12}  {}\n", text(fault, "what")));
                }
            });
            seen = entries(experiment, "injected").len();
            progress.says(line(experiment));
        }
        if !experiment["verdict"].is_null() {
            drop(progress);
            let verdict: Verdict = serde_json::from_value(experiment["verdict"].clone())?;
            output.show(&body, |_| in_words(&verdict))?;
            reports.write(&verdict, again)?;
            return Ok(exit_code(&verdict));
        }
        if !wait {
            output.show(&body, |body| began(&body["experiment"]))?;
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
