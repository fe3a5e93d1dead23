//! `cellshift db purge-lost`: the only way to remove files from `lost+found/`. It may run beside a service, which adds files there at its
//! start and reads none.

use std::process::ExitCode;

use cellshift_embedded::lost_and_found;
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use clap::Args;

use super::data_dir::DataDirError;
use super::output::counted;
use super::{Failure, Place, terminal};

/// Selects the files to remove.
#[derive(Args, Clone)]
pub(super) struct PurgeLost {
    #[command(flatten)]
    place: Place,
    /// Only files found before this time: 2026-11-23T08:00:00Z, or 2026-11-23 for its beginning in UTC.
    #[arg(long, value_name = "TIME", value_parser = time)]
    before: DateTime<Utc>,
    /// Print the files that would be removed, and remove nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Removes the files and prints their names.
pub(super) fn run(options: PurgeLost) -> Result<ExitCode, Failure> {
    let data = options.place.load()?.data_dir;
    if !data.is_dir() {
        return Err(DataDirError::Missing { path: data }.into());
    }
    let root = lost_and_found::in_directory(&data);
    let purged = lost_and_found::purge(&data, options.before, options.dry_run)
        .map_err(|error| format!("{} cannot be purged: {error}", root.display()))?;
    let verb = if options.dry_run { "would remove" } else { "removed" };
    let mut text: String =
        purged.iter().map(|lost| format!("{verb} {}, {}\n", root.join(&lost.path).display(), counted(lost.bytes, "byte"))).collect();
    let bytes: u64 = purged.iter().map(|lost| lost.bytes).sum();
    text += &format!("{verb} {}, {}\n", counted(purged.len(), "file"), counted(bytes, "byte"));
    terminal::out(format_args!("{text}"));
    Ok(ExitCode::SUCCESS)
}

/// Reads a moment, or a day for its beginning in UTC.
pub(super) fn time(text: &str) -> Result<DateTime<Utc>, String> {
    let whole = DateTime::parse_from_rfc3339(text).map(|time| time.with_timezone(&Utc));
    let day = || text.parse::<NaiveDate>().map(|day| day.and_time(NaiveTime::MIN).and_utc());
    whole.or_else(|_| day()).map_err(|_| "a time like 2026-11-23T08:00:00Z, or a day like 2026-11-23".to_owned())
}
