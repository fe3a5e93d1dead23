//! `cellshift drain HOST|CELL` moves all servers off a host or a cell and follows until the end; `cellshift drains` lists drains, shows one,
//! and pauses, resumes or cancels it.

mod report;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::cells::BRIEFLY;
use super::output::{Asked, Limit, List, Output, entries, on_service};
use super::progress::Progress;
use super::terminal::say;
use super::{Failure, names, terminal};
use crate::client::{Client, ClientError, OPERATORS};
use crate::signals::Signals;

/// The pause between two reads of a followed drain.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The exit code if a server could not be moved.
const LEFT_BEHIND: u8 = 3;
/// The exit code if the command was interrupted.
const INTERRUPTED: u8 = 4;

/// A drain to begin.
#[derive(Args)]
pub(super) struct Drain {
    /// The host or the cell that all servers shall leave.
    #[arg(value_name = "HOST|CELL")]
    source: String,
    /// The cell or, if no cell is called so, the availability zone where they shall go [default: other hosts of the host's cell].
    #[arg(long, value_name = "CELL|AZ")]
    to: Option<String>,
    /// The flavor that servers of another flavor take when they move, by id or name. Can be repeated.
    #[arg(long, value_name = "OLD=NEW", value_parser = pair)]
    flavor_map: Vec<(String, String)>,
    /// The maximum number of moves at once [default: 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    max_in_flight: Option<u32>,
    /// Only tell where each server would go, how full the hosts would be, and how long it would take.
    #[arg(long)]
    dry_run: bool,
    /// Confirm the cold moves that this drain begins.
    #[arg(long)]
    confirm: bool,
    #[command(flatten)]
    asked: Asked,
}

/// The drains to list, or the one to show or to change.
#[derive(Args)]
pub(super) struct Drains {
    /// The drain's id, or the beginning of it; without one, all drains are listed, newest first.
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Begin no more moves until the drain is resumed.
    #[arg(long, requires = "id", group = "change")]
    pause: bool,
    /// Go on with a paused drain.
    #[arg(long, requires = "id", group = "change")]
    resume: bool,
    /// Begin no more moves. The hosts stay disabled.
    #[arg(long, requires = "id", group = "change")]
    cancel: bool,
    /// Follow the drain until it ends.
    #[arg(long, requires = "id")]
    follow: bool,
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    limit: Limit,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let named = text.split_once('=').filter(|(old, new)| !old.is_empty() && !new.is_empty());
    named.map(|(old, new)| (old.to_owned(), new.to_owned())).ok_or_else(|| "write OLD=NEW".to_owned())
}

/// Begins a drain and follows it, or tells what it would do.
pub(super) fn run(asked: Drain) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = asked.asked.reach.clone().client().await?;
        let cells = client.get(OPERATORS, BRIEFLY).await?;
        let body = body(&asked, &cells, is_host(&client, &asked.source).await?)?;
        if asked.dry_run {
            let plan = client.post(OPERATORS, "/drains", body).await?;
            asked.asked.output.show(&plan, report::preview)?;
            return Ok(if plan["stays"] == 0 { ExitCode::SUCCESS } else { ExitCode::from(LEFT_BEHIND) });
        }
        let plan = if asked.asked.output.is_json() { None } else { plan_of(&client, &body).await? };
        let drain = client.post(OPERATORS, "/drains", body).await?;
        if !asked.asked.output.is_json() {
            let outlook = plan.as_ref().map(report::outlook).unwrap_or_default();
            say!("{}", format!("{}{outlook}", report::beginning(&drain)).trim_end());
        }
        follow(&client, drain["id"].as_str().unwrap_or_default(), asked.asked.output).await
    })
}

/// Lists drains, or shows, changes and follows one.
pub(super) fn manage(asked: Drains) -> Result<ExitCode, Failure> {
    on_service(async {
        let output = asked.asked.output;
        let client = asked.asked.reach.client().await?;
        let Some(id) = &asked.id else {
            let list = List { path: "/drains", key: "drains", id: "id", filters: Vec::new() };
            let answer = list.read(&client, asked.limit.limit).await?;
            output.show(&answer, report::table)?;
            list.mention_more(&answer, asked.limit.limit);
            return Ok(ExitCode::SUCCESS);
        };
        let id = names::drain(&client, id).await?.to_string();
        let changes = [(asked.pause, "pause"), (asked.resume, "resume"), (asked.cancel, "cancel")];
        if let Some((_, change)) = changes.into_iter().find(|(wanted, _)| *wanted) {
            client.post(OPERATORS, &format!("/drains/{id}/{change}"), json!({})).await?;
        }
        if asked.follow {
            return follow(&client, &id, output).await;
        }
        let drain = client.get(OPERATORS, &format!("/drains/{id}")).await?;
        conclude(&client, &drain, output).await
    })
}

