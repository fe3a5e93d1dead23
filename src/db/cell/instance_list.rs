//! Lists of servers. A page begins at a position, not at a count, so that no page loses or repeats a server while others come and go
//! (NOVA-DIFFERENCES L33). The details of a page's servers are read in a fixed number of statements.

use std::collections::BTreeMap;

use diesel::dsl::{max, sql};
use diesel::prelude::*;
use diesel::sql_types::Bool;
use uuid::Uuid;

use super::block_devices::{self, BlockDeviceRow};
use super::faults::{self, InstanceFaultRow};
use super::instance_row::InstanceRow;
use super::instances::{self, Described};
use super::schema::{block_device_mappings, instance_faults, instance_info_caches, instance_metadata, tags};
use super::{CellDb, instance_filter, instance_sort};
use crate::db::columns::{Sql, StringMap};
use crate::db::{Conn, DbError, row};
use crate::domain::block_device::BlockDevice;
use crate::domain::instance::Instance;
use crate::domain::instance_fault::InstanceFault;
use crate::domain::instance_filter::InstanceFilter;
use crate::domain::instance_sort::{SortSpec, SortValue};
use crate::domain::network_info::NetworkInfo;

/// The maximum number of uuids in one statement.
const CHUNK: usize = 500;
/// The minimum number of rows that are read at once for a filter by a pattern.
const LOOK_AT: usize = 500;

/// The records that the API shows with a server.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct InstanceDetails {
    pub metadata: StringMap,
    /// Sorted.
    pub tags: Vec<String>,
    pub network_info: NetworkInfo,
    /// In the order of their addition.
    pub block_devices: Vec<BlockDevice>,
    /// The newest fault, if users see it.
    pub fault: Option<InstanceFault>,
}

/// A server with its details.
#[derive(Clone, PartialEq, Debug)]
pub struct InstanceView {
    pub instance: Instance,
    pub details: InstanceDetails,
}

/// Servers whose details are read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shown {
    pub servers: Vec<Uuid>,
    /// The servers among them whose newest fault users see.
    pub with_fault: Vec<Uuid>,
}

impl Shown {
    /// Returns these servers.
    pub fn of<'a>(instances: impl Iterator<Item = &'a Instance>) -> Shown {
        let mut rows = Shown::default();
        for instance in instances {
            rows.servers.push(instance.uuid);
            if instance.shows_fault() {
                rows.with_fault.push(instance.uuid);
            }
        }
        rows
    }
}

impl CellDb {
    /// Returns at most `limit` servers that meet the filter, in the given order, after the position `after`.
    pub async fn list_instances(
        &self,
        filter: InstanceFilter,
        sort: SortSpec,
        after: Option<Vec<SortValue>>,
        limit: usize,
    ) -> Result<Vec<Instance>, DbError> {
        self.db.read(move |conn| list(conn, &filter, &sort, after, limit)).await
    }

    /// Returns servers as [`CellDb::list_instances`] does, with their details.
    pub async fn list_instance_views(
        &self,
        filter: InstanceFilter,
        sort: SortSpec,
        after: Option<Vec<SortValue>>,
        limit: usize,
    ) -> Result<Vec<InstanceView>, DbError> {
        self.db
            .read(move |conn| {
                let servers = list(conn, &filter, &sort, after, limit)?;
                let mut details = load_details(conn, &Shown::of(servers.iter()))?;
                let view = |instance: Instance| InstanceView { details: details.remove(&instance.uuid).unwrap_or_default(), instance };
                Ok(servers.into_iter().map(view).collect())
            })
            .await
    }

    /// Returns an undeleted server with its details.
    pub async fn instance_view(&self, uuid: Uuid) -> Result<InstanceView, DbError> {
        self.db
            .read(move |conn| {
                let Described { instance, network_info, metadata, tags } = instances::described(conn, uuid)?;
                let fault = if instance.shows_fault() { faults::newest(conn, uuid)? } else { None };
                let block_devices = block_devices::all(conn, uuid)?;
                let details = InstanceDetails { metadata, tags, network_info, block_devices, fault };
                Ok(InstanceView { instance, details })
            })
            .await
    }

    /// Returns the details of these servers, empty for a server without any.
    pub async fn instance_details(&self, shown: Shown) -> Result<BTreeMap<Uuid, InstanceDetails>, DbError> {
        self.db.read(move |conn| load_details(conn, &shown)).await
    }
}

