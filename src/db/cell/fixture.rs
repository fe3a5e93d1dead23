//! Records of a cell for tests of other rooms, which open no transaction themselves.

use uuid::Uuid;

use super::{CellDb, CellTxn};
use crate::domain::compute_node::ComputeNode;
use crate::domain::fence::Fence;
use crate::domain::migration::MigrationChange;
use crate::domain::service::Service;

/// Adds a host: its service and its compute node.
pub async fn register_host(cell: &CellDb, service: Service, node: ComputeNode) {
    cell.apply_unfenced(CellTxn::new().register_service(service).save_compute_node(node)).await.unwrap();
}

/// Changes a move's record.
pub async fn change_migration(cell: &CellDb, fence: Fence, uuid: Uuid, change: MigrationChange) {
    cell.apply(fence, CellTxn::new().migration_change(uuid, change)).await.unwrap();
}

/// Removes a server's record and all records that belong to it.
pub async fn remove_instance(cell: &CellDb, fence: Fence, server: Uuid) {
    cell.apply(fence, CellTxn::new().hard_delete_instance(server)).await.unwrap();
}
