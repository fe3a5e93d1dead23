//! Messages to users: what became of a request after its answer. So far there is one, about volumes that no backend can make.

pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use cellshift_store::DbError;
use cellshift_store::columns::read_id;
use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use self::records::MessageRow;
use crate::ServiceError;
use crate::transaction::Transactions;
use crate::volume::rules::{may_use, read_all};
use crate::volume::{EmbeddedVolume, NewVolume};

/// The time for which a message is kept, as in Cinder by default.
const KEPT: TimeDelta = TimeDelta::days(30);

/// A message: no backend could make this volume.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    pub id: Uuid,
    pub project_id: String,
    /// The request that failed later.
    pub request_id: String,
    pub volume_id: Uuid,
    pub created_at: DateTime<Utc>,
    /// The message may be gone then.
    pub guaranteed_until: DateTime<Utc>,
}

impl EmbeddedVolume {
    /// Tells the owner of a volume that no backend can make it. Forgets old messages.
    pub(super) async fn tell_no_backend(&self, new: &NewVolume) -> Result<(), ServiceError> {
        let now = self.env.now();
        let row = MessageRow {
            id: self.env.uuid().to_string(),
            project_id: new.caller.project_id.clone(),
            request_id: new.caller.request_id.clone(),
            volume_id: new.id.to_string(),
            created_at: now.naive_utc(),
        };
        self.write(None, move |conn| {
            records::delete_before(conn, (now - KEPT).naive_utc())?;
            Ok(records::insert(conn, &row)?)
        })
        .await
    }

    /// Returns the messages to the caller's project, or all to an administrator, newest first.
    pub async fn messages(&self, caller: &RequestContext) -> Result<Vec<Message>, ServiceError> {
        let project = Some(caller.project_id.clone()).filter(|_| !caller.is_admin());
        self.read(move |conn| read_all(records::list(conn, project.as_deref())?, from_row)).await
    }

    /// Returns a message to the caller's project, or any to an administrator.
    pub async fn message(&self, caller: &RequestContext, id: Uuid) -> Result<Message, ServiceError> {
        let missing = || ServiceError::NotFound(reason!("Message {id} could not be found."));
        let stored = self.read(move |conn| Ok(records::by_id(conn, &id.to_string())?.map(from_row).transpose()?)).await?;
        stored.filter(|message| may_use(caller, &message.project_id)).ok_or_else(missing)
    }

    /// Deletes a message to the caller's project, or any for an administrator.
    pub async fn delete_message(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        self.message(caller, id).await?;
        self.write(None, move |conn| Ok(records::delete(conn, &id.to_string())?)).await
    }
}

fn from_row(row: MessageRow) -> Result<Message, DbError> {
    let created_at = row.created_at.and_utc();
    Ok(Message {
        id: read_id("volume_messages.id", &row.id)?,
        project_id: row.project_id,
        request_id: row.request_id,
        volume_id: read_id("volume_messages.volume_id", &row.volume_id)?,
        created_at,
        guaranteed_until: created_at + KEPT,
    })
}
