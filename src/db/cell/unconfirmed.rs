//! Moves that have arrived and wait for their users: until a move is confirmed or reverted, its source keeps room for the server.

use std::collections::BTreeMap;

use diesel::prelude::*;
use uuid::Uuid;

use super::CellDb;
use super::instance_row::InstanceRow;
use super::instances::READ_AT_ONCE;
use super::migrations::list;
use super::schema::instances;
use crate::db::columns::Sql;
use crate::db::{DbError, row};
use crate::domain::instance::Instance;
use crate::domain::migration::{Migration, MigrationFilter, MigrationStatus, UnconfirmedMove};
use crate::domain::server::VmState;

impl CellDb {
    /// Returns the moves to hosts of this cell that wait for confirm or revert, the oldest first. A stale record, whose server has gone on, is
    /// none.
    pub async fn unconfirmed_moves(&self) -> Result<Vec<UnconfirmedMove>, DbError> {
        self.db
            .read(|conn| {
                let filter = MigrationFilter { statuses: vec![MigrationStatus::Finished], ..MigrationFilter::default() };
                let mut newest: BTreeMap<Uuid, Migration> = BTreeMap::new();
                for migration in list(conn, filter)? {
                    newest.entry(migration.instance_uuid).or_insert(migration);
                }
                let servers: Vec<Uuid> = newest.keys().copied().collect();
                let mut moves = Vec::new();
                for some in servers.chunks(READ_AT_ONCE) {
                    let rows = instances::table.filter(instances::uuid.eq_any(some.iter().copied().map(Sql)));
                    let resized = rows.filter(instances::deleted.eq(false)).filter(instances::vm_state.eq(Sql(VmState::Resized)));
                    let resized = row::load::<Instance>(conn, resized.select(InstanceRow::as_select()))?;
                    for server in resized.into_iter().filter(|server| !server.hidden) {
                        moves.extend(newest.remove(&server.uuid).map(|migration| UnconfirmedMove { migration, server }));
                    }
                }
                moves.sort_by_key(|waiting| (waiting.since(), waiting.migration.uuid));
                Ok(moves)
            })
            .await
    }
}