fn list(
    conn: &mut Conn,
    filter: &InstanceFilter,
    sort: &SortSpec,
    mut after: Option<Vec<SortValue>>,
    limit: usize,
) -> Result<Vec<Instance>, DbError> {
    let size = if instance_filter::looks_at_records(filter) { limit.max(LOOK_AT) } else { limit };
    let mut page = Vec::new();
    while page.len() < limit {
        let mut query = instance_filter::query(filter);
        if let Some(condition) = after.as_deref().and_then(|position| instance_sort::after(sort, position)) {
            query = query.filter(condition);
        }
        let some = query.order(sql::<Bool>(&instance_sort::order_by(sort))).limit(i64::try_from(size).unwrap_or(i64::MAX));
        let rows = row::load::<Instance>(conn, some.select(InstanceRow::as_select()))?;
        let whole = rows.len() < size;
        after = rows.last().map(|last| sort.position(last));
        page.extend(admitted(conn, filter, rows)?);
        if whole || !instance_filter::looks_at_records(filter) {
            break;
        }
    }
    page.truncate(limit);
    Ok(page)
}

fn admitted(conn: &mut Conn, filter: &InstanceFilter, rows: Vec<Instance>) -> Result<Vec<Instance>, DbError> {
    if !instance_filter::looks_at_records(filter) {
        return Ok(rows);
    }
    let uuids: Vec<Uuid> = rows.iter().map(|instance| instance.uuid).collect();
    let networks = if instance_filter::looks_at_addresses(filter) { load_networks(conn, &uuids)? } else { BTreeMap::new() };
    Ok(rows.into_iter().filter(|instance| instance_filter::patterns_match(filter, instance, networks.get(&instance.uuid))).collect())
}

fn load_networks(conn: &mut Conn, uuids: &[Uuid]) -> Result<BTreeMap<Uuid, NetworkInfo>, DbError> {
    let mut networks = BTreeMap::new();
    for chunk in uuids.chunks(CHUNK) {
        let of_chunk = instance_info_caches::instance_uuid.eq_any(chunk.iter().copied().map(Sql));
        let rows = instance_info_caches::table.filter(of_chunk);
        let pairs: Vec<(Uuid, NetworkInfo)> =
            rows.select((instance_info_caches::instance_uuid, instance_info_caches::network_info)).load(conn)?;
        networks.extend(pairs);
    }
    Ok(networks)
}

fn load_details(conn: &mut Conn, shown: &Shown) -> Result<BTreeMap<Uuid, InstanceDetails>, DbError> {
    let mut details: BTreeMap<Uuid, InstanceDetails> = BTreeMap::new();
    for (uuid, info) in load_networks(conn, &shown.servers)? {
        details.entry(uuid).or_default().network_info = info;
    }
    for (uuid, fault) in load_faults(conn, &shown.with_fault)? {
        details.entry(uuid).or_default().fault = Some(fault);
    }
    for chunk in shown.servers.chunks(CHUNK) {
        let ids = || chunk.iter().copied().map(Sql);
        let pairs: Vec<(Uuid, String, String)> =
            instance_metadata::table.filter(instance_metadata::instance_uuid.eq_any(ids())).load(conn)?;
        for (uuid, key, value) in pairs {
            details.entry(uuid).or_default().metadata.insert(key, value);
        }
        let pairs: Vec<(Uuid, String)> = tags::table.filter(tags::instance_uuid.eq_any(ids())).order(tags::tag).load(conn)?;
        for (uuid, tag) in pairs {
            details.entry(uuid).or_default().tags.push(tag);
        }
        let devices = block_device_mappings::table
            .filter(block_device_mappings::instance_uuid.eq_any(ids()))
            .order(block_device_mappings::id)
            .select(BlockDeviceRow::as_select());
        for device in row::load::<BlockDevice>(conn, devices)? {
            details.entry(device.instance_uuid).or_default().block_devices.push(device);
        }
    }
    Ok(details)
}

/// Returns the newest fault of each of these servers that has any.
fn load_faults(conn: &mut Conn, uuids: &[Uuid]) -> Result<Vec<(Uuid, InstanceFault)>, DbError> {
    let mut newest_faults = Vec::new();
    for chunk in uuids.chunks(CHUNK) {
        let newest = instance_faults::table
            .filter(instance_faults::instance_uuid.eq_any(chunk.iter().copied().map(Sql)))
            .group_by(instance_faults::instance_uuid)
            .select(max(instance_faults::id));
        let newest: Vec<Option<i32>> = newest.load(conn)?;
        let newest = newest.into_iter().flatten();
        let faults = instance_faults::table.filter(instance_faults::id.eq_any(newest)).select(InstanceFaultRow::as_select());
        newest_faults.extend(row::load::<InstanceFault>(conn, faults)?.into_iter().map(|fault| (fault.instance_uuid, fault)));
    }
    Ok(newest_faults)
}
