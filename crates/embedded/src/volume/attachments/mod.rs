//! Attachments of volumes to servers, and the volume's status, which follows from its attachments.

pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::fence::Fence;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_env::guard::{Guard, stands};
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use serde_json::json;
use uuid::Uuid;

use self::records::AttachmentRow;
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::direct_attachments::invalid;
use crate::volume::volumes::no_volume;
use crate::volume::volumes::records::VolumeRow;
use crate::volume::{Attachment, EmbeddedVolume, direct_attachments, rows};

/// The statuses that follow from attachments. A volume with another status cannot be attached.
pub(super) const ATTACHABLE: [&str; 4] = ["available", "reserved", "attaching", "in-use"];

impl EmbeddedVolume {
    pub(super) async fn attach(
        &self,
        fence: Fence,
        id: Uuid,
        volume: Uuid,
        host: Option<&str>,
        mountpoint: Option<&str>,
    ) -> Result<Attachment, ServiceError> {
        let now = self.env.now().naive_utc();
        let (host, path) = (host.map(str::to_owned), self.path(volume).display().to_string());
        let mut fresh = AttachmentRow {
            id: id.to_string(),
            volume_id: volume.to_string(),
            server_uuid: fence.server.to_string(),
            host: None,
            status: "reserved".into(),
            mountpoint: mountpoint.map(str::to_owned),
            connection_info: "{}".into(),
            created_at: now,
            attached_at: None,
        };
        self.write(Some(fence), move |conn| {
            let row = rows::take(conn, &fresh.volume_id, now)?.ok_or_else(|| no_volume(volume))?;
            if let Some(earlier) = records::by_id(conn, &fresh.id)? {
                if earlier.volume_id != fresh.volume_id || earlier.server_uuid != fresh.server_uuid {
                    return Err(ServiceError::Conflict(reason!("Attachment {id} exists for another volume or server.")).into());
                }
                return Ok(from_attachment(earlier)?);
            }
            let others = records::of_volume(conn, &row.id)?;
            admit(&row, &fresh.server_uuid, &others)?;
            if others.is_empty() {
                refuse_reset(conn, &row)?;
            }
            if let Some(host) = host {
                give_connector(&mut fresh, &host, None, &path, &others)?;
            }
            records::insert(conn, &fresh)?;
            settle(conn, &row, now)?;
            Ok(from_attachment(fresh)?)
        })
        .await
    }

    pub(super) async fn connect(&self, fence: Fence, id: Uuid, host: &str, mountpoint: Option<&str>) -> Result<Attachment, ServiceError> {
        let (now, folder) = (self.env.now().naive_utc(), self.folder.clone());
        let (host, mountpoint) = (host.to_owned(), mountpoint.map(str::to_owned));
        self.write(Some(fence), move |conn| {
            let (volume, mut attachment) = take_with_volume(conn, id, now)?;
            let path = folder.join(&volume.id).display().to_string();
            let others = records::of_volume(conn, &volume.id)?;
            give_connector(&mut attachment, &host, mountpoint, &path, &others)?;
            records::update(conn, &attachment)?;
            settle(conn, &volume, now)?;
            Ok(from_attachment(attachment)?)
        })
        .await
    }

    /// Asks for no connector: as in Cinder, a server without a host completes an empty attachment, and the volume is then in use.
    pub(super) async fn complete(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        self.write(Some(fence), move |conn| {
            let (volume, mut attachment) = take_with_volume(conn, id, now)?;
            if attachment.status != "attached" {
                attachment.status = "attached".into();
                attachment.attached_at = Some(now);
                records::update(conn, &attachment)?;
            }
            settle(conn, &volume, now)
        })
        .await
    }

    pub(super) async fn detach(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        self.write(Some(fence), move |conn| match records::by_id(conn, &id.to_string())? {
            None => Ok(()),
            Some(attachment) => {
                let volume = rows::take(conn, &attachment.volume_id, now)?;
                records::delete(conn, &attachment.id)?;
                volume.map_or(Ok(()), |volume| settle(conn, &volume, now))
            }
        })
        .await
    }
}

/// Returns the attachment and its volume, and locks the volume's row until the transaction ends.
fn take_with_volume(conn: &mut Conn, id: Uuid, now: NaiveDateTime) -> Result<(VolumeRow, AttachmentRow), TransactionError> {
    let missing = || ServiceError::NotFound(reason!("Volume attachment {id} could not be found."));
    let key = id.to_string();
    let volume_id = records::by_id(conn, &key)?.ok_or_else(missing)?.volume_id;
    let volume = rows::take(conn, &volume_id, now)?.ok_or_else(missing)?;
    // Reads the attachment again under the lock.
    Ok((volume, records::by_id(conn, &key)?.ok_or_else(missing)?))
}

