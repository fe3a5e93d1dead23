//! Reads volumes with their attachments.

use std::collections::BTreeMap;

use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError};
use uuid::Uuid;

use super::records::VolumeRow;
use super::{image_metadata, no_volume};
use crate::transaction::TransactionError;
use crate::volume::attachments::records::AttachmentRow;
use crate::volume::attachments::{self, from_attachment};
use crate::volume::direct_attachments::records::DirectAttachmentRow;
use crate::volume::{Volume, direct_attachments, rows, volume_types};

pub(in crate::volume) fn load(conn: &mut Conn, id: Uuid) -> Result<Volume, TransactionError> {
    let row = rows::by_id(conn, &id.to_string())?.ok_or_else(|| no_volume(id))?;
    let attached = Attached {
        by_compute: attachments::records::of_volume(conn, &row.id)?,
        directly: direct_attachments::records::of_volume(conn, &row.id)?,
    };
    let types = volume_types::ids_by_name(conn)?;
    Ok(from_row(row, attached, &types)?)
}

/// The attachments of a volume.
#[derive(Default)]
struct Attached {
    by_compute: Vec<AttachmentRow>,
    directly: Vec<DirectAttachmentRow>,
}

/// Returns the volumes of a project, or all, newest first.
pub(in crate::volume) fn load_list(conn: &mut Conn, project: Option<&str>) -> Result<Vec<Volume>, TransactionError> {
    let mut attached: BTreeMap<String, Attached> = BTreeMap::new();
    for attachment in attachments::records::all(conn)? {
        attached.entry(attachment.volume_id.clone()).or_default().by_compute.push(attachment);
    }
    for attachment in direct_attachments::records::all(conn)? {
        attached.entry(attachment.volume_id.clone()).or_default().directly.push(attachment);
    }
    let types = volume_types::ids_by_name(conn)?;
    let volumes = rows::list(conn, project)?.into_iter().map(|row| {
        let attached = attached.remove(&row.id).unwrap_or_default();
        from_row(row, attached, &types)
    });
    Ok(volumes.collect::<Result<_, DbError>>()?)
}

fn from_row(row: VolumeRow, attached: Attached, types: &BTreeMap<String, Uuid>) -> Result<Volume, DbError> {
    let attachments = attached.by_compute.into_iter().map(from_attachment).collect::<Result<_, _>>()?;
    let direct_attachments = attached.directly.into_iter().map(direct_attachments::from_row).collect::<Result<_, _>>()?;
    let image_metadata = image_metadata::read(&row)?;
    Ok(Volume {
        id: read_id("volumes.id", &row.id)?,
        name: row.name,
        description: row.description,
        project_id: row.project_id,
        user_id: row.user_id,
        status: row.status,
        size_gb: row.size_gb,
        bootable: row.bootable,
        multiattach: row.multiattach,
        availability_zone: row.availability_zone,
        volume_type_id: row.volume_type.as_ref().and_then(|name| types.get(name)).copied(),
        volume_type: row.volume_type,
        image_id: row.image_id.map(|id| read_id("volumes.image_id", &id)).transpose()?,
        snapshot_id: row.snapshot_id.map(|id| read_id("volumes.snapshot_id", &id)).transpose()?,
        source_volume: row.source_volid.map(|id| read_id("volumes.source_volid", &id)).transpose()?,
        image_metadata,
        metadata: serde_json::from_str(&row.metadata)?,
        attachments,
        direct_attachments,
        readonly: row.readonly,
        migration_status: row.migration_status,
        created_at: row.created_at.and_utc(),
        updated_at: Some(row.updated_at.and_utc()).filter(|_| row.updated_at != row.created_at),
    })
}
