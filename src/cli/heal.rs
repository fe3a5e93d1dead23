//! `cellshift heal-allocations`: gives servers in placement what their ports ask for, on their own hosts.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::output::{Asked, on_service};
use super::terminal::{complain, say};
use super::{Failure, names};
use crate::client::{Client, OPERATORS};

/// The pause between two looks at an operation.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// The exit code if a server could not be healed.
const NOT_HEALED: u8 = 3;
/// The exit code if no server needs it.
const NOTHING: u8 = 4;
/// The exit code if more servers need it than --max-count.
const MORE: u8 = 5;

/// The servers to heal.
#[derive(Args)]
pub(super) struct Heal {
    #[command(flatten)]
    asked: Asked,
    /// Heal this server alone: its name, its id, or the beginning of its id.
    #[arg(long)]
    server: Option<String>,
    /// Heal the servers of this cell alone.
    #[arg(long)]
    cell: Option<String>,
    /// The maximum number of servers to heal [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_count: Option<u32>,
    /// Print what would be changed, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(asked: Heal) -> Result<ExitCode, Failure> {
    on_service(async {
        let (client, output) = (asked.asked.reach.client().await?, asked.asked.output);
        let mut query = Vec::new();
        if let Some(server) = &asked.server {
            query.push(format!("server={}", names::server(&client, server).await?));
        }
        query.extend(asked.cell.iter().map(|cell| format!("cell={cell}")));
        let listed = client.get(OPERATORS, &format!("/servers/unhealed?{}", query.join("&"))).await?;
        let servers = listed["servers"].as_array().cloned().unwrap_or_default();
        if servers.is_empty() {
            output.show(&json!([]), |_| "No server needs healing.\n".to_owned())?;
            return Ok(ExitCode::from(NOTHING));
        }
        let most = asked.max_count.map_or(usize::MAX, |count| count as usize);
        let (mut failed, mut all) = (0, Vec::new());
        for server in servers.iter().take(most) {
            let ended = treat(&client, server, asked.dry_run).await?;
            failed += usize::from(matches!(ended, Ended::Not(_)));
            if output.is_json() {
                all.push(ended.told(server));
            } else {
                ended.say(server);
            }
        }
        if output.is_json() {
            output.show(&Value::Array(all), |_| String::new())?;
        }
        Ok(match (failed, servers.len() > most) {
            (0, false) => ExitCode::SUCCESS,
            (0, true) => ExitCode::from(MORE),
            _ => ExitCode::from(NOT_HEALED),
        })
    })
}

/// The end of a server's healing.
enum Ended {
    Healed,
    /// Only looked at (`--dry-run`).
    WouldBe,
    /// Not healed, for this reason.
    Not(String),
}

impl Ended {
    fn say(&self, server: &Value) {
        match self {
            Ended::Healed => say!("{}: changed {}", title(server), words(server)),
            Ended::WouldBe => say!("{}: would change {}", title(server), words(server)),
            Ended::Not(why) => complain!("{}: not healed: {why}", title(server)),
        }
    }

    /// Returns the server as the service tells it, with that end.
    fn told(&self, server: &Value) -> Value {
        let (state, why) = match self {
            Ended::Healed => ("healed", Value::Null),
            Ended::WouldBe => ("would_be_healed", Value::Null),
            Ended::Not(why) => ("not_healed", json!(why)),
        };
        let mut told = server.clone();
        (told["state"], told["reason"]) = (json!(state), why);
        told
    }
}

async fn treat(client: &Client, server: &Value, dry_run: bool) -> Result<Ended, Failure> {
    match server["obstacle"].as_str() {
        Some(why) => Ok(Ended::Not(why.to_owned())),
        None if dry_run => Ok(Ended::WouldBe),
        None => Ok(heal(client, server).await?.map_or(Ended::Healed, Ended::Not)),
    }
}

/// Heals a server, and waits. Returns the reason if it is not healed.
async fn heal(client: &Client, server: &Value) -> Result<Option<String>, Failure> {
    let path = format!("/servers/{}/heal", word(&server["server"]));
    let begun = match client.post(OPERATORS, &path, json!({})).await {
        Ok(begun) => begun,
        Err(refused) => return Ok(Some(refused.to_string())),
    };
    let path = format!("/migrations/{}", word(&begun["migration"]));
    loop {
        let operation = client.get(OPERATORS, &path).await?;
        let last = || operation["steps"].as_array().into_iter().flatten().filter_map(|step| step["error"].as_str()).next();
        match operation["state"].as_str() {
            Some("done") => return Ok(None),
            Some("unwound" | "needs_operator") => return Ok(Some(last().unwrap_or("it was undone").to_owned())),
            _ => tokio::time::sleep(BETWEEN_LOOKS).await,
        }
    }
}

fn title(server: &Value) -> String {
    format!("{} ({} on {})", word(&server["name"]), word(&server["server"]), word(&server["host"]))
}

fn words(server: &Value) -> String {
    let one = |amount: &Value| {
        format!("{:+} {} of {}", amount["amount"].as_i64().unwrap_or(0), word(&amount["class"]), word(&amount["provider"]))
    };
    let amounts: Vec<String> = server["changes"]["amounts"].as_array().into_iter().flatten().map(one).collect();
    let ports = server["changes"]["ports"].as_array().map_or(0, Vec::len);
    let amounts = if amounts.is_empty() { "no amount".to_owned() } else { amounts.join(", ") };
    format!("{amounts}, and the providers of {ports} ports")
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
