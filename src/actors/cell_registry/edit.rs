//! Changes that users make to their servers at any time, also during a move.

use super::{CellRegistry, Located};
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::VmState;

impl CellRegistry {
    /// Makes a user's change to a server: in the server's cell, in the cell to which it has moved meanwhile, and on the other copy of a
    /// server in a move. So neither confirm nor revert loses the change (NOVA-DIFFERENCES L23).
    pub async fn edit(&self, located: &Located, change: impl Fn() -> CellTxn) -> Result<(), DbError> {
        let uuid = located.instance.uuid;
        let Some(mut home) = located.cell.clone() else {
            return Err(DbError::Conflict(format!("Instance {uuid} is not ready")));
        };
        let mut written = vec![home.clone()];
        loop {
            self.apply(self.cell(&home)?, change()).await?;
            match self.find_server(uuid).await.map_err(DbError::from)?.cell {
                Some(now) if !written.contains(&now) => {
                    written.push(now.clone());
                    home = now;
                }
                _ => break,
            }
        }
        if located.instance.vm_state == VmState::Resized || located.instance.task_state.is_some() {
            self.edit_copies(located, &written, change).await;
        }
        Ok(())
    }

    /// Changes the other copies. A copy that cannot be written now is brought up to date at the end of the move.
    async fn edit_copies(&self, located: &Located, written: &[String], change: impl Fn() -> CellTxn) {
        for cell in self.inner.cells.values().filter(|cell| !written.contains(&cell.name)) {
            match self.apply(cell, change()).await {
                Ok(()) | Err(DbError::NotFound(_)) => {}
                Err(error) => log::warn!(server:% = located.instance.uuid; "a copy in cell {} misses a change: {error}", cell.name),
            }
        }
    }

    /// Saves a request spec that a user has changed.
    pub async fn edit_request_spec(&self, spec: RequestSpec) -> Result<(), DbError> {
        self.inner.api.edit_request_spec(spec).await
    }

    async fn apply(&self, cell: &CellHandle, change: CellTxn) -> Result<(), DbError> {
        cell.health.call(self.inner.patience.cell, cell.db.apply_unfenced(change)).await
    }
}
