//! Takes the deployment's seat at a start, and keeps it. One process at a time has the seat, whatever data directory it uses: a start over
//! the databases of a living process is refused before it changes anything.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::system::uname;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use super::{BootstrapError, controller, file_error};
use crate::config::Config;
use crate::db::DbError;
use crate::db::api::ApiDb;
use crate::db::deployment::seat::{self, Held, Process, Renewed, SeatRow};
use crate::domain::reason;
use crate::env::{Blocking, Env};

/// The file in a data directory whose lock the process that uses the directory holds.
pub const LOCK_FILE: &str = "lock";
/// The kernel's name for itself since it was booted. A hardened service may not read it.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The number of renewals within the seat's time.
const RENEWALS: u32 = 3;
/// The longest pause after a failed renewal.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Describes this process, which holds the data directory; none in a simulation, whose databases nobody else reaches.
pub(super) fn process(config: &Config, env: &Env) -> Result<Option<Process>, BootstrapError> {
    if env.blocking() == Blocking::Inline {
        return Ok(None);
    }
    let data = &config.data_dir;
    let directory = std::fs::canonicalize(data).map_err(file_error(data))?;
    Ok(Some(Process {
        name: controller::name(data, env),
        life: env.uuid(),
        host: uname().nodename().to_string_lossy().into_owned(),
        directory: directory.to_string_lossy().into_owned(),
        lock_file: lock_file(&directory, env).map_err(file_error(data))?,
    }))
}

/// Returns the identity of the directory's lock, or of the directory if it has none: unique on this machine since it was booted.
fn lock_file(directory: &Path, env: &Env) -> std::io::Result<String> {
    let about = std::fs::metadata(directory.join(LOCK_FILE)).or_else(|_| std::fs::metadata(directory))?;
    Ok(format!("{}/{}/{}", boot(env), about.dev(), about.ino()))
}

/// Returns the kernel's boot id, or else the time of the boot: a text that differs after the next boot, and on other machines.
fn boot(env: &Env) -> String {
    std::fs::read_to_string(BOOT_ID).map_or_else(
        // In tens of seconds: the clock is corrected now and then.
        |_| format!("booted at {}0", (env.now().timestamp() - clock_gettime(ClockId::Boottime).tv_sec) / 10),
        |id| id.trim().to_owned(),
    )
}

/// Refuses the start while another process has the seat. If that looks like this controller before its machine was booted, waits until its
/// time has passed or it is seen to live.
pub(super) async fn wait_for(process: &Process, url: &str, env: &Env) -> Result<(), BootstrapError> {
    let mut former: Option<Held> = None;
    while let Some(held) = holder(url, env).await?.filter(|held| held.keeps_out(process)) {
        let is_renewed = former.as_ref().is_some_and(|former| former.until != held.until);
        if is_renewed || !held.may_be_former(process) {
            return Err(seat::refused(&held).into());
        }
        if former.is_none() {
            log::info!("{held}; this may be this controller before its machine was booted: waiting");
        }
        tokio::time::sleep(held.left).await;
        former = Some(held);
    }
    Ok(())
}

async fn holder(url: &str, env: &Env) -> Result<Option<Held>, DbError> {
    let (url, clock) = (url.to_owned(), env.clone());
    env.run_blocking(move || seat::holder(&url, &clock)).await
}

/// Keeps a process's seat until it gives it up. Cheap to clone.
#[derive(Clone)]
pub struct SeatKeeper {
    row: SeatRow,
    env: Env,
    term: Duration,
}

impl SeatKeeper {
    /// Renews the seat that this process has taken, from now on.
    pub(super) async fn start(api: &ApiDb, env: &Env, process: &Process, term: Duration) -> Result<SeatKeeper, BootstrapError> {
        let keeper = SeatKeeper { row: SeatRow::of(api, process.life), env: env.clone(), term };
        keeper.renew().await?;
        let keeping = keeper.clone();
        tokio::spawn(async move { keeping.keep().await });
        Ok(keeper)
    }

    /// Renews the seat again and again until another process has it.
    async fn keep(&self) {
        let (interval, mut is_silent) = (self.term / RENEWALS, false);
        let mut pause = interval;
        loop {
            tokio::time::sleep(pause).await;
            pause = interval;
            match self.renew_within(interval).await {
                Ok(true) => is_silent = false,
                Ok(false) => return,
                Err(error) => {
                    pause = interval.min(RETRY_PAUSE);
                    if !std::mem::replace(&mut is_silent, true) {
                        log::warn!("the seat could not be renewed, and is tried again: {error}");
                    }
                }
            }
        }
    }

    async fn renew_within(&self, patience: Duration) -> Result<bool, DbError> {
        let silent = |_| DbError::Unavailable { name: "api".to_owned(), reason: reason!("no answer within {patience:?}") };
        tokio::time::timeout(patience, self.renew()).await.map_err(silent)?
    }

    /// Renews the seat now. False if another process has it.
    async fn renew(&self) -> Result<bool, DbError> {
        // From before the renewal: the row's time is no shorter.
        let until = Instant::now() + self.term;
        match self.row.renew(self.term).await? {
            Renewed::Done => {
                self.env.seat().hold_until(until);
                Ok(true)
            }
            Renewed::Lost(successor) => {
                let successor = successor.map_or_else(|| "somebody has removed it".to_owned(), |held| held.to_string());
                let sentence = format!("this process has lost its seat: {successor}");
                log::error!("{sentence}");
                self.env.seat().lose(sentence);
                Ok(false)
            }
        }
    }

    /// Gives the seat up after a start that failed: another process may take it at once. This one writes nothing from now on.
    pub async fn abandon(&self) {
        self.env.seat().lose("the start of this process has failed".to_owned());
        self.give_up().await;
    }

    /// Gives the seat up: another process may take it at once. For a service that has stopped.
    pub async fn give_up(&self) {
        if let Err(error) = self.row.give_up().await {
            log::warn!("the seat could not be given up, and another process must wait until its time has passed: {error}");
        }
    }
}
