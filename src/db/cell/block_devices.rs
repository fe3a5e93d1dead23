//! Block device mappings: the disks and volumes of each server, and their attachments.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::schema::block_device_mappings as bdms;
use super::{CellDb, CellTxn};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};

/// A disk or volume of a server. Both cells of a move use the same uuid, but each has its own attachment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, Queryable, Selectable, Insertable)]
#[diesel(table_name = bdms)]
pub struct BlockDevice {
    #[diesel(serialize_as = Sql<Uuid>)]
    pub uuid: Uuid,
    #[diesel(serialize_as = Sql<Uuid>)]
    pub instance_uuid: Uuid,
    #[diesel(serialize_as = Sql<DateTime<Utc>>)]
    pub created_at: DateTime<Utc>,
    #[diesel(serialize_as = Sql<Option<DateTime<Utc>>>)]
    pub updated_at: Option<DateTime<Utc>>,
    /// 0 for the boot disk; none or negative for a disk that never boots.
    pub boot_index: Option<i32>,
    /// For example `/dev/vdb`.
    pub device_name: Option<String>,
    /// `image`, `volume`, `snapshot` or `blank`.
    pub source_type: String,
    /// `local` or `volume`.
    pub destination_type: String,
    #[diesel(serialize_as = Sql<Option<Uuid>>)]
    pub volume_id: Option<Uuid>,
    #[diesel(serialize_as = Sql<Option<Uuid>>)]
    pub attachment_id: Option<Uuid>,
    #[diesel(serialize_as = Sql<Option<serde_json::Value>>)]
    pub connection_info: Option<serde_json::Value>,
    /// In GiB.
    pub volume_size: Option<i32>,
    pub volume_type: Option<String>,
    pub delete_on_termination: bool,
    #[diesel(serialize_as = Sql<Option<Uuid>>)]
    pub image_id: Option<Uuid>,
    #[diesel(serialize_as = Sql<Option<Uuid>>)]
    pub snapshot_id: Option<Uuid>,
    pub tag: Option<String>,
    pub no_device: bool,
    pub disk_bus: Option<String>,
    pub device_type: Option<String>,
    pub guest_format: Option<String>,
}

impl BlockDevice {
    /// Makes a device for a volume without an attachment.
    pub fn volume(uuid: Uuid, instance_uuid: Uuid, volume_id: Uuid, now: DateTime<Utc>) -> BlockDevice {
        BlockDevice {
            source_type: "volume".to_owned(),
            destination_type: "volume".to_owned(),
            volume_id: Some(volume_id),
            ..BlockDevice::local(uuid, instance_uuid, now)
        }
    }

    /// Makes a device for a blank local disk.
    pub fn local(uuid: Uuid, instance_uuid: Uuid, now: DateTime<Utc>) -> BlockDevice {
        BlockDevice {
            uuid,
            instance_uuid,
            created_at: now,
            updated_at: None,
            boot_index: None,
            device_name: None,
            source_type: "blank".to_owned(),
            destination_type: "local".to_owned(),
            volume_id: None,
            attachment_id: None,
            connection_info: None,
            volume_size: None,
            volume_type: None,
            delete_on_termination: false,
            image_id: None,
            snapshot_id: None,
            tag: None,
            no_device: false,
            disk_bus: None,
            device_type: None,
            guest_format: None,
        }
    }

    /// True if the device is a volume that exists.
    pub fn is_volume(&self) -> bool {
        self.destination_type == "volume" && self.volume_id.is_some()
    }
}

/// A change of a block device. `None` leaves a field unchanged.
#[derive(Clone, PartialEq, Debug, Default, AsChangeset)]
#[diesel(table_name = bdms)]
pub struct BlockDeviceChange {
    pub boot_index: Option<Option<i32>>,
    pub device_name: Option<Option<String>>,
    #[diesel(serialize_as = Sql<Option<Uuid>>)]
    pub volume_id: Option<Option<Uuid>>,
    #[diesel(serialize_as = Sql<Option<Uuid>>)]
    pub attachment_id: Option<Option<Uuid>>,
    #[diesel(serialize_as = Sql<Option<serde_json::Value>>)]
    pub connection_info: Option<Option<serde_json::Value>>,
    pub volume_size: Option<Option<i32>>,
    pub delete_on_termination: Option<bool>,
    pub tag: Option<Option<String>>,
}

impl CellDb {
    /// Returns the servers of this cell, visible or not, that have the volume.
    pub async fn servers_with_volume(&self, volume: Uuid) -> Result<Vec<Uuid>, DbError> {
        self.db
            .read(move |conn| {
                let rows = bdms::table.filter(bdms::volume_id.eq(Sql(Some(volume))));
                Ok(rows.select(bdms::instance_uuid).distinct().load(conn)?)
            })
            .await
    }

    /// Returns the server's devices, in the order of their addition.
    pub async fn block_devices(&self, instance: Uuid) -> Result<Vec<BlockDevice>, DbError> {
        self.db.read(move |conn| all(conn, instance)).await
    }
}

impl CellTxn {
    /// Saves a device: replaces the device with this uuid, or adds it.
    pub fn save_block_device(self, device: BlockDevice) -> CellTxn {
        self.with(move |conn, _| {
            diesel::delete(bdms::table.filter(bdms::uuid.eq(Sql(device.uuid)))).execute(conn)?;
            diesel::insert_into(bdms::table).values(device).execute(conn)?;
            Ok(())
        })
    }

    /// Changes a device. [`DbError::NotFound`] if there is none with this uuid.
    pub fn block_device_change(self, uuid: Uuid, change: BlockDeviceChange) -> CellTxn {
        self.with(move |conn, now| {
            let row = bdms::table.filter(bdms::uuid.eq(Sql(uuid)));
            match diesel::update(row).set((change, bdms::updated_at.eq(Sql(Some(now))))).execute(conn)? {
                0 => Err(DbError::NotFound(format!("block device mapping {uuid}"))),
                _ => Ok(()),
            }
        })
    }

    /// Removes a device. Succeeds if there is none.
    pub fn delete_block_device(self, uuid: Uuid) -> CellTxn {
        self.with(move |conn, _| {
            diesel::delete(bdms::table.filter(bdms::uuid.eq(Sql(uuid)))).execute(conn)?;
            Ok(())
        })
    }

    /// Replaces all devices of the server.
    pub fn replace_block_devices(self, instance: Uuid, devices: Vec<BlockDevice>) -> CellTxn {
        self.with(move |conn, _| {
            delete_all(conn, instance)?;
            insert(conn, devices)
        })
    }
}

pub(super) fn all(conn: &mut Conn, instance: Uuid) -> Result<Vec<BlockDevice>, DbError> {
    Ok(bdms::table.filter(bdms::instance_uuid.eq(Sql(instance))).order(bdms::id).select(BlockDevice::as_select()).load(conn)?)
}

pub(super) fn insert(conn: &mut Conn, devices: Vec<BlockDevice>) -> Result<(), DbError> {
    for device in devices {
        diesel::insert_into(bdms::table).values(device).execute(conn)?;
    }
    Ok(())
}

pub(super) fn delete_all(conn: &mut Conn, instance: Uuid) -> Result<(), DbError> {
    diesel::delete(bdms::table.filter(bdms::instance_uuid.eq(Sql(instance)))).execute(conn)?;
    Ok(())
}
