//! Block device mappings: the disks and volumes of each server, and their attachments.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::schema::block_device_mappings as bdms;
use super::{CellDb, CellTxn};
use crate::db::columns::Sql;
use crate::db::row::{self, changes, row};
use crate::db::{Conn, DbError};
use crate::domain::block_device::{BlockDevice, BlockDeviceChange};

row! {
    #[diesel(table_name = bdms)]
    BlockDeviceRow of BlockDevice {
        uuid: Uuid as Sql,
        instance_uuid: Uuid as Sql,
        created_at: DateTime<Utc> as Sql,
        updated_at: Option<DateTime<Utc>> as Sql,
        boot_index: Option<i32>,
        device_name: Option<String>,
        source_type: String,
        destination_type: String,
        volume_id: Option<Uuid> as Sql,
        attachment_id: Option<Uuid> as Sql,
        connection_info: Option<serde_json::Value> as Sql,
        volume_size: Option<i32>,
        volume_type: Option<String>,
        delete_on_termination: bool,
        image_id: Option<Uuid> as Sql,
        snapshot_id: Option<Uuid> as Sql,
        tag: Option<String>,
        no_device: bool,
        disk_bus: Option<String>,
        device_type: Option<String>,
        guest_format: Option<String>,
    }
}

changes! {
    #[diesel(table_name = bdms)]
    BlockDeviceColumns of BlockDeviceChange {
        boot_index: Option<Option<i32>>,
        device_name: Option<Option<String>>,
        #[diesel(serialize_as = Sql<Option<Uuid>>)]
        volume_id: Option<Option<Uuid>>,
        #[diesel(serialize_as = Sql<Option<Uuid>>)]
        attachment_id: Option<Option<Uuid>>,
        #[diesel(serialize_as = Sql<Option<serde_json::Value>>)]
        connection_info: Option<Option<serde_json::Value>>,
        volume_size: Option<Option<i32>>,
        delete_on_termination: Option<bool>,
        tag: Option<Option<String>>,
    }
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
            diesel::insert_into(bdms::table).values(BlockDeviceRow::from(device)).execute(conn)?;
            Ok(())
        })
    }

    /// Changes a device. [`DbError::NotFound`] if there is none with this uuid.
    pub fn block_device_change(self, uuid: Uuid, change: BlockDeviceChange) -> CellTxn {
        self.with(move |conn, now| {
            let row = bdms::table.filter(bdms::uuid.eq(Sql(uuid)));
            match diesel::update(row).set((BlockDeviceColumns::from(change), bdms::updated_at.eq(Sql(Some(now))))).execute(conn)? {
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
    let of_server = bdms::table.filter(bdms::instance_uuid.eq(Sql(instance))).order(bdms::id);
    row::load(conn, of_server.select(BlockDeviceRow::as_select()))
}

pub(super) fn insert(conn: &mut Conn, devices: Vec<BlockDevice>) -> Result<(), DbError> {
    for device in devices {
        diesel::insert_into(bdms::table).values(BlockDeviceRow::from(device)).execute(conn)?;
    }
    Ok(())
}

pub(super) fn delete_all(conn: &mut Conn, instance: Uuid) -> Result<(), DbError> {
    diesel::delete(bdms::table.filter(bdms::instance_uuid.eq(Sql(instance)))).execute(conn)?;
    Ok(())
}
