//! Placement's part of another embedded service's transaction. The services share a database, so a change of both is one commit.

use cellshift_store::{Conn, DbError};
use uuid::Uuid;

use super::tree::Tree;
use super::{Allocations, Provider};
use super::{allocations as allocate, resource_providers as providers};
use crate::transaction::TransactionError;

/// Returns what a consumer holds.
pub(crate) fn held(conn: &mut Conn, consumer: Uuid) -> Result<Option<Allocations>, DbError> {
    allocate::of_consumer(conn, consumer)
}

/// Replaces what a consumer holds. Conflict if a provider would exceed its capacity, or if another transaction has changed the consumer.
pub(crate) fn hold(conn: &mut Conn, change: &Allocations) -> Result<(), TransactionError> {
    allocate::replace(conn, std::slice::from_ref(change), allocate::Repeat::Fine)
}

/// Returns the provider with this name and the tree below it, as if `held` of it were free.
pub(crate) fn tree_without(conn: &mut Conn, root_name: &str, held: &Allocations) -> Result<Option<(Uuid, Tree)>, TransactionError> {
    let Some(root) = providers::named(conn, root_name)? else { return Ok(None) };
    let mut all = providers::trees(conn, &[root])?;
    for (provider, _) in &mut all {
        release(provider, held);
    }
    Ok(Some((root, Tree::of(all))))
}

fn release(provider: &mut Provider, held: &Allocations) {
    for (class, amount) in held.allocations.get(&provider.uuid).into_iter().flatten() {
        if let Some(used) = provider.usages.get_mut(class) {
            *used -= amount;
        }
    }
}
