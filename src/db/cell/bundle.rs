//! Reads and writes a server with everything that belongs to it in a cell, as a cross-cell move copies it (INVARIANTS D6). Rows are
//! copied whole, so that a new column cannot be forgotten (NOVA-DIFFERENCES L20), including faults and the history (NOVA-DIFFERENCES L7,
//! L8).

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::instance_row::{self, InstanceRow};
use super::instances as rows;
use super::schema::instances;
use super::{CellDb, CellTxn, actions, block_devices, faults, metadata, migrations, network};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError};
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::{InstanceBundle, UserFields};
use crate::domain::reason;

impl CellDb {
    /// Reads the whole record in one transaction. [`DbError::NotFound`] if the server is absent or deleted.
    pub async fn export_bundle(&self, uuid: Uuid) -> Result<InstanceBundle, DbError> {
        self.db.read(move |conn| conn.transaction(|conn| export(conn, uuid))).await
    }
}

impl CellTxn {
    /// Writes the server into this cell, in place of a hidden or deleted row that an earlier try or stay left: importing twice gives one
    /// record. [`DbError::Conflict`] if the cell has a visible record of the server.
    pub fn import_bundle(self, mut bundle: InstanceBundle, hidden: bool) -> CellTxn {
        self.with(move |conn, now| {
            let uuid = bundle.instance.uuid;
            if rows::find(conn, uuid)?.is_some_and(|present| !present.hidden && !present.deleted) {
                return Err(DbError::Conflict(reason!("Instance {uuid} is in this cell already")));
            }
            rows::hard_delete(conn, uuid)?;
            bundle.instance.hidden = hidden;
            insert(conn, bundle, now)
        })
    }

    /// Writes the fields that a user may have changed in the other cell (NOVA-DIFFERENCES L23).
    pub fn copy_user_fields(self, uuid: Uuid, fields: UserFields) -> CellTxn {
        self.with(move |conn, now| {
            let set = (
                instances::display_name.eq(fields.display_name),
                instances::display_description.eq(fields.display_description),
                instances::hostname.eq(fields.hostname),
                instances::locked.eq(fields.locked),
                instances::locked_by.eq(fields.locked_by),
                instances::access_ip_v4.eq(fields.access_ip_v4),
                instances::access_ip_v6.eq(fields.access_ip_v6),
                instances::details.eq(instance_row::changed_details([
                    ("locked_reason", json!(fields.locked_reason)),
                    ("auto_disk_config", json!(fields.auto_disk_config)),
                ])),
                instances::updated_at.eq(Sql(Some(now))),
            );
            if diesel::update(instances::table.filter(instances::uuid.eq(Sql(uuid)))).set(set).execute(conn)? == 0 {
                return Err(rows::not_found(uuid));
            }
            metadata::set_metadata(conn, uuid, fields.metadata)?;
            metadata::set_tags(conn, uuid, fields.tags)
        })
    }

    /// Clears the fields that a move sets on the row (NOVA-DIFFERENCES L14): old and new flavor, old state and migration context.
    pub fn clear_move_fields(self, uuid: Uuid) -> CellTxn {
        self.with(move |conn, now| {
            let cleared = ["old_flavor", "new_flavor", "old_vm_state"].map(|field| (field, Value::Null));
            let set = (instances::details.eq(instance_row::changed_details(cleared)), instances::updated_at.eq(Sql(Some(now))));
            diesel::update(instances::table.filter(instances::uuid.eq(Sql(uuid)))).set(set).execute(conn)?;
            Ok(())
        })
        .clear_migration_context(uuid)
    }
}

fn export(conn: &mut Conn, uuid: Uuid) -> Result<InstanceBundle, DbError> {
    let instance = rows::get(conn, uuid)?;
    of_instance(conn, instance)
}

/// Returns all records of an instance, even a deleted one.
pub(super) fn of_instance(conn: &mut Conn, instance: Instance) -> Result<InstanceBundle, DbError> {
    let uuid = instance.uuid;
    Ok(InstanceBundle {
        instance,
        metadata: metadata::all_metadata(conn, uuid)?,
        tags: metadata::all_tags(conn, uuid)?,
        info_cache: network::cache(conn, uuid)?,
        block_devices: block_devices::all(conn, uuid)?,
        virtual_interfaces: network::all_vifs(conn, uuid)?,
        actions: actions::all(conn, uuid)?,
        migrations: migrations::all(conn, uuid)?,
        faults: faults::all(conn, uuid)?,
        migration_context: migrations::context(conn, uuid)?,
    })
}

pub(super) fn insert(conn: &mut Conn, bundle: InstanceBundle, now: DateTime<Utc>) -> Result<(), DbError> {
    let uuid = bundle.instance.uuid;
    let flavor_id = instances::flavor_id.eq(bundle.instance.flavor.id.clone());
    diesel::insert_into(instances::table).values((InstanceRow::from(bundle.instance), flavor_id)).execute(conn)?;
    metadata::set_metadata(conn, uuid, bundle.metadata)?;
    metadata::set_tags(conn, uuid, bundle.tags)?;
    if let Some(info) = bundle.info_cache {
        network::set_cache(conn, uuid, info, now)?;
    }
    block_devices::insert(conn, bundle.block_devices)?;
    network::insert_vifs(conn, bundle.virtual_interfaces)?;
    actions::merge(conn, uuid, bundle.actions)?;
    bundle.migrations.into_iter().try_for_each(|migration| migrations::insert(conn, migration))?;
    bundle.faults.into_iter().try_for_each(|fault| faults::insert(conn, fault))?;
    match bundle.migration_context {
        Some(context) => migrations::put_context(conn, uuid, context),
        None => Ok(()),
    }
}