/// Refuses a server that may not attach the volume beside its present attachments.
fn admit(volume: &VolumeRow, server: &str, others: &[AttachmentRow]) -> Result<(), ServiceError> {
    if !ATTACHABLE.contains(&volume.status.as_str()) {
        return Err(ServiceError::Conflict(reason!("Invalid volume: volume {} is {} and cannot be attached.", volume.id, volume.status)));
    }
    if !others.iter().any(|other| other.server_uuid == server) {
        // Its first attachment. The status tells of users' reservations and attachments, too.
        let shared = volume.multiattach && volume.status == "in-use";
        if others.is_empty() && volume.status != "available" && !shared {
            return Err(ServiceError::Conflict(reason!("Invalid volume: volume {} is {}, not available.", volume.id, volume.status)));
        }
        if volume.readonly == Some(true) {
            let message = format!("Invalid volume: volume {} is read-only, and servers attach for writing.", volume.id);
            return Err(ServiceError::Conflict(Reason::public(message)));
        }
    }
    match others.iter().find(|other| other.server_uuid != server) {
        Some(other) if stands(Guard::VolumeHolder) && !volume.multiattach => {
            Err(ServiceError::Conflict(reason!("Invalid volume: volume {} is attached to server {}.", volume.id, other.server_uuid)))
        }
        _ => Ok(()),
    }
}

/// Refuses what needs a volume that nobody has, whatever status an administrator has set: the volume is attached.
pub(super) fn refuse_attached(conn: &mut Conn, volume: &VolumeRow) -> Result<(), TransactionError> {
    let by_compute = records::of_volume(conn, &volume.id)?;
    if by_compute.is_empty() && direct_attachments::records::of_volume(conn, &volume.id)?.is_empty() {
        return Ok(());
    }
    Err(invalid(format!("volume {} is still attached.", volume.id)))
}

/// Refuses a first attachment to a volume for one server that is `available` and attached, because an administrator has reset its status.
pub(super) fn refuse_reset(conn: &mut Conn, volume: &VolumeRow) -> Result<(), TransactionError> {
    if volume.status == "available" && !volume.multiattach { refuse_attached(conn, volume) } else { Ok(()) }
}

/// Connects the attachment to a host. A server may have only one attachment of a volume per host.
fn give_connector(
    attachment: &mut AttachmentRow,
    host: &str,
    mountpoint: Option<String>,
    path: &str,
    others: &[AttachmentRow],
) -> Result<(), ServiceError> {
    let rival = |other: &&AttachmentRow| {
        other.id != attachment.id && other.server_uuid == attachment.server_uuid && other.host.as_deref() == Some(host)
    };
    if stands(Guard::OneConnector)
        && let Some(other) = others.iter().find(rival)
    {
        let volume = &attachment.volume_id;
        return Err(ServiceError::Conflict(reason!(
            "Duplicate connectors: attachment {} connects volume {volume} to {host} already.",
            other.id
        )));
    }
    attachment.mountpoint = mountpoint.or(attachment.mountpoint.take());
    if attachment.host.as_deref() != Some(host) {
        attachment.host = Some(host.to_owned());
        attachment.status = "attaching".into();
        attachment.attached_at = None;
    }
    attachment.connection_info = json!({"driver_volume_type": "local", "data": {"path": path, "host": host}}).to_string();
    Ok(())
}

/// Sets the volume's status according to its attachments, if it follows from them.
pub(super) fn settle(conn: &mut Conn, volume: &VolumeRow, now: NaiveDateTime) -> Result<(), TransactionError> {
    settle_from(conn, volume, &ATTACHABLE, now)
}

/// Sets the volume's status according to its attachments, if it is one of `from`.
pub(super) fn settle_from(conn: &mut Conn, volume: &VolumeRow, from: &[&str], now: NaiveDateTime) -> Result<(), TransactionError> {
    let attachments = records::of_volume(conn, &volume.id)?;
    let directly = direct_attachments::records::of_volume(conn, &volume.id)?;
    let statuses = attachments.iter().map(|one| one.status.as_str()).chain(directly.iter().map(|one| one.status.as_str()));
    let statuses: Vec<&str> = statuses.collect();
    let status = match () {
        () if statuses.contains(&"attached") => "in-use",
        () if statuses.contains(&"attaching") => "attaching",
        () if statuses.is_empty() => "available",
        () => "reserved",
    };
    if status != volume.status && from.contains(&volume.status.as_str()) {
        rows::force_status(conn, &volume.id, status, now)?;
    }
    Ok(())
}

pub(super) fn from_attachment(row: AttachmentRow) -> Result<Attachment, DbError> {
    Ok(Attachment {
        id: read_id("volume_attachments.id", &row.id)?,
        volume_id: read_id("volume_attachments.volume_id", &row.volume_id)?,
        server: read_id("volume_attachments.server_uuid", &row.server_uuid)?,
        host: row.host,
        status: row.status,
        mountpoint: row.mountpoint,
        connection_info: serde_json::from_str(&row.connection_info)?,
        attached_at: row.attached_at.map(|time| time.and_utc()),
    })
}

pub(super) fn from_attachments(rows: Vec<AttachmentRow>) -> Result<Vec<Attachment>, TransactionError> {
    Ok(rows.into_iter().map(from_attachment).collect::<Result<_, DbError>>()?)
}
