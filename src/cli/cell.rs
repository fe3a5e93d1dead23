//! `cellshift cell`: the configuration of a cell's NATS server, with a user for each enrolled host, and the controllers' key for it.

use std::path::PathBuf;
use std::process::ExitCode;

use cellshift_nats::credentials::UserKey;
use clap::{Args, Subcommand};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Failure;
use super::output::{on_service, text};
use super::reach::Reach;
use super::terminal;
use crate::client::OPERATORS;

#[derive(Subcommand)]
pub(super) enum Cell {
    /// Print the configuration of a cell's NATS server: a user for the controllers, and one for each enrolled host, with the rights that each
    /// needs. It has no secrets.
    ///
    /// The controllers' key is the file that [nats.CELL] key names in the service's configuration.
    NatsConfig(NatsConfig),
    /// Make the key with which controllers log in at a cell's NATS server, in a new file that only its owner may read.
    ///
    /// Name the file as [nats.CELL] key in the service's configuration.
    NewKey {
        /// The file to make.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// The NATS server to configure.
#[derive(Args)]
pub(super) struct NatsConfig {
    /// The cell.
    #[arg(value_name = "CELL")]
    cell: String,
    /// The address and port at which the NATS server listens [default: 0.0.0.0:4222].
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// The path of the server's certificate on its machine, with those between it and its authority. With it the server takes TLS alone.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The path of the certificate's private key on the server's machine.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
}

/// Prints the configuration, or makes the key.
pub(super) fn run(command: Cell) -> Result<ExitCode, Failure> {
    let options = match command {
        Cell::NatsConfig(options) => options,
        Cell::NewKey { file } => {
            UserKey::new()?.write(&file)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    on_service(async {
        let path = path(&options)?;
        let answer = options.reach.client().await?.get(OPERATORS, &path).await?;
        terminal::out(format_args!("{}", text(&answer["nats_config"], "text")));
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns the path and query of the request.
fn path(options: &NatsConfig) -> Result<String, Failure> {
    let of_file = |path: &Option<PathBuf>| match path {
        Some(path) => path.to_str().map(|path| Some(path.to_owned())).ok_or_else(|| format!("{} is no UTF-8", path.display())),
        None => Ok(None),
    };
    let parts =
        [("listen", options.listen.clone()), ("certificate", of_file(&options.tls_certificate)?), ("key", of_file(&options.tls_key)?)];
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let query: Vec<String> = parts.iter().filter_map(|(key, value)| Some(format!("{key}={}", encode(value.as_ref()?)))).collect();
    Ok(format!("/cells/{}/nats-config?{}", encode(&options.cell), query.join("&")))
}
