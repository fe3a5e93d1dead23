//! `cellshift drain HOST|CELL` moves all servers off a host or a cell and follows until the end, or undoes that; `cellshift drains` lists
//! drains, shows one, and pauses, resumes, cancels or undoes it.

mod report;
mod source;
mod undo;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use self::source::{Source, Target};
use super::order::{Key, Order, sorted};
use super::output::{Limit, List, Output, ServiceOptions, on_service};
use super::progress::Progress;
use super::terminal::say;
use super::watch::{Screen, Watch};
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
    /// The host or the cell that all servers shall leave; with --undo also a drain's id, or the beginning of it.
    #[arg(value_name = "HOST|CELL")]
    source: String,
    /// The cell or cells or, if no cell is called so, the availability zone where they shall go [default: other hosts of the host's cell].
    #[arg(long, value_name = "CELL[,CELL]|AZ")]
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
    /// Undo the newest drain of this host or cell, also one that has ended: cancel its moves in flight, and enable the hosts that it disabled.
    /// Servers that have moved stay where they are.
    #[arg(long, conflicts_with_all = ["to", "flavor_map", "max_in_flight", "dry_run", "confirm"])]
    undo: bool,
    #[command(flatten)]
    service: ServiceOptions,
}

/// The drains to list, or the one to show or to change.
#[derive(Args)]
pub(super) struct Drains {
    /// The drain's id, or the beginning of it; without one, all drains are listed, newest first.
    #[arg(value_name = "ID", conflicts_with_all = ["sort", "watch"])]
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
    /// Undo the drain, as cellshift drain --undo does.
    #[arg(long, requires = "id", group = "change", conflicts_with = "follow")]
    undo: bool,
    /// Follow the drain until it ends.
    #[arg(long, requires = "id")]
    follow: bool,
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    order: Order<DrainList>,
    #[command(flatten)]
    watch: Watch,
}

sorted! {
    /// The list of drains.
    DrainList by
        "drain", "of", "to", "state", "moved" = Key::Field("/servers/moved"),
        "in-flight" = Key::Field("/servers/moving"), "waiting" = Key::Field("/servers/pending"),
        "refused" = Key::Field("/servers/refused"),
}

fn pair(text: &str) -> Result<(String, String), String> {
    let named = text.split_once('=').filter(|(old, new)| !old.is_empty() && !new.is_empty());
    named.map(|(old, new)| (old.to_owned(), new.to_owned())).ok_or_else(|| "write OLD=NEW".to_owned())
}

/// Begins a drain and follows it, or tells what it would do.
pub(super) fn run(options: Drain) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = options.service.reach.clone().client().await?;
        if options.undo {
            return undo::of(&client, &options.source, options.service.output).await;
        }
        let body = request(&client, &options).await?;
        if options.dry_run {
            let plan = client.post(OPERATORS, "/drains", body).await.map_err(source::refused)?;
            options.service.output.show(&plan, report::preview)?;
            return Ok(if plan["stays"] == 0 { ExitCode::SUCCESS } else { ExitCode::from(LEFT_BEHIND) });
        }
        let plan = if options.service.output.is_json() { None } else { plan_of(&client, &body).await? };
        let drain = client.post(OPERATORS, "/drains", body).await.map_err(source::refused)?;
        if !options.service.output.is_json() {
            let outlook = plan.as_ref().map(report::outlook).unwrap_or_default();
            say!("{}", format!("{}{outlook}", report::beginning(&drain)).trim_end());
        }
        follow(&client, drain["id"].as_str().unwrap_or_default(), options.service.output).await
    })
}

/// Lists drains, or shows, changes and follows one.
pub(super) fn manage(options: Drains) -> Result<ExitCode, Failure> {
    on_service(async {
        let Some(id) = &options.id else { return list(options).await };
        let output = options.service.output;
        let client = options.service.reach.client().await?;
        let id = names::drain(&client, id).await?.to_string();
        if options.undo {
            return undo::by_id(&client, &id, output).await;
        }
        let changes = [(options.pause, "pause"), (options.resume, "resume"), (options.cancel, "cancel")];
        if let Some((_, change)) = changes.into_iter().find(|(is_set, _)| *is_set) {
            client.post(OPERATORS, &format!("/drains/{id}/{change}"), json!({})).await?;
        }
        if options.follow {
            return follow(&client, &id, output).await;
        }
        let drain = client.get(OPERATORS, &format!("/drains/{id}")).await?;
        conclude(&client, &drain, output).await
    })
}