/// Makes the request. The first word may name a host or a cell, `--to` a cell or a zone.
fn body(asked: &Drain, cells: &Value, is_host: bool) -> Result<Value, Failure> {
    let is_cell = |name: &str| entries(cells, "cells").iter().any(|cell| cell["name"] == name);
    let mut body = match (is_host, is_cell(&asked.source)) {
        (true, true) => return Err(format!("{:?} is both a host and a cell: use POST /ops/v1/drains", asked.source).into()),
        (true, false) => json!({"host": asked.source}),
        (false, true) => json!({"cell": asked.source}),
        (false, false) => return Err(format!("no host and no cell is called {:?}", asked.source).into()),
    };
    if let Some(to) = &asked.to {
        body[if is_cell(to) { "to_cell" } else { "to_zone" }] = json!(to);
    }
    if let Some(most) = asked.max_in_flight {
        body["max_in_flight"] = json!(most);
    }
    let flavors: Map<String, Value> = asked.flavor_map.iter().map(|(old, new)| (old.clone(), json!(new))).collect();
    body["flavor_map"] = flavors.into();
    body["confirm"] = json!(asked.confirm);
    body["dry_run"] = json!(asked.dry_run);
    Ok(body)
}

/// Returns what the drain would do. None if something does not answer now: the drain waits for it.
async fn plan_of(client: &Client, body: &Value) -> Result<Option<Value>, Failure> {
    let mut tried = body.clone();
    tried["dry_run"] = json!(true);
    match client.post(OPERATORS, "/drains", tried).await {
        Ok(plan) => Ok(Some(plan)),
        Err(ClientError::Refused { status: 503, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// True if a host has this name.
async fn is_host(client: &Client, name: &str) -> Result<bool, Failure> {
    match client.get(OPERATORS, &format!("/hosts/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))).await {
        Ok(_) => Ok(true),
        Err(ClientError::Refused { status: 404, .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Shows the progress until the drain ends. An interrupt ends the command, not the drain.
async fn follow(client: &Client, id: &str, output: Output) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    let progress = Progress::spinning();
    let mut told = String::new();
    loop {
        let drain = client.get(OPERATORS, &format!("/drains/{id}")).await?;
        let line = report::progress(&drain);
        if progress.is_shown() {
            progress.says(line);
        } else if line != told {
            terminal::err(format_args!("{line}\n"));
            told = line;
        }
        if report::is_over(&drain) {
            drop(progress);
            return conclude(client, &drain, output).await;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = signals.received() => {
                drop(progress);
                say!("The drain goes on without this command. Follow it with: cellshift drains {id} --follow");
                return Ok(ExitCode::from(INTERRUPTED));
            }
        }
    }
}

/// Reports what has moved, and what could not move and why.
async fn conclude(client: &Client, drain: &Value, output: Output) -> Result<ExitCode, Failure> {
    let id = drain["id"].as_str().unwrap_or_default();
    let mut servers = Vec::new();
    for state in ["refused", "pending", "moving", "moved"] {
        servers.extend(in_state(client, id, state).await?);
    }
    output.show(drain, |drain| report::summary(drain, &servers))?;
    let stays = servers.iter().any(|server| matches!(server["state"].as_str(), Some("refused" | "pending")));
    Ok(if stays { ExitCode::from(LEFT_BEHIND) } else { ExitCode::SUCCESS })
}

/// Returns the drain's servers in this state, page by page.
async fn in_state(client: &Client, id: &str, state: &str) -> Result<Vec<Value>, Failure> {
    let (mut found, mut marker): (Vec<Value>, _) = (Vec::new(), String::new());
    loop {
        let page = client.get(OPERATORS, &format!("/drains/{id}/servers?state={state}{marker}")).await?;
        found.extend(page["servers"].as_array().into_iter().flatten().cloned());
        match found.last().and_then(|last| last["server"].as_str()).filter(|_| page["servers_links"].is_array()) {
            Some(last) => marker = format!("&marker={last}"),
            None => return Ok(found),
        }
    }
}
