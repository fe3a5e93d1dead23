//! Attachments that users record through the volume API, as they can in Cinder. They connect nothing, and the sagas know nothing of them.
//! Users cannot change the compute service's attachments here: only the compute API removes those.

mod in_steps;
pub(super) mod records;
pub(super) mod routes;

pub use in_steps::{Connector, NewAttachment};

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError};
use uuid::Uuid;

use self::records::DirectAttachmentRow;
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::attachments::{ATTACHABLE, refuse_reset, settle_from};
use crate::volume::volumes::records::VolumeRow;
use crate::volume::{AttachMode, DirectAttachment, EmbeddedVolume, attachments, rows};

/// The maximum number of attachments that users may record of one volume.
pub(super) const MOST: usize = 100;
/// The status of an attachment that is complete.
pub(super) const ATTACHED: &str = "attached";
/// The status of a volume that a user is about to detach.
pub(super) const DETACHING: &str = "detaching";
/// The status that forbids every attachment and detachment.
pub(super) const MAINTENANCE: &str = "maintenance";

/// An attachment to record: of a server or of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttachmentRequest {
    pub server: Option<Uuid>,
    pub host: Option<String>,
    pub mountpoint: String,
    pub mode: AttachMode,
}

impl EmbeddedVolume {
    /// Marks a volume as `attaching`, so that nobody else attaches it. Invalid unless it is available, or in use and for several servers.
    pub async fn reserve(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        let reserve = move |conn: &mut Conn, row: &mut VolumeRow| {
            let allowed: &[&str] = if row.multiattach { &["available", "in-use"] } else { &["available"] };
            refuse_reset(conn, row)?;
            match rows::set_status(conn, &row.id, allowed, "attaching", now)? {
                true => Ok(()),
                false => {
                    Err(invalid(format!("Volume status must be {} to reserve, but the status is {}.", allowed.join(" or "), row.status)))
                }
            }
        };
        self.change(caller, id, reserve).await.map(drop)
    }

    /// Takes a reservation back. A volume that is not reserved stays as it is.
    pub async fn unreserve(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        self.change(caller, id, move |conn, row| settle_from(conn, row, &["attaching"], now)).await.map(drop)
    }

    /// Records an attachment: the volume is in use. Does nothing if the server or the host has the volume already.
    pub async fn attach_directly(&self, caller: &RequestContext, id: Uuid, request: AttachmentRequest) -> Result<(), ServiceError> {
        let (new, now) = (self.env.uuid(), self.env.now().naive_utc());
        self.change(caller, id, move |conn, row| {
            let server = request.server.map(|server| server.to_string());
            let by_compute = attachments::records::of_volume(conn, &row.id)?;
            let directly = records::of_volume(conn, &row.id)?;
            allow(row, request.mode)?;
            let same = |one: &DirectAttachmentRow| match &server {
                Some(_) => one.server_uuid == server,
                None => one.server_uuid.is_none() && one.host == request.host,
            };
            let of_server = by_compute.iter().any(|one| Some(&one.server_uuid) == server.as_ref());
            if of_server || directly.iter().any(same) {
                return settle_from(conn, row, &ATTACHABLE, now);
            }
            refuse_reset(conn, row)?;
            let allowed: &[&str] = match row.multiattach {
                true => &["available", "attaching", "in-use"],
                // A user's reservation; not an attachment that the compute service is making.
                false if by_compute.is_empty() => &["available", "attaching"],
                false => &["available"],
            };
            if row.status == "in-use" && !row.multiattach {
                return Err(invalid("volume is already attached and multiple attachments are not enabled".into()));
            }
            if !allowed.contains(&row.status.as_str()) {
                return Err(invalid(format!("a volume that is {} cannot be attached.", row.status)));
            }
            if directly.len() >= MOST {
                return Err(invalid(format!("a volume has at most {MOST} such attachments.")));
            }
            let attachment = DirectAttachmentRow {
                id: new.to_string(),
                volume_id: row.id.clone(),
                server_uuid: server,
                host: request.host,
                mountpoint: request.mountpoint,
                mode: request.mode.as_str().to_owned(),
                attached_at: now,
                status: ATTACHED.into(),
            };
            records::insert(conn, &attachment)?;
            if row.readonly.is_none() {
                rows::set_readonly(conn, &row.id, false)?;
            }
            settle_from(conn, row, &ATTACHABLE, now)
        })
        .await
        .map(drop)
    }