/// Lists the drains.
async fn list(Drains { service, limit: Limit { limit }, order, watch, .. }: Drains) -> Result<ExitCode, Failure> {
    let list = List { path: "/drains", key: "drains", id: "id", filters: Vec::new() };
    let screen = async |client: &Client| {
        let mut answer = list.read(client, order.read_limit(limit)).await?;
        order.arrange(&mut answer[list.key], limit, report::row);
        let remarks = list.more(&answer, limit).into_iter().collect();
        Ok::<Screen, Failure>(Screen { text: report::table(&answer), answer, remarks })
    };
    watch.screens(service, screen).await
}

/// Makes the request from the names on the command line.
async fn request(client: &Client, drain: &Drain) -> Result<Value, Failure> {
    let cells = source::cells(client).await?;
    let from = Source::called(client, &drain.source, &cells).await?;
    let zones = if drain.to.is_some() { source::zones(client).await } else { None };
    let target = drain.to.as_ref().map(|name| Target::called(name, &cells, zones.as_deref())).transpose()?;
    source::body(drain, &from, target.as_ref())
}

/// Returns what the drain would do. None if something does not answer now: the drain waits for it.
async fn plan_of(client: &Client, body: &Value) -> Result<Option<Value>, Failure> {
    let mut tried = body.clone();
    tried["dry_run"] = json!(true);
    match client.post(OPERATORS, "/drains", tried).await {
        Ok(plan) => Ok(Some(plan)),
        Err(ClientError::Refused { status: 503, .. }) => Ok(None),
        Err(error) => Err(source::refused(error)),
    }
}

/// Shows the progress until the drain ends, and then what it leaves.
async fn follow(client: &Client, id: &str, output: Output) -> Result<ExitCode, Failure> {
    match follow_until_over(client, id).await? {
        Some(drain) => conclude(client, &drain, output).await,
        None => Ok(interrupted(id)),
    }
}

/// Says how to follow on, and returns the exit code of an interrupted command.
fn interrupted(id: &str) -> ExitCode {
    say!("The drain goes on without this command. Follow it with: cellshift drains {id} --follow");
    ExitCode::from(INTERRUPTED)
}

/// Shows the progress until the drain ends. None if a signal interrupts the command: that does not end the drain.
async fn follow_until_over(client: &Client, id: &str) -> Result<Option<Value>, Failure> {
    let mut signals = Signals::listen()?;
    let progress = Progress::spinning();
    let mut last_line = String::new();
    loop {
        let drain = client.get(OPERATORS, &format!("/drains/{id}")).await?;
        let line = report::progress(&drain);
        if progress.is_shown() {
            progress.says(line);
        } else if line != last_line {
            terminal::err(format_args!("{line}\n"));
            last_line = line;
        }
        if report::is_over(&drain) {
            return Ok(Some(drain));
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = signals.received() => return Ok(None),
        }
    }
}

/// Reports what has moved, and what could not move and why.
async fn conclude(client: &Client, drain: &Value, output: Output) -> Result<ExitCode, Failure> {
    let id = drain["id"].as_str().unwrap_or_default();
    let mut servers = in_state(client, id, "refused").await?;
    servers.extend(in_state(client, id, "pending").await?);
    let leaves_some = !servers.is_empty();
    servers.extend(in_state(client, id, "moving").await?);
    servers.extend(in_state(client, id, "moved").await?);
    servers.retain(|server| server["reason"].is_string());
    output.show(&with_servers(drain, &servers), |drain| report::summary(drain, &servers))?;
    Ok(if leaves_some { ExitCode::from(LEFT_BEHIND) } else { ExitCode::SUCCESS })
}

/// Returns the drain with the servers that its report names: JSON has their ids.
fn with_servers(drain: &Value, servers: &[Value]) -> Value {
    let mut drain = drain.clone();
    drain["report"] = json!(servers);
    drain
}

/// Returns the drain's servers in this state, page by page.
async fn in_state(client: &Client, id: &str, state: &str) -> Result<Vec<Value>, Failure> {
    let (mut servers, mut marker): (Vec<Value>, _) = (Vec::new(), String::new());
    loop {
        let page = client.get(OPERATORS, &format!("/drains/{id}/servers?state={state}{marker}")).await?;
        servers.extend(page["servers"].as_array().into_iter().flatten().cloned());
        match servers.last().and_then(|last| last["server"].as_str()).filter(|_| page["servers_links"].is_array()) {
            Some(last) => marker = format!("&marker={last}"),
            None => return Ok(servers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::order::tests::words_name_the_columns;

    #[test]
    fn each_column_can_be_sorted_by() {
        words_name_the_columns::<DrainList>(&report::HEAD);
    }
}
