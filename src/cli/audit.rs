//! `cellshift audit`: reports the invariants that do not hold. Asks a running service, and reads the data of a stopped one in place.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use super::Failure;
use super::data_dir::{DataDir, DataDirError};
use super::progress::{Progress, patiently};
use super::reach::{Login, Reach, Target};
use super::terminal::{complain, say};
use crate::actors::compute_host::StoredHosts;
use crate::bootstrap;
use crate::chaos::audit::{self as chaos, Counter, Report, Sources, audit_of, deep_audit};
use crate::client::{self, OPERATORS};
use crate::config::Config;
use crate::db::api::operations::Operations;
use crate::env::Env;

/// The exit code if an invariant does not hold.
const VIOLATIONS: u8 = 3;
/// The exit code if no violation was found but a part did not answer.
const INCOMPLETE: u8 = 4;
/// The maximum time for a database's or a host's answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval of progress reports on the terminal.
const PACE: Duration = Duration::from_millis(500);

/// The exit code if there was nothing to audit: no usable data directory, or no answer from the service that holds it.
const IMPOSSIBLE: u8 = 5;

/// Prints the report, or the reason why there is none.
pub(super) fn run(reach: Reach, deep: bool, json: bool) -> ExitCode {
    report(reach, deep, json).unwrap_or_else(|failure| {
        complain!("{failure}");
        ExitCode::from(IMPOSSIBLE)
    })
}

fn report(reach: Reach, deep: bool, json: bool) -> Result<ExitCode, Failure> {
    let system = actix_rt::System::new();
    let report = match reach.target()? {
        Target::Service(login) => system.block_on(of_running(login, deep))?,
        Target::Data(config) => match DataDir::take_existing(&config.data_dir) {
            Ok(_held) => system.block_on(of_stopped(&config, deep))?,
            Err(DataDirError::InUse { .. }) => system.block_on(of_running(Login::of_data(&config)?, deep))?,
            Err(other) => return Err(other.into()),
        },
    };
    if json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!("{report}");
    }
    Ok(match (report.clean, report.is_complete()) {
        (false, _) => ExitCode::from(VIOLATIONS),
        (true, false) => ExitCode::from(INCOMPLETE),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// Lets a running service audit itself.
async fn of_running(login: Login, deep: bool) -> Result<Report, Failure> {
    let client = login.client().await?;
    if !deep {
        return Ok(serde_json::from_value(patiently("auditing", client.get(OPERATORS, "/audit")).await?)?);
    }
    let line = Progress::spinning();
    Ok(client::audit::deep_audit(&client, |progress| line.says(words(progress))).await?)
}

async fn of_stopped(config: &Config, deep: bool) -> Result<Report, Failure> {
    let env = Env::system();
    let stored = bootstrap::open_stored(config, &env).await?;
    let hosts = StoredHosts::new(env.clone(), config.data_dir.join("cells"), stored.deployment);
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
        data_dir: Some(&config.data_dir),
    };
    if !deep {
        return Ok(patiently("auditing", audit_of(&sources)).await?);
    }
    let (counter, line) = (Counter::default(), Progress::spinning());
    let mut audit = std::pin::pin!(deep_audit(&sources, &counter));
    loop {
        tokio::select! {
            biased;
            report = &mut audit => return Ok(report?),
            () = tokio::time::sleep(PACE) => line.says(words(&counter.progress())),
        }
    }
}

/// Returns a deep audit's progress in words.
fn words(progress: &chaos::Progress) -> String {
    let chaos::Progress { files_done, files_total, bytes_done, bytes_total } = progress;
    format!("{files_done} of {files_total} files read, {} of {} MiB", bytes_done >> 20, bytes_total >> 20)
}
