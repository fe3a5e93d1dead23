//! The compute hosts' records as the scheduler needs them: each node with its service, kept in memory between decisions. When a service was
//! last seen is not among them.

use std::collections::HashMap;
use std::sync::Arc;

use diesel::prelude::*;
use foldhash::fast::RandomState;
use uuid::Uuid;

use super::CellDb;
use super::compute_nodes::ComputeNodeRow;
use super::schema::{compute_nodes as nodes, services};
use crate::db::columns::{Sql, read_id};
use crate::db::mirror::Mirrored;
use crate::db::{Conn, DbError, Of, row};
use crate::domain::compute_host::{HostRecord, HostService, NodeRecord, WhichHosts};
use crate::domain::compute_node::ComputeNode;

/// The binary whose services are compute hosts.
const COMPUTE: &str = "nova-compute";

/// The columns of a [`HostService`].
#[derive(Queryable, Selectable)]
#[diesel(table_name = services)]
struct ServiceRow {
    uuid: Uuid,
    host: String,
    disabled: bool,
    disabled_reason: Option<String>,
    forced_down: bool,
    version: i32,
}

impl From<ServiceRow> for HostService {
    fn from(row: ServiceRow) -> HostService {
        let ServiceRow { uuid, host, disabled, disabled_reason, forced_down, version } = row;
        HostService { uuid, host, disabled, disabled_reason, forced_down, version }
    }
}

/// All compute nodes and compute services of a cell.
#[derive(Default)]
pub struct HostRecords {
    nodes: HashMap<Uuid, Arc<NodeRecord>, RandomState>,
    services: HashMap<Uuid, Arc<HostService>, RandomState>,
    /// The compute service of each host.
    by_host: HashMap<String, Uuid, RandomState>,
}

impl HostRecords {
    /// Returns the nodes of these hosts that have a compute service, in any order.
    fn find(&self, hosts: &WhichHosts) -> Vec<HostRecord> {
        let with_service = |node: &Arc<NodeRecord>| {
            let service = self.services.get(self.by_host.get(&node.row.host)?)?;
            Some(HostRecord { service: Arc::clone(service), node: Arc::clone(node) })
        };
        match hosts {
            WhichHosts::All => self.nodes.values().filter_map(with_service).collect(),
            WhichHosts::OfProviders(providers) => {
                providers.iter().filter_map(|provider| self.nodes.get(provider)).filter_map(with_service).collect()
            }
            WhichHosts::Named(name) => self.nodes.values().filter(|node| node.row.host == *name).filter_map(with_service).collect(),
        }
    }

    fn forget(&mut self, ids: &[String]) -> Result<(), DbError> {
        for id in ids {
            let id = read_id("changes.id", id)?;
            self.nodes.remove(&id);
            if let Some(gone) = self.services.remove(&id) {
                self.by_host.remove(&gone.host);
            }
        }
        Ok(())
    }
}

impl Mirrored for HostRecords {
    fn read(&mut self, conn: &mut Conn, of: Of<'_>) -> Result<(), DbError> {
        let (read_services, read_nodes) = (compute_services(conn, of)?, compute_nodes(conn, of)?);
        match of {
            Of::All => *self = HostRecords::default(),
            Of::These(ids) => self.forget(ids)?,
        }
        for service in read_services {
            self.by_host.insert(service.host.clone(), service.uuid);
            self.services.insert(service.uuid, Arc::new(service));
        }
        for row in read_nodes {
            self.nodes.insert(row.uuid, Arc::new(NodeRecord::new(row)));
        }
        Ok(())
    }
}

fn compute_services(conn: &mut Conn, of: Of<'_>) -> Result<Vec<HostService>, DbError> {
    let query = services::table.filter(services::binary_name.eq(COMPUTE)).select(ServiceRow::as_select());
    let rows: Vec<ServiceRow> = match uuids(of)? {
        None => query.load(conn)?,
        Some(ids) => query.filter(services::uuid.eq_any(ids.into_iter().map(Sql))).load(conn)?,
    };
    Ok(rows.into_iter().map(HostService::from).collect())
}