    /// Removes a recorded attachment: this one, or the only one. Conflict if it is the compute service's.
    pub async fn detach_directly(&self, caller: &RequestContext, id: Uuid, attachment: Option<Uuid>) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        self.change(caller, id, move |conn, row| {
            if let Some(removed) = to_remove(conn, row, attachment)? {
                records::delete(conn, &removed)?;
                // As in Cinder, this also ends an error.
                return settle_from(conn, row, &[&ATTACHABLE[..], &[DETACHING, "error"]].concat(), now);
            }
            settle_from(conn, row, &[&ATTACHABLE[..], &[DETACHING]].concat(), now)
        })
        .await
        .map(drop)
    }

    /// Marks a volume as `detaching`. Invalid unless it is in use; Conflict if the compute service has it attached.
    pub async fn begin_detaching(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        let begin = move |conn: &mut Conn, row: &mut VolumeRow| {
            if let Some(attachment) = attachments::records::of_volume(conn, &row.id)?.first() {
                return Err(held_by_compute(&attachment.server_uuid).into());
            }
            match rows::set_status(conn, &row.id, &["in-use"], DETACHING, now)? {
                true => Ok(()),
                false => {
                    let why = "Unable to detach volume. Volume status must be 'in-use' and attach_status must be 'attached' to detach.";
                    Err(invalid(why.into()))
                }
            }
        };
        self.change(caller, id, begin).await.map(drop)
    }

    /// Takes [`EmbeddedVolume::begin_detaching`] back. A volume that is not `detaching` stays as it is.
    pub async fn roll_detaching(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        self.change(caller, id, move |conn, row| settle_from(conn, row, &[DETACHING], now)).await.map(drop)
    }

    /// Sets whether the volume is attached for reading only. Invalid unless it is available.
    pub async fn set_readonly(&self, caller: &RequestContext, id: Uuid, readonly: bool) -> Result<(), ServiceError> {
        self.change(caller, id, move |conn, row| {
            if row.status != "available" {
                let status = &row.status;
                let why = format!("Volume {id} status must be available to update readonly flag, but current status is: {status}.");
                return Err(invalid(why));
            }
            Ok(rows::set_readonly(conn, &row.id, readonly)?)
        })
        .await
        .map(drop)
    }

    /// Returns a recorded attachment that the caller may see.
    pub async fn own_direct_attachment(&self, caller: &RequestContext, id: Uuid) -> Result<Option<DirectAttachment>, ServiceError> {
        let stored = self.read(move |conn| Ok(records::by_id(conn, &id.to_string())?.map(from_row).transpose()?)).await?;
        match stored {
            Some(attachment) => Ok(self.own_volume(caller, attachment.volume_id).await.is_ok().then_some(attachment)),
            None => Ok(None),
        }
    }
}

/// Refuses to attach a volume in maintenance, and one for reading only in another mode.
pub(super) fn allow(row: &VolumeRow, mode: AttachMode) -> Result<(), TransactionError> {
    if row.status == MAINTENANCE {
        return Err(invalid("The volume cannot be attached in maintenance mode.".into()));
    }
    if row.readonly == Some(true) && mode != AttachMode::ReadOnly {
        let message = reason!("Invalid attaching mode '{}' for volume {}.", mode.as_str(), row.id);
        return Err(ServiceError::Invalid(message).into());
    }
    Ok(())
}

/// Returns the id of the recorded attachment to remove; none if the volume has no attachment.
fn to_remove(conn: &mut Conn, row: &VolumeRow, named: Option<Uuid>) -> Result<Option<String>, TransactionError> {
    if row.status == MAINTENANCE {
        return Err(invalid("The volume cannot be detached in maintenance mode.".into()));
    }
    let by_compute = attachments::records::of_volume(conn, &row.id)?;
    let directly = records::of_volume(conn, &row.id)?;
    if let Some(id) = named {
        let key = id.to_string();
        if let Some(held) = by_compute.iter().find(|one| one.id == key) {
            return Err(held_by_compute(&held.server_uuid).into());
        }
        let missing = || ServiceError::NotFound(reason!("Volume attachment could not be found with filter: attachment_id = {id}."));
        return Ok(Some(directly.into_iter().find(|one| one.id == key).ok_or_else(missing)?.id));
    }
    match (by_compute.as_slice(), directly.as_slice()) {
        ([], []) => Ok(None),
        ([], [only]) => Ok(Some(only.id.clone())),
        ([held], []) => Err(held_by_compute(&held.server_uuid).into()),
        _ => Err(invalid("Detach volume failed: More than one attachment, but no attachment_id provided.".into())),
    }
}

pub(super) fn invalid(why: String) -> TransactionError {
    ServiceError::Invalid(reason!("Invalid volume: {why}")).into()
}

/// Refuses to touch an attachment of the compute service behind its back.
pub(super) fn held_by_compute(server: &str) -> ServiceError {
    ServiceError::Conflict(reason!("Detach volume from instance {server} using the Compute API"))
}

pub(super) fn from_row(row: DirectAttachmentRow) -> Result<DirectAttachment, DbError> {
    let mode = match row.mode.as_str() {
        "rw" => AttachMode::ReadWrite,
        "ro" => AttachMode::ReadOnly,
        other => return Err(DbError::unreadable("volume_direct_attachments.mode", other)),
    };
    Ok(DirectAttachment {
        id: read_id("volume_direct_attachments.id", &row.id)?,
        volume_id: read_id("volume_direct_attachments.volume_id", &row.volume_id)?,
        server: row.server_uuid.map(|id| read_id("volume_direct_attachments.server_uuid", &id)).transpose()?,
        host: row.host,
        mountpoint: row.mountpoint,
        mode,
        attached_at: (row.status == ATTACHED).then(|| row.attached_at.and_utc()),
        status: row.status,
    })
}
