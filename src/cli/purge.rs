//! `cellshift db purge` and `db archive`: remove old records from the databases of a stopped service, archive with a copy of each server's
//! records in a file. A cell that does not answer is named and left for another run.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use cellshift_embedded::transaction::Transactions;
use chrono::{DateTime, Utc};
use clap::Args;
use parking_lot::Mutex;
use serde_json::Value;

use super::data_dir::DataDir;
use super::output::counted;
use super::terminal::{complain, say};
use super::words::there_are;
use super::{Failure, Place};
use crate::bootstrap::{self, Stored};
use crate::db::api::operations::Operations;
use crate::db::retention::{Before, Removed, Retention};
use crate::domain::nearest::did_you_mean;
use crate::env::Env;

/// The exit code if a cell did not answer.
const SILENT: u8 = 4;
/// The exit code if nothing could be done.
const IMPOSSIBLE: u8 = 5;

/// Selects the records to remove.
#[derive(Args, Clone)]
pub(super) struct Purge {
    #[command(flatten)]
    place: Place,
    /// Only what was deleted or ended before this time: 2026-11-23T08:00:00Z, or 2026-11-23 for its beginning in UTC.
    #[arg(long, value_name = "TIME", value_parser = super::purge_lost::time)]
    before: DateTime<Utc>,
    /// Print the numbers of records that would be removed, and remove nothing.
    #[arg(long)]
    dry_run: bool,
    /// Only records of this cell; cell0 has the servers that never got a host.
    #[arg(long, value_name = "NAME")]
    cell: Option<String>,
}

/// Selects the records to remove, and the file for the servers' copies.
#[derive(Args, Clone)]
pub(super) struct Archive {
    #[command(flatten)]
    purge: Purge,
    /// The file to which each removed server is appended as a line of JSON: its records in the cell, and its operations with journals.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// The archive's file, which only its owner may read: records name users and networks.
struct Copies(Mutex<File>);

impl Copies {
    fn open(path: &PathBuf) -> Result<Copies, Failure> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        Ok(Copies(Mutex::new(file.map_err(|error| format!("{} cannot be written: {error}", path.display()))?)))
    }

    /// Appends a server, and returns when it is on the disk.
    fn append(&self, server: &Value) -> io::Result<()> {
        let mut file = self.0.lock();
        file.write_all(format!("{server}\n").as_bytes())?;
        file.sync_data()
    }
}

/// Prints the numbers of removed records.
pub(super) fn run(options: Purge, to: Option<PathBuf>) -> ExitCode {
    purge(options, to).unwrap_or_else(|failure| {
        complain!("{failure}");
        ExitCode::from(IMPOSSIBLE)
    })
}

/// As [`run`], with copies of the servers in the file.
pub(super) fn archive(Archive { purge, to }: Archive) -> ExitCode {
    run(purge, Some(to))
}

fn purge(options: Purge, to: Option<PathBuf>) -> Result<ExitCode, Failure> {
    let env = Env::system();
    if options.before > env.now() {
        return Err("--before must not be in the future".into());
    }
    let config = options.place.clone().load()?;
    let _held = DataDir::take_existing(&config.data_dir)?;
    let copies = to.filter(|_| !options.dry_run).map(|path| Copies::open(&path)).transpose()?;
    actix_rt::System::new().block_on(async {
        let stored = bootstrap::open_stored(&config, &env).await?;
        all(&stored, &options, copies.as_ref()).await
    })
}

async fn all(stored: &Stored, options: &Purge, copies: Option<&Copies>) -> Result<ExitCode, Failure> {
    let is_chosen = |name: &str| options.cell.as_deref().is_none_or(|cell| cell == name);
    let names = || stored.cells.iter().map(|cell| cell.name.as_str()).chain(stored.silent_cells.iter().map(|(_, name, _)| name.as_str()));
    if let Some(cell) = options.cell.as_deref().filter(|_| !names().any(is_chosen)) {
        return Err(format!("--cell: none is called {cell:?}.{}{}", did_you_mean(cell, names()), there_are(names())).into());
    }
    let before = Before { deleted_servers: Some(options.before), operations: Some(options.before), history: Some(options.before) };
    let retention = Retention { operations: Operations::new(stored.api.db().clone()), before, removes: !options.dry_run };
    let append = |server: Value| copies.map_or(Ok(()), |copies| copies.append(&server));
    let mut removed = Removed::default();
    for cell in stored.cells.iter().filter(|cell| is_chosen(&cell.name)) {
        removed += retention.of_cell(cell.uuid, &cell.name, &cell.db, copies.map(|_| &append as _)).await?;
    }
    if options.cell.is_none() {
        removed += retention.of_operations().await?;
    }
    // Last, because a server has fences in the databases of several cells.
    for db in stored.cells.iter().map(|cell| cell.db.db()).chain([stored.placement.database()]) {
        removed.fences += retention.fences(db).await?;
    }
    let Removed { servers, operations, drains, group_moves, actions, faults, migrations, fences } = removed;
    let verb = if options.dry_run { "Would remove" } else { "Removed" };
    let whose = if servers == 1 { "its" } else { "their" };
    say!("{verb} {} with all {whose} records.", counted(servers, "server"));
    say!(
        "{verb} {}, {}, {}, {}, {} and {} of servers that are there, and {}.",
        counted(operations, "operation"),
        counted(drains, "drain"),
        counted(group_moves, "group move"),
        counted(actions, "action"),
        counted(faults, "fault"),
        counted(migrations, "migration"),
        counted(fences, "fence")
    );
    let silent: Vec<_> = stored.silent_cells.iter().filter(|(_, name, _)| is_chosen(name)).collect();
    for (_, name, reason) in &silent {
        say!("{name} does not answer, its records are left: {reason}");
    }
    Ok(if silent.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(SILENT) })
}
