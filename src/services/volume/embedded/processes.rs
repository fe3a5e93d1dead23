//! The processes of the service, as administrators see them, and what they may set of them.

use super::EmbeddedVolume;
use crate::db::services::volume::processes::{self, ProcessRow};
use crate::db::{Conn, DbError};
use crate::services::ServiceError;
use crate::services::transaction::Transactions;

/// The host and the backend of this service, without its pool.
pub const BACKEND: &str = "cellshift@local";
/// The binary of the process with volumes.
pub const VOLUME_PROCESS: &str = "cinder-volume";
/// The processes, each with its host.
const PROCESSES: [(&str, &str); 2] = [("cinder-scheduler", "cellshift"), (VOLUME_PROCESS, BACKEND)];
/// The reason for which a frozen backend is disabled, as in Cinder.
const FROZEN: &str = "frozen";

/// A process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    pub binary: String,
    pub host: String,
    /// No volume is made by a disabled process.
    pub disabled: bool,
    pub disabled_reason: Option<String>,
    /// Disabled until it is thawed.
    pub frozen: bool,
}

impl EmbeddedVolume {
    /// Returns the processes.
    pub async fn processes(&self) -> Result<Vec<Process>, ServiceError> {
        self.read(|conn| Ok(load(conn)?)).await
    }

    /// Enables or disables a process, with a reason or without. NotFound if there is no such process.
    pub async fn set_enabled(&self, binary: &str, host: &str, enabled: bool, reason: Option<String>) -> Result<(), ServiceError> {
        let missing = || ServiceError::NotFound(format!("Service {binary} could not be found on host {host}."));
        let (binary, host) = PROCESSES.into_iter().find(|known| *known == (binary, host)).ok_or_else(missing)?;
        self.write(None, move |conn| {
            let mut row = row_of(conn, binary, host)?;
            row.disabled = !enabled;
            row.disabled_reason = reason;
            Ok(processes::save(conn, &row)?)
        })
        .await
    }

    /// Freezes the backend of a host, or thaws it: a frozen one makes no volumes. Invalid if there is none, or if it is so already.
    pub async fn set_frozen(&self, host: &str, frozen: bool) -> Result<(), ServiceError> {
        if host != BACKEND {
            let message = format!("Invalid input received: Service {VOLUME_PROCESS} could not be found on host {host:.255}.");
            return Err(ServiceError::Invalid(message));
        }
        self.write(None, move |conn| {
            let row = row_of(conn, VOLUME_PROCESS, BACKEND)?;
            if row.frozen == frozen {
                let word = if frozen { "frozen already" } else { "not frozen" };
                return Err(ServiceError::Invalid(format!("Invalid input received: backend {BACKEND} is {word}.")).into());
            }
            let disabled_reason = frozen.then(|| FROZEN.to_owned());
            Ok(processes::save(conn, &ProcessRow { disabled: frozen, disabled_reason, frozen, ..row })?)
        })
        .await
    }

    /// Fails if no process makes volumes.
    pub(super) async fn check_backend(&self) -> Result<(), ServiceError> {
        let makes = |process: &Process| process.binary == VOLUME_PROCESS && !process.disabled;
        match self.processes().await?.iter().any(makes) {
            true => Ok(()),
            false => Err(ServiceError::Conflict("No valid backend was found: the volume service is disabled.".into())),
        }
    }
}

fn row_of(conn: &mut Conn, binary: &str, host: &str) -> Result<ProcessRow, DbError> {
    let set = processes::list(conn)?.into_iter().find(|row| row.process == binary && row.host == host);
    Ok(set.unwrap_or_else(|| ProcessRow {
        process: binary.to_owned(),
        host: host.to_owned(),
        disabled: false,
        disabled_reason: None,
        frozen: false,
    }))
}

fn load(conn: &mut Conn) -> Result<Vec<Process>, DbError> {
    let rows = PROCESSES.into_iter().map(|(binary, host)| row_of(conn, binary, host)).collect::<Result<Vec<_>, _>>()?;
    let process = |ProcessRow { process, host, disabled, disabled_reason, frozen }| Process {
        binary: process,
        host,
        disabled,
        disabled_reason,
        frozen,
    };
    Ok(rows.into_iter().map(process).collect())
}