fn compute_nodes(conn: &mut Conn, of: Of<'_>) -> Result<Vec<ComputeNode>, DbError> {
    let query = nodes::table.select(ComputeNodeRow::as_select());
    match uuids(of)? {
        None => row::load(conn, query),
        Some(ids) => row::load(conn, query.filter(nodes::uuid.eq_any(ids.into_iter().map(Sql)))),
    }
}

/// Returns the ids to filter by. None for all rows: further rows than asked for do no harm.
fn uuids(of: Of<'_>) -> Result<Option<Vec<Uuid>>, DbError> {
    of.ids().map(|ids| ids.iter().map(|id| read_id("changes.id", id)).collect()).transpose()
}

impl CellDb {
    /// Returns the compute nodes of these hosts with their services, as they are committed now. Reads the changed rows only.
    pub async fn host_records(&self, hosts: WhichHosts) -> Result<Vec<HostRecord>, DbError> {
        let records = self.host_records.clone();
        self.db.read(move |conn| records.look(conn, |records| records.find(&hosts))).await
    }
}

#[cfg(test)]
mod tests {
    use diesel::QueryableByName;
    use diesel::sql_types::BigInt;

    use super::*;
    use crate::db::cell::CellTxn;
    use crate::db::{Schema, fixture};
    use crate::domain::service::{Service, ServiceChange};

    #[derive(QueryableByName)]
    struct Last {
        #[diesel(sql_type = BigInt)]
        changed: i64,
    }

    /// Returns the number of the last change.
    async fn last_change(cell: &CellDb) -> i64 {
        let last = |conn: &mut Conn| Ok(diesel::sql_query("SELECT max(changed) AS changed FROM changes").get_result::<Last>(conn)?);
        cell.db().read(last).await.unwrap().changed
    }

    fn service(cell: &CellDb) -> Service {
        Service { version: 1, ..Service::new(Uuid::from_u128(1), "h1", COMPUTE, "nova", cell.db().env().now()) }
    }

    #[tokio::test]
    async fn a_host_is_known_as_it_is_stored_now() {
        for cell in fixture::databases(Schema::Cell).into_iter().map(CellDb::new) {
            assert!(cell.host_records(WhichHosts::All).await.unwrap().is_empty());
            let (service, provider) = (service(&cell), Uuid::from_u128(2));
            let node = ComputeNode::new(provider, "h1", service.uuid, cell.db().env().now());
            cell.apply_unfenced(CellTxn::new().save_compute_node(node).register_service(service.clone())).await.unwrap();
            let of_provider = async || cell.host_records(WhichHosts::OfProviders([provider].into())).await.unwrap().pop();
            assert!(!of_provider().await.unwrap().service.disabled);

            let disabled = ServiceChange { disabled: Some(true), ..ServiceChange::default() };
            cell.apply_unfenced(CellTxn::new().service_change(service.uuid, disabled)).await.unwrap();
            assert!(of_provider().await.unwrap().service.disabled);
            assert_eq!(cell.host_records(WhichHosts::Named("h1".to_owned())).await.unwrap().len(), 1);
            assert!(cell.host_records(WhichHosts::Named("h2".to_owned())).await.unwrap().is_empty());

            let before = last_change(&cell).await;
            cell.apply_unfenced(CellTxn::new().services_seen(vec![service.uuid])).await.unwrap();
            cell.apply_unfenced(CellTxn::new().recount_usage(["h1".to_owned()].into())).await.unwrap();
            assert_eq!(last_change(&cell).await, before, "a sign of life is no change");

            cell.apply_unfenced(CellTxn::new().delete_service(service.uuid)).await.unwrap();
            assert!(of_provider().await.is_none(), "a node without a service is no host");
            cell.apply_unfenced(CellTxn::new().register_service(service)).await.unwrap();
            cell.apply_unfenced(CellTxn::new().delete_compute_nodes("h1")).await.unwrap();
            assert!(of_provider().await.is_none());
        }
    }
}
