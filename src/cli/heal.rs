//! `cellshift heal-allocations`: gives servers in placement what their ports ask for, on their own hosts.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::output::{ServiceOptions, counted, on_service};
use super::terminal::{complain, say};
use super::{Failure, names};
use crate::client::{Client, ClientError, OPERATORS};

/// The pause between two looks at an operation.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// The exit codes, which are those of `nova-manage placement heal_allocations`. Its 2 and 5 do not arise: each host has its compute node, and
/// the service reads ports and plans together.
mod code {
    /// More servers need it than --max-count.
    pub const MORE: u8 = 1;
    /// A server cannot get its allocation.
    pub const NOT_HEALED: u8 = 3;
    /// Nothing was changed.
    pub const NOTHING: u8 = 4;
    /// A port could not be changed.
    pub const PORT: u8 = 6;
    /// A change could not be undone.
    pub const NOT_UNDONE: u8 = 7;
    pub const INVALID: u8 = 127;
    pub const UNEXPECTED: u8 = 255;
}

/// The exit code of a command line that clap refuses.
pub(super) const INVALID_LINE: u8 = code::INVALID;

/// The servers to heal.
#[derive(Args)]
pub(super) struct Heal {
    #[command(flatten)]
    service: ServiceOptions,
    /// Heal this server alone: its name, its id, or the beginning of its id.
    #[arg(long)]
    server: Option<String>,
    /// Heal the servers of this cell alone.
    #[arg(long, conflicts_with = "server")]
    cell: Option<String>,
    /// The maximum number of servers to heal [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_count: Option<u32>,
    /// Print what would be changed, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(options: Heal) -> ExitCode {
    let code = on_service(heal_all(options)).unwrap_or_else(|failure| {
        complain!("{failure}");
        match failure.downcast_ref::<ClientError>() {
            Some(ClientError::Refused { status: 400 | 404, .. }) => code::INVALID,
            Some(_) => code::UNEXPECTED,
            // The name of a server that is not there.
            None => code::INVALID,
        }
    });
    ExitCode::from(code)
}

async fn heal_all(options: Heal) -> Result<u8, Failure> {
    let client = match options.service.reach.client().await {
        Ok(client) => client,
        Err(failure) => {
            complain!("{failure}");
            return Ok(code::UNEXPECTED);
        }
    };
    let output = options.service.output;
    let mut query = Vec::new();
    if let Some(server) = &options.server {
        query.push(format!("server={}", names::server(&client, server).await?));
    }
    query.extend(options.cell.iter().map(|cell| format!("cell={}", utf8_percent_encode(cell, NON_ALPHANUMERIC))));
    let answer = client.get(OPERATORS, &format!("/servers/unhealed?{}", query.join("&"))).await?;
    let servers = answer["servers"].as_array().cloned().unwrap_or_default();
    if servers.is_empty() {
        output.show(&json!([]), |_| "No server needs healing.\n".to_owned())?;
        return Ok(code::NOTHING);
    }
    let most = options.max_count.map_or(usize::MAX, |count| count as usize);
    let (mut failed, mut all) = (None, Vec::new());
    for server in servers.iter().take(most) {
        let ended = treat(&client, server, options.dry_run).await?;
        failed = failed.or(ended.code());
        if output.is_json() {
            all.push(ended.report(server));
        } else {
            ended.say(server);
        }
    }
    if output.is_json() {
        output.show(&Value::Array(all), |_| String::new())?;
    }
    Ok(match failed {
        Some(code) => code,
        None if options.dry_run => code::NOTHING,
        None if servers.len() > most => code::MORE,
        None => 0,
    })
}

/// The end of a server's healing.
enum Ended {
    Healed,
    /// Only looked at (`--dry-run`).
    WouldBe,
    /// Not healed, for this reason and with this exit code.
    Not(u8, String),
}

impl Ended {
    /// Returns the exit code of a server that is not healed.
    fn code(&self) -> Option<u8> {
        match self {
            Ended::Not(code, _) => Some(*code),
            Ended::Healed | Ended::WouldBe => None,
        }
    }

    fn say(&self, server: &Value) {
        match self {
            Ended::Healed => say!("{}: changed {}", title(server), words(server)),
            Ended::WouldBe => say!("{}: would change {}", title(server), words(server)),
            Ended::Not(_, why) => complain!("{}: not healed: {why}", title(server)),
        }
    }

    /// Returns the server as the service tells it, with that end.
    fn report(&self, server: &Value) -> Value {
        let (state, why) = match self {
            Ended::Healed => ("healed", Value::Null),
            Ended::WouldBe => ("would_be_healed", Value::Null),
            Ended::Not(_, why) => ("not_healed", json!(why)),
        };
        let mut report = server.clone();
        (report["state"], report["reason"]) = (json!(state), why);
        report
    }
}

async fn treat(client: &Client, server: &Value, dry_run: bool) -> Result<Ended, Failure> {
    match server["obstacle"].as_str() {
        Some(why) => Ok(Ended::Not(code::NOT_HEALED, why.to_owned())),
        None if dry_run => Ok(Ended::WouldBe),
        None => heal(client, server).await,
    }
}

/// Heals a server, and waits.
async fn heal(client: &Client, server: &Value) -> Result<Ended, Failure> {
    let path = format!("/servers/{}/heal", word(&server["server"]));
    let operation = match client.post(OPERATORS, &path, json!({})).await {
        Ok(operation) => operation,
        Err(refused) => return Ok(Ended::Not(code::NOT_HEALED, refused.to_string())),
    };
    let path = format!("/migrations/{}", word(&operation["migration"]));
    loop {
        let operation = client.get(OPERATORS, &path).await?;
        let failed = || operation["steps"].as_array().into_iter().flatten().find_map(|step| Some((step, step["error"].as_str()?)));
        let why = || failed().map_or("it was undone", |(_, why)| why).to_owned();
        match operation["state"].as_str() {
            Some("done") => return Ok(Ended::Healed),
            Some("needs_operator") => return Ok(Ended::Not(code::NOT_UNDONE, why())),
            Some("unwound") if failed().is_some_and(|(step, _)| step["step"] == "name_providers") => {
                return Ok(Ended::Not(code::PORT, why()));
            }
            Some("unwound") => return Ok(Ended::Not(code::NOT_HEALED, why())),
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
    format!("{amounts}, and the providers of {}", counted(ports, "port"))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
