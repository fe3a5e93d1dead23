//! `cellshift move-group GROUP`: moves all members of a server group to one host, together.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Failure;
use super::output::{ServiceOptions, counted, entries, on_service, printable};
use super::terminal::say;
use crate::client::{Client, OPERATORS};
use crate::domain::nearest::did_you_mean;

/// The pause between two looks at the move.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// The move.
#[derive(Args)]
pub(super) struct MoveGroup {
    /// The server group: its id, or its name if no other group has it.
    #[arg(value_name = "GROUP")]
    group: String,
    #[command(flatten)]
    service: ServiceOptions,
    /// Move to this host; otherwise the best host with room for all members is taken.
    #[arg(long, value_name = "HOST", conflicts_with = "to_cell")]
    host: Option<String>,
    /// Move to the best host of this cell.
    #[arg(long, value_name = "CELL")]
    to_cell: Option<String>,
    /// Print what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Stop the group's move: its members come back.
    #[arg(long, conflicts_with_all = ["host", "to_cell", "dry_run"])]
    stop: bool,
}

/// Returns 0 when all members are at the target (or would go there, or are back after a stop), and 3 if they are not.
pub(super) fn run(options: MoveGroup) -> Result<ExitCode, Failure> {
    let output = options.service.output;
    on_service(async {
        let client = options.service.reach.client().await?;
        let path = format!("/server-groups/{}/moves", group(&client, &options.group).await?);
        let answer = match options.stop {
            true => client.post(OPERATORS, &format!("{path}/stop"), json!({})).await?,
            false => {
                let body = json!({"host": options.host, "cell": options.to_cell, "dry_run": options.dry_run});
                client.post(OPERATORS, &path, body).await?
            }
        };
        if options.dry_run {
            output.show(&answer["plan"], plan)?;
            return Ok(ExitCode::SUCCESS);
        }
        let id = answer["move"]["id"].clone();
        if options.stop && !output.is_json() {
            say!("stopping the move of {}", counted(count(&answer["move"]), "member"));
        } else if !output.is_json() {
            let target = &answer["move"]["target"];
            say!("moving {} to {} in {}", counted(count(&answer["move"]), "member"), word(&target["host"]), word(&target["cell"]));
        }
        loop {
            let answer = client.get(OPERATORS, &path).await?;
            let moving = answer["moves"].as_array().into_iter().flatten().find(|one| one["id"] == id);
            let Some(now) = moving.filter(|now| now["open"] == false) else {
                tokio::time::sleep(BETWEEN_LOOKS).await;
                continue;
            };
            output.show(now, report)?;
            let end = if options.stop { "returned" } else { "done" };
            return Ok(if word(&now["state"]) == end { ExitCode::SUCCESS } else { ExitCode::from(3) });
        }
    })
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn count(moving: &Value) -> usize {
    moving["members"].as_array().map_or(0, Vec::len)
}

/// Says what a move would do.
fn plan(plan: &Value) -> String {
    let mut text = format!("would move to {} in {}:\n", word(&plan["target"]["host"]), word(&plan["target"]["cell"]));
    for member in plan["members"].as_array().into_iter().flatten() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {} from {} ({})", printable(word(&member["name"])), word(&member["from"]), word(&member["how"]));
    }
    text
}

/// Says how the move ended.
fn report(moving: &Value) -> String {
    let why = moving["reason"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
    match word(&moving["state"]) {
        "done" if count(moving) == 1 => format!("its only member is on {}\n", word(&moving["target"]["host"])),
        "done" => format!("all {} members are on {}\n", count(moving), word(&moving["target"]["host"])),
        "returned" => format!("all members are where they were{why}\n"),
        "refused" => format!("nothing was moved{why}\n"),
        _ => format!("the members are on several hosts{why}\n"),
    }
}

/// Returns the id of the group with this id or name.
async fn group(client: &Client, text: &str) -> Result<Uuid, Failure> {
    if let Ok(id) = Uuid::parse_str(text) {
        return Ok(id);
    }
    let answer = client.get("compute", "/os-server-groups?all_projects=True").await?;
    let groups = entries(&answer, "server_groups").iter();
    let mut ids = groups.clone().filter(|group| group["name"] == text).filter_map(|group| Uuid::parse_str(word(&group["id"])).ok());
    match (ids.next(), ids.next()) {
        (Some(id), None) => Ok(id),
        (None, _) => {
            let near = did_you_mean(text, groups.map(|group| word(&group["name"])));
            Err(format!("no server group is called {text:?}.{near}").into())
        }
        (Some(_), Some(_)) => Err(format!("several server groups are called {text:?}: give the id").into()),
    }
}
