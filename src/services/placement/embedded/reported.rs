//! The providers of many hosts at once, as at the start of a cell.

use super::super::ReportedTree;
use super::{children, providers};
use crate::db::services::placement::providers as offered;
use crate::db::{Conn, DbError};
use crate::services::transaction::TransactionError;

/// The number of hosts whose providers are made in one transaction.
pub(super) const BATCH: usize = 200;

/// Returns the trees of hosts without a provider, and those whose providers differ from the report. The others need nothing.
pub(super) fn sort(conn: &mut Conn, trees: Vec<ReportedTree>) -> Result<(Vec<ReportedTree>, Vec<ReportedTree>), DbError> {
    let (mut new, mut changed) = (Vec::new(), Vec::new());
    for tree in trees {
        if offered::find(conn, &tree.uuid.to_string())?.is_none() {
            new.push(tree);
        } else if !providers::is_as_reported(conn, tree.uuid, &tree.name, &tree.inventories, &[])?
            || !children::are_as_reported(conn, tree.uuid, &tree.children)?
        {
            changed.push(tree);
        }
    }
    Ok((new, changed))
}

/// Makes the providers of these hosts.
pub(super) fn make(conn: &mut Conn, trees: &[ReportedTree]) -> Result<(), TransactionError> {
    for tree in trees {
        providers::ensure(conn, tree.uuid, &tree.name, &tree.inventories, &[])?;
        children::ensure(conn, tree.uuid, &tree.children)?;
    }
    Ok(())
}
