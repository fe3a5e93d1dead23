//! The processes of the service, as administrators see them, and what they may set of them.

pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::reason;
use std::collections::BTreeMap;

use cellshift_store::{Conn, DbError};

use self::records::ProcessRow;
use crate::ServiceError;
use crate::transaction::Transactions;
use crate::volume::{DEFAULT_TYPE, EmbeddedVolume, SERVICE, volume_types};

/// The host and the backend of this service, without its pool.
pub const BACKEND: &str = "cellshift@local";
/// The binary of the process with volumes.
pub const VOLUME_PROCESS: &str = "cinder-volume";
/// The processes, each with its host.
const PROCESSES: [(&str, &str); 2] = [("cinder-scheduler", "cellshift"), (VOLUME_PROCESS, BACKEND)];
/// The capabilities of the only pool by which a type's extra specs can choose, and the prefix that such an extra spec may have.
pub const CAPABILITIES: [(&str, &str); 3] = [("volume_backend_name", "local"), ("storage_protocol", "file"), ("vendor_name", "cellshift")];
const SCOPE: &str = "capabilities:";
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
        let missing = || ServiceError::NotFound(reason!("Service {binary} could not be found on host {host}."));
        let (binary, host) = PROCESSES.into_iter().find(|process| *process == (binary, host)).ok_or_else(missing)?;
        self.write(None, move |conn| {
            let mut row = row_of(conn, binary, host)?;
            row.disabled = !enabled;
            row.disabled_reason = reason;
            Ok(records::save(conn, &row)?)
        })
        .await
    }

    /// Freezes the backend of a host, or thaws it: a frozen one makes no volumes. Invalid if there is none, or if it is so already.
    pub async fn set_frozen(&self, host: &str, frozen: bool) -> Result<(), ServiceError> {
        if host != BACKEND {
            let message = reason!("Invalid input received: Service {VOLUME_PROCESS} could not be found on host {host:.255}.");
            return Err(ServiceError::Invalid(message));
        }
        self.write(None, move |conn| {
            let row = row_of(conn, VOLUME_PROCESS, BACKEND)?;
            if row.frozen == frozen {
                let word = if frozen { "frozen already" } else { "not frozen" };
                return Err(ServiceError::Invalid(reason!("Invalid input received: backend {BACKEND} is {word}.")).into());
            }
            let disabled_reason = frozen.then(|| FROZEN.to_owned());
            Ok(records::save(conn, &ProcessRow { disabled: frozen, disabled_reason, frozen, ..row })?)
        })
        .await
    }

    /// Fails if no process makes volumes of this type, whose extra specs may name capabilities.
    pub(super) async fn check_backend(&self, volume_type: Option<&str>) -> Result<(), NoBackend> {
        let name = volume_type.unwrap_or(DEFAULT_TYPE).to_owned();
        let (processes, of_type) = self.read(move |conn| Ok((load(conn)?, volume_types::records::by_id_or_name(conn, &name)?))).await?;
        let makes = |process: &Process| process.binary == VOLUME_PROCESS && !process.disabled;
        if !processes.iter().any(makes) {
            return Err(NoBackend::None("the volume service is disabled".into()));
        }
        let specs: BTreeMap<String, String> = match of_type {
            Some(row) => serde_json::from_str(&row.extra_specs).map_err(|e| ServiceError::from_db(SERVICE, DbError::from(e)))?,
            None => BTreeMap::new(),
        };
        for (key, value) in &specs {
            let key = key.strip_prefix(SCOPE).unwrap_or(key);
            if let Some((_, own)) = CAPABILITIES.iter().find(|(capability, own)| *capability == key && own != value) {
                return Err(NoBackend::None(format!("the type asks for {key} {value}, and the pool has {own}")));
            }
        }
        Ok(())
    }
}

/// Why a volume cannot be made before its bytes are looked at.
pub(super) enum NoBackend {
    /// No backend makes such volumes, for this reason.
    None(String),
    Failed(ServiceError),
}

impl From<ServiceError> for NoBackend {
    fn from(error: ServiceError) -> NoBackend {
        NoBackend::Failed(error)
    }
}

fn row_of(conn: &mut Conn, binary: &str, host: &str) -> Result<ProcessRow, DbError> {
    let set = records::list(conn)?.into_iter().find(|row| row.process == binary && row.host == host);
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
