//! Attachments that users make in steps, as in Cinder since 3.27: reserved, then with a connector, then complete. They are recorded as
//! those that [`EmbeddedVolume::attach_directly`] makes at once, and connect nothing either.

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use cellshift_store::Conn;
use uuid::Uuid;

use super::records::{self, DirectAttachmentRow};
use super::{ATTACHED, DETACHING, MAINTENANCE, MOST, allow, held_by_compute, invalid};
use crate::ServiceError;
use crate::transaction::TransactionError;
use crate::volume::attachments::{ATTACHABLE, refuse_reset, settle, settle_from};
use crate::volume::volumes::records::VolumeRow;
use crate::volume::{AttachMode, DirectAttachment, EmbeddedVolume, Volume, attachments};

/// The host that an attachment is for, as a user names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connector {
    pub host: String,
    pub mountpoint: Option<String>,
    /// None leaves the attachment's mode.
    pub mode: Option<AttachMode>,
}

/// An attachment to begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewAttachment {
    pub volume: Uuid,
    /// None for a host alone.
    pub server: Option<Uuid>,
    /// None only reserves the volume.
    pub connector: Option<Connector>,
    pub mode: AttachMode,
}

impl EmbeddedVolume {
    /// Begins an attachment. Invalid unless the volume is available, or multi-attach and in use or reserved, or this server alone has it by
    /// recorded attachments.
    pub async fn begin_attachment(&self, caller: &RequestContext, new: NewAttachment) -> Result<DirectAttachment, ServiceError> {
        let (id, now) = (self.env.uuid(), self.env.now().naive_utc());
        let mut attachment = DirectAttachmentRow {
            id: id.to_string(),
            volume_id: new.volume.to_string(),
            server_uuid: new.server.map(|server| server.to_string()),
            host: None,
            mountpoint: String::new(),
            mode: new.mode.as_str().to_owned(),
            attached_at: now,
            status: "reserved".into(),
        };
        if let Some(connector) = new.connector {
            connect(&mut attachment, connector);
        }
        let admitted = move |conn: &mut Conn, row: &mut VolumeRow| {
            admit(conn, row, &attachment)?;
            records::insert(conn, &attachment)?;
            settle(conn, row, now)
        };
        let volume = self.change(caller, new.volume, admitted).await?;
        among(volume, id)
    }

    /// Names the attachment's host. Conflict if the attachment is the compute service's.
    pub async fn connect_attachment(
        &self,
        caller: &RequestContext,
        id: Uuid,
        connector: Connector,
    ) -> Result<DirectAttachment, ServiceError> {
        let now = self.env.now().naive_utc();
        let connected = move |conn: &mut Conn, row: &VolumeRow, mut attachment: DirectAttachmentRow| {
            if attachment.status == ATTACHED {
                return Err(invalid(format!("attachment {} is attached already.", attachment.id)));
            }
            connect(&mut attachment, connector);
            allow(row, mode_of(&attachment))?;
            records::update(conn, &attachment)?;
            settle(conn, row, now)
        };
        among(self.change_recorded(caller, id, connected).await?, id)
    }

    /// Marks the attachment as attached: the volume is in use. Succeeds if it is attached already. Invalid without a connector; Conflict if it is the compute service's.
    pub async fn complete_recorded(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        let completed = move |conn: &mut Conn, row: &VolumeRow, mut attachment: DirectAttachmentRow| {
            match attachment.status.as_str() {
                ATTACHED => return Ok(()),
                "reserved" => return Err(invalid(format!("attachment {} has no connector yet.", attachment.id))),
                _ => {}
            }
            (attachment.status, attachment.attached_at) = (ATTACHED.to_owned(), now);
            records::update(conn, &attachment)?;
            settle(conn, row, now)
        };
        self.change_recorded(caller, id, completed).await.map(drop)
    }

    /// Removes the attachment, and returns its volume with those that are left. Conflict if it is the compute service's.
    pub async fn remove_recorded(&self, caller: &RequestContext, id: Uuid) -> Result<Volume, ServiceError> {
        let now = self.env.now().naive_utc();
        let removed = move |conn: &mut Conn, row: &VolumeRow, attachment: DirectAttachmentRow| {
            if row.status == MAINTENANCE {
                return Err(invalid("The volume cannot be detached in maintenance mode.".into()));
            }
            records::delete(conn, &attachment.id)?;
            settle_from(conn, row, &[&ATTACHABLE[..], &[DETACHING]].concat(), now)
        };
        self.change_recorded(caller, id, removed).await
    }

    /// Changes a recorded attachment of the caller's, with its volume's row locked. Returns the volume afterwards.
    async fn change_recorded(
        &self,
        caller: &RequestContext,
        id: Uuid,
        change: impl FnOnce(&mut Conn, &VolumeRow, DirectAttachmentRow) -> Result<(), TransactionError> + Send + 'static,
    ) -> Result<Volume, ServiceError> {
        let Some(recorded) = self.own_direct_attachment(caller, id).await? else {
            let held = self.own_attachment(caller, id).await?;
            return Err(held_by_compute(&held.server.to_string()));
        };
        let changed = move |conn: &mut Conn, row: &mut VolumeRow| {
            let attachment = records::by_id(conn, &id.to_string())?.ok_or_else(|| gone(id))?;
            change(conn, row, attachment)
        };
        self.change(caller, recorded.volume_id, changed).await
    }
}

fn among(volume: Volume, id: Uuid) -> Result<DirectAttachment, ServiceError> {
    volume.direct_attachments.into_iter().find(|one| one.id == id).ok_or_else(|| gone(id))
}

fn gone(id: Uuid) -> ServiceError {
    ServiceError::NotFound(reason!("Volume attachment could not be found with filter: attachment_id = {id}."))
}

fn connect(attachment: &mut DirectAttachmentRow, connector: Connector) {
    attachment.host = Some(connector.host);
    attachment.mountpoint = connector.mountpoint.unwrap_or_default();
    if let Some(mode) = connector.mode {
        attachment.mode = mode.as_str().to_owned();
    }
    attachment.status = "attaching".to_owned();
}

fn mode_of(attachment: &DirectAttachmentRow) -> AttachMode {
    if attachment.mode == AttachMode::ReadOnly.as_str() { AttachMode::ReadOnly } else { AttachMode::ReadWrite }
}

/// Refuses an attachment that the volume cannot have beside its present ones.
fn admit(conn: &mut Conn, row: &VolumeRow, attachment: &DirectAttachmentRow) -> Result<(), TransactionError> {
    allow(row, mode_of(attachment))?;
    let directly = records::of_volume(conn, &row.id)?;
    let by_compute = attachments::records::of_volume(conn, &row.id)?;
    // A further attachment of one server's prepares its move to another host.
    let own = attachment.server_uuid.is_some()
        && ATTACHABLE.contains(&row.status.as_str())
        && by_compute.is_empty()
        && !directly.is_empty()
        && directly.iter().all(|one| one.server_uuid == attachment.server_uuid);
    let shared = row.multiattach && ["in-use", "reserved", "attaching"].contains(&row.status.as_str());
    if row.status != "available" && !own && !shared {
        let (id, status) = (&row.id, &row.status);
        return Err(invalid(format!(
            "Volume {id} status must be available or in-use or downloading to reserve, but the current status is {status}."
        )));
    }
    if !own {
        refuse_reset(conn, row)?;
    }
    if directly.len() >= MOST {
        return Err(invalid(format!("a volume has at most {MOST} such attachments.")));
    }
    Ok(())
}
