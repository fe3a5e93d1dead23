//! `cellshift host`: the hosts that are agents of their own. The secret half of an agent's key is made here, on the operator's machine, and is
//! never sent to the service.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellshift_nats::credentials::UserKey;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::Failure;
use super::output::{Limit, List, ServiceOptions, entries, on_service, table, text};
use super::reach::Reach;
use super::terminal::{self, say};
use crate::agent::config::{AgentConfig, AgentHost, AgentNats};
use crate::client::OPERATORS;
use crate::client::enrolment::{enrol, path_of};

#[derive(Subcommand)]
pub(super) enum Host {
    /// Enrol a host: make its agent's key and configuration, and let the agent speak as the host on the cell's NATS.
    ///
    /// The key stays in a file that only its owner may read. Afterwards write the NATS server's configuration anew with
    /// `cellshift cell nats-config`, and reload it. A host that is enrolled already gets the key that is in the file, or a new one.
    Enroll(Enroll),
    /// List the enrolled hosts with their cells and the public halves of their keys.
    List(ListOptions),
    /// Remove a host that has no servers: its enrolment, its service, and its place in its cell. Another agent may have its name later.
    Remove(Remove),
}

/// The host to enrol.
#[derive(Args)]
pub(super) struct Enroll {
    /// The host's name, which no other host of any cell has.
    #[arg(value_name = "NAME")]
    name: String,
    /// The cell in which the host is.
    #[arg(long, value_name = "CELL")]
    cell: String,
    /// Write NAME.toml and NAME.nk (the key) to this directory [default: print the configuration, and write the key beside].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The agent's data directory on the host.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cellshift-compute")]
    agent_data_dir: PathBuf,
    /// The address of the cell's NATS, as the host reaches it. Can be given several times [default: the controllers' addresses].
    #[arg(long, value_name = "URL")]
    nats_server: Vec<String>,
    /// The file on the host with the certificates of the authorities that the NATS server's certificate may have. With it the agent insists
    /// on TLS.
    #[arg(long, value_name = "FILE")]
    tls_authorities: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
}

/// The list of enrolled hosts.
#[derive(Args)]
pub(super) struct ListOptions {
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    limit: Limit,
    /// Only hosts of this cell.
    #[arg(long, value_name = "CELL")]
    cell: Option<String>,
}

/// The host to remove.
#[derive(Args)]
pub(super) struct Remove {
    /// The host's name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    reach: Reach,
}

/// Enrols, lists or removes.
pub(super) fn run(command: Host) -> Result<ExitCode, Failure> {
    match command {
        Host::Enroll(options) => on_service(enroll(options)),
        Host::List(options) => on_service(list(options)),
        Host::Remove(options) => on_service(remove(options)),
    }
}

async fn enroll(options: Enroll) -> Result<ExitCode, Failure> {
    let Enroll { name, cell, out, agent_data_dir, nats_server, tls_authorities, reach } = options;
    cellshift_nats::Name::parse(&name)?;
    let directory = out.clone().unwrap_or_default();
    if let Some(out) = &out {
        std::fs::create_dir_all(out).map_err(|error| format!("{} cannot be made: {error}", out.display()))?;
    }
    let config_path = directory.join(format!("{name}.toml"));
    if out.is_some() && config_path.exists() {
        return Err(format!("{} is there already: remove it, or choose another directory with --out", config_path.display()).into());
    }
    let client = reach.client().await?;
    let key_file = format!("{name}.nk");
    let key = key_of(&directory.join(&key_file))?;
    let enrolled = enrol(&client, &name, &cell, &key.public).await?;
    let servers = match nats_server.is_empty() {
        true => enrolled.nats_servers,
        false => nats_server,
    };
    let hosts = vec![AgentHost { name: name.clone(), key: key_file.into() }];
    let nats = AgentNats { servers, authorities: tls_authorities };
    let config = AgentConfig::new(&cell, enrolled.deployment, agent_data_dir, hosts, nats).text()?;
    let key_path = directory.join(format!("{name}.nk"));
    match out {
        Some(_) => {
            write_new(&config_path, &config).map_err(|error| format!("{} cannot be written: {error}", config_path.display()))?;
            say!("{name} is enrolled in {cell}. Its agent's files are {} and {}.", config_path.display(), key_path.display());
        }
        None => {
            terminal::out(format_args!("{config}"));
            terminal::err(format_args!("{name} is enrolled in {cell}. Put this configuration and {} on the host.\n", key_path.display()));
        }
    }
    terminal::err(format_args!(
        "Then write the NATS server's configuration anew (cellshift cell nats-config {cell}), reload it, and start the agent there: \
         cellshift compute --config {name}.toml\n"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Returns the key of the file; makes both if there is no file, so that an enrolment that broke off can be repeated.
fn key_of(path: &Path) -> Result<UserKey, Failure> {
    if path.exists() {
        return Ok(UserKey::read(path)?);
    }
    let key = UserKey::new()?;
    key.write(path)?;
    Ok(key)
}

/// Writes a new file that only its owner may read.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

const HEAD: [&str; 4] = ["HOST", "CELL", "KEY", "ENROLLED"];

async fn list(options: ListOptions) -> Result<ExitCode, Failure> {
    let ListOptions { service: ServiceOptions { reach, output }, limit: Limit { limit }, cell } = options;
    let list = List { path: "/enrolments", key: "enrolments", id: "host", filters: vec![("cell", cell)] };
    let answer = list.read(&reach.client().await?, limit).await?;
    output.show(&answer, |answer| {
        let row = |entry: &Value| ["host", "cell", "public_key", "created_at"].map(|key| text(entry, key).to_owned());
        table(HEAD, entries(answer, "enrolments").iter().map(row))
    })?;
    if !output.is_json() {
        list.more(&answer, limit).iter().for_each(|remark| terminal::err(format_args!("{remark}\n")));
    }
    Ok(ExitCode::SUCCESS)
}

async fn remove(options: Remove) -> Result<ExitCode, Failure> {
    let Remove { name, reach } = options;
    reach.client().await?.delete(OPERATORS, &path_of(&name)).await?;
    say!("{name} is removed. Write the NATS server's configuration anew and reload it, so that its agent cannot connect.");
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_enrolment_that_broke_off_goes_on_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h1.nk");
        let first = key_of(&path).unwrap();
        assert_eq!(key_of(&path).unwrap().public, first.public);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_configuration_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h1.toml");
        write_new(&path, "a").unwrap();
        assert!(write_new(&path, "b").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
