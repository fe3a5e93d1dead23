//! `cellshift db populate-queued-for-delete` and `populate-user-id`: complete mappings of an older release from the cells' records. Values
//! that are set stay; a silent cell is named and left for another run.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use uuid::Uuid;

use super::data_dir::DataDir;
use super::output::counted;
use super::terminal::{complain, say};
use super::{Failure, Populate};
use crate::bootstrap::{self, Stored};
use crate::db::DbError;
use crate::db::cell::CellDb;
use crate::domain::reason;
use crate::env::Env;

/// The exit code if --max-count was reached and more is left.
const MORE: u8 = 3;
/// The exit code if a cell did not answer and has mappings left.
const SILENT: u8 = 4;
/// The exit code if nothing could be done.
const IMPOSSIBLE: u8 = 5;
/// The maximum number of mappings in one commit.
const BATCH: i64 = 100;
/// The maximum time of a cell for one batch.
const PATIENCE: Duration = Duration::from_secs(60);

/// The column to complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// Whether the delete was requested.
    Deletes,
    /// The server's user.
    Users,
}

/// The result of a populate command.
#[derive(Default)]
struct Filled {
    written: u64,
    /// True if the maximum was reached and more is left.
    more: bool,
    /// The silent cells, with the reasons.
    silent: Vec<(String, String)>,
    /// The number of mappings whose cell has no record of the server.
    unknown: u64,
}

/// Prints the numbers of completed and remaining mappings.
pub(super) fn run(options: Populate, what: What) -> ExitCode {
    fill_in(options, what).unwrap_or_else(|failure| {
        complain!("{failure}");
        ExitCode::from(IMPOSSIBLE)
    })
}

fn fill_in(options: Populate, what: What) -> Result<ExitCode, Failure> {
    let config = options.place.load()?;
    let _held = DataDir::take_existing(&config.data_dir)?;
    let limit = options.max_count.map_or(i64::MAX, i64::from);
    let filled = actix_rt::System::new().block_on(async {
        let stored = bootstrap::open_stored(&config, &Env::system()).await?;
        Ok::<_, Failure>(Work { stored, what, left: limit, filled: Filled::default() }.do_all().await?)
    })?;
    let verb = if filled.written == 1 { "was" } else { "were" };
    say!("{} {verb} filled in.", counted(filled.written, "mapping"));
    match filled.unknown {
        0 => {}
        1 => say!("1 names a server of which its cell has no record: nothing is known of it."),
        unknown => say!("{unknown} name a server of which their cell has no record: nothing is known of them."),
    }
    for (cell, reason) in &filled.silent {
        say!("{cell} does not answer, mappings to it are left: {reason}");
    }
    if filled.more {
        say!("More are left: run the command again.");
    }
    Ok(match (filled.more, filled.silent.is_empty()) {
        (true, _) => ExitCode::from(MORE),
        (false, false) => ExitCode::from(SILENT),
        (false, true) => ExitCode::SUCCESS,
    })
}

struct Work {
    stored: Stored,
    what: What,
    /// The number of mappings that may still be written.
    left: i64,
    filled: Filled,
}

impl Work {
    async fn do_all(mut self) -> Result<Filled, DbError> {
        self.fill_in_where(None, "").await?;
        let cells: Vec<(Uuid, String, CellDb)> =
            self.stored.cells.iter().map(|cell| (cell.uuid, cell.name.clone(), cell.db.clone())).collect();
        for (uuid, name, db) in cells {
            self.fill_in_where(Some((uuid, &db)), &name).await?;
        }
        for (uuid, name, reason) in std::mem::take(&mut self.stored.silent_cells) {
            if !self.open_ones(Some(uuid), None, 1).await?.is_empty() {
                self.filled.silent.push((name, reason));
            }
        }
        Ok(self.filled)
    }

    /// Completes the mappings of one cell, or of servers that no cell has yet, batch by batch.
    async fn fill_in_where(&mut self, cell: Option<(Uuid, &CellDb)>, name: &str) -> Result<(), DbError> {
        let mut marker = None;
        loop {
            let batch = self.open_ones(cell.map(|(uuid, _)| uuid), marker, BATCH.min(self.left.max(1))).await?;
            let Some(last) = batch.last().copied() else { return Ok(()) };
            if self.left == 0 {
                self.filled.more = true;
                return Ok(());
            }
            match self.fill_in_batch(cell.map(|(_, db)| db), batch).await {
                Ok(()) => marker = Some(last),
                Err(error @ DbError::Unavailable { .. }) if cell.is_some() => {
                    self.filled.silent.push((name.to_owned(), error.to_string()));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn open_ones(&self, cell: Option<Uuid>, marker: Option<Uuid>, limit: i64) -> Result<Vec<Uuid>, DbError> {
        match self.what {
            What::Deletes => self.stored.api.mappings_without_flag(cell, marker, limit).await,
            What::Users => self.stored.api.mappings_without_user(cell, marker, limit).await,
        }
    }

    async fn fill_in_batch(&mut self, cell: Option<&CellDb>, batch: Vec<Uuid>) -> Result<(), DbError> {
        let fates = match cell {
            Some(db) => tokio::time::timeout(PATIENCE, db.fates(batch.clone())).await.unwrap_or_else(|_| {
                let reason = reason!("no answer within {} s", PATIENCE.as_secs());
                Err(DbError::Unavailable { name: db.db().name().to_owned(), reason })
            })?,
            None => Vec::new(),
        };
        let written = match self.what {
            // A server that the cell does not know is not marked as deleted: the audit must report that it is missing.
            What::Deletes => {
                let deleted: BTreeSet<Uuid> = fates.into_iter().filter(|fate| fate.deleted).map(|fate| fate.uuid).collect();
                self.stored.api.fill_in_flags(batch, deleted).await?
            }
            What::Users => {
                let count = batch.len() as u64;
                let users: BTreeMap<Uuid, String> = match cell {
                    Some(_) => fates.into_iter().map(|fate| (fate.uuid, fate.user_id)).collect(),
                    None => self.stored.api.users_of_builds(batch).await?,
                };
                self.filled.unknown += count - users.len() as u64;
                self.stored.api.fill_in_users(users).await?
            }
        };
        self.filled.written += written;
        self.left = self.left.saturating_sub_unsigned(written).max(0);
        Ok(())
    }
}
