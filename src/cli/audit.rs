//! `cellshift audit`: which invariants do not hold. A running service is asked; the data of a stopped one is read where it lies.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use super::Failure;
use super::data_dir::{DataDir, DataDirError};
use crate::actors::compute_host::StoredHosts;
use crate::bootstrap;
use crate::chaos::audit::{Report, Sources, audit_of};
use crate::client::{ADMIN, CLOUDS_FILE, Client, OPERATORS};
use crate::config::Config;
use crate::db::api::operations::Operations;
use crate::env::Env;

/// The exit code when an invariant does not hold.
const VIOLATIONS: u8 = 3;
/// The exit code when none was found to be violated, but not everything answered.
const INCOMPLETE: u8 = 4;
/// How long a database or a host's files may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The exit code when there was nothing to audit: no usable data directory, or no answer from the service that holds it.
const IMPOSSIBLE: u8 = 5;

/// Prints the report, or why there is none.
pub(super) fn run(config: &Config, json: bool) -> ExitCode {
    report(config, json).unwrap_or_else(|failure| {
        eprintln!("cellshift: {failure}");
        ExitCode::from(IMPOSSIBLE)
    })
}

fn report(config: &Config, json: bool) -> Result<ExitCode, Failure> {
    let report = match DataDir::take_existing(&config.data_dir) {
        Ok(_held) => actix_rt::System::new().block_on(of_stopped(config))?,
        Err(DataDirError::InUse { .. }) => actix_rt::System::new().block_on(of_running(config))?,
        Err(other) => return Err(other.into()),
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{report}");
    }
    Ok(match (report.clean, report.is_complete()) {
        (false, _) => ExitCode::from(VIOLATIONS),
        (true, false) => ExitCode::from(INCOMPLETE),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// The service that holds the data directory judges itself.
async fn of_running(config: &Config) -> Result<Report, Failure> {
    let client = Client::log_in(&config.data_dir.join(CLOUDS_FILE), ADMIN).await?;
    Ok(serde_json::from_value(client.get(OPERATORS, "/audit").await?)?)
}

async fn of_stopped(config: &Config) -> Result<Report, Failure> {
    let env = Env::system();
    let stored = bootstrap::open_stored(config, &env).await?;
    let hosts = StoredHosts::new(env.clone(), config.data_dir.join("cells"));
    let operations = Operations::new(stored.api.db().clone());
    let cells: BTreeMap<_, _> = stored.cells.iter().map(|cell| (cell.name.clone(), (cell.uuid, &cell.db))).collect();
    let sources = Sources {
        env: &env,
        operations: &operations,
        api: &stored.api,
        cells,
        silent_cells: stored.silent_cells.clone(),
        hosts: &hosts,
        images: &*stored.images,
        network: &*stored.network,
        volumes: &*stored.volumes,
        placement: &*stored.placement,
        patience: PATIENCE,
    };
    Ok(audit_of(&sources).await?)
}
