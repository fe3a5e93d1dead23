//! A cell's copy of its servers' ports: the info cache, and the virtual interfaces with their tags.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::schema::{instance_info_caches as caches, instances, virtual_interfaces as vifs};
use super::{CellDb, CellTxn};
use crate::db::columns::Sql;
use crate::db::row::{self, row};
use crate::db::{Conn, DbError};
use crate::domain::network_info::{NetworkInfo, Vif, VifAddress};
use crate::domain::server::VmState;
use crate::domain::virtual_interface::VirtualInterface;

row! {
    #[diesel(table_name = vifs)]
    VirtualInterfaceRow of VirtualInterface {
        port_id: Uuid as Sql,
        instance_uuid: Uuid as Sql,
        created_at: DateTime<Utc> as Sql,
        address: String,
        network_id: Uuid as Sql,
        tag: Option<String>,
    }
}

impl CellDb {
    /// Returns the cell's copy of the server's ports; empty if the server never had any.
    pub async fn info_cache(&self, instance: Uuid) -> Result<NetworkInfo, DbError> {
        self.db.read(move |conn| Ok(cache(conn, instance)?.unwrap_or_default())).await
    }

    /// Returns the server's interfaces, in the order of their addition.
    pub async fn virtual_interfaces(&self, instance: Uuid) -> Result<Vec<VirtualInterface>, DbError> {
        self.db.read(move |conn| all_vifs(conn, instance)).await
    }

    /// Returns the ports of all interfaces of visible servers in these states without a task, each with its server.
    pub async fn interfaces_at_rest(&self, states: &'static [VmState]) -> Result<Vec<(Uuid, Uuid)>, DbError> {
        self.db
            .read(move |conn| {
                let with_server = vifs::table.inner_join(instances::table.on(instances::uuid.eq(vifs::instance_uuid)));
                Ok(with_server
                    .filter(instances::deleted.eq(false))
                    .filter(instances::hidden.is_null().or(instances::hidden.eq(false)))
                    .filter(instances::task_state.is_null())
                    .filter(instances::vm_state.eq_any(states.iter().copied().map(Sql)))
                    .order(vifs::id)
                    .select((vifs::port_id, instances::uuid))
                    .load(conn)?)
            })
            .await
    }
}

impl CellTxn {
    /// Adds an interface to the server's copy of its ports, and its virtual interface. Replaces those of the same port.
    pub fn add_interface(self, instance: Uuid, vif: Vif) -> CellTxn {
        self.with(move |conn, now| {
            forget_vif(conn, vif.port_id)?;
            let row = VirtualInterface {
                port_id: vif.port_id,
                instance_uuid: instance,
                created_at: now,
                address: vif.mac_address.clone(),
                network_id: vif.network_id,
                tag: vif.tag.clone(),
            };
            insert_vifs(conn, vec![row])?;
            let mut info = cache(conn, instance)?.unwrap_or_default();
            info.0.retain(|interface| interface.port_id != vif.port_id);
            info.0.push(vif);
            set_cache(conn, instance, info, now)
        })
    }

    /// Removes what [`CellTxn::add_interface`] added. Succeeds if there is no such interface.
    pub fn forget_interface(self, instance: Uuid, port: Uuid) -> CellTxn {
        self.with(move |conn, now| {
            forget_vif(conn, port)?;
            let Some(mut info) = cache(conn, instance)? else { return Ok(()) };
            info.0.retain(|interface| interface.port_id != port);
            set_cache(conn, instance, info, now)
        })
    }

    /// Renews the addresses in the server's copy of its ports. Interfaces that the copy does not have stay out.
    pub fn renew_addresses(self, instance: Uuid, present: Vec<(Uuid, Vec<VifAddress>)>) -> CellTxn {
        self.with(move |conn, now| {
            let Some(mut info) = cache(conn, instance)? else { return Ok(()) };
            for (port, addresses) in present {
                for vif in info.0.iter_mut().filter(|vif| vif.port_id == port) {
                    vif.fixed_ips.clone_from(&addresses);
                }
            }
            set_cache(conn, instance, info, now)
        })
    }

    /// Saves the cell's copy of the server's ports.
    pub fn info_cache(self, instance: Uuid, info: NetworkInfo) -> CellTxn {
        self.with(move |conn, now| set_cache(conn, instance, info, now))
    }
}

pub(super) fn cache(conn: &mut Conn, instance: Uuid) -> Result<Option<NetworkInfo>, DbError> {
    Ok(caches::table.find(Sql(instance)).select(caches::network_info).first(conn).optional()?)
}

pub(super) fn set_cache(conn: &mut Conn, instance: Uuid, info: NetworkInfo, now: DateTime<Utc>) -> Result<(), DbError> {
    let values = (caches::network_info.eq(Sql(&info)), caches::updated_at.eq(Sql(now)));
    if diesel::update(caches::table.find(Sql(instance))).set(values).execute(conn)? == 0 {
        let new = (caches::instance_uuid.eq(Sql(instance)), caches::network_info.eq(Sql(&info)), caches::updated_at.eq(Sql(now)));
        diesel::insert_into(caches::table).values(new).execute(conn)?;
    }
    Ok(())
}

pub(super) fn all_vifs(conn: &mut Conn, instance: Uuid) -> Result<Vec<VirtualInterface>, DbError> {
    let of_server = vifs::table.filter(vifs::instance_uuid.eq(Sql(instance))).order(vifs::id);
    row::load(conn, of_server.select(VirtualInterfaceRow::as_select()))
}

fn forget_vif(conn: &mut Conn, port: Uuid) -> Result<(), DbError> {
    diesel::delete(vifs::table.filter(vifs::port_id.eq(Sql(port)))).execute(conn)?;
    Ok(())
}

pub(super) fn insert_vifs(conn: &mut Conn, all: Vec<VirtualInterface>) -> Result<(), DbError> {
    for vif in all {
        diesel::insert_into(vifs::table).values(VirtualInterfaceRow::from(vif)).execute(conn)?;
    }
    Ok(())
}
