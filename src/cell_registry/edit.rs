//! Changes that users make to their servers at any time, also during a move. Each function promises what [`CellRegistry::edit`] says: in each
//! cell its whole change is one commit, and the change is refused with [`DbError::Conflict`] while the server is in no cell yet.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{CellRegistry, Located};
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::domain::action::ActionKey;
use crate::domain::block_device::BlockDeviceChange;
use crate::domain::context::RequestContext;
use crate::domain::instance_change::InstanceChange;
use crate::domain::network_info::VifAddress;
use crate::domain::reason;
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::VmState;

impl CellRegistry {
    /// Changes fields of the server's record. [`DbError::NotFound`] if the server is deleted.
    pub async fn change_instance(&self, located: &Located, change: InstanceChange) -> Result<(), DbError> {
        self.change_instance_and_metadata(located, change, None).await
    }

    /// Changes fields of the server's record, and replaces its metadata unless `metadata` is none. [`DbError::NotFound`] if the server is
    /// deleted.
    pub async fn change_instance_and_metadata(
        &self,
        located: &Located,
        change: InstanceChange,
        metadata: Option<BTreeMap<String, String>>,
    ) -> Result<(), DbError> {
        let uuid = located.instance.uuid;
        let edit = || {
            let txn = CellTxn::new().instance_change(uuid, change.clone());
            match &metadata {
                Some(metadata) => txn.replace_metadata(uuid, metadata.clone()),
                None => txn,
            }
        };
        self.edit(located, edit).await
    }

    /// Changes fields of the server's record, and records an action of the caller that is done by this. [`DbError::NotFound`] if the server
    /// is deleted.
    pub async fn change_instance_by(
        &self,
        located: &Located,
        caller: &RequestContext,
        action: &str,
        change: InstanceChange,
    ) -> Result<(), DbError> {
        let uuid = located.instance.uuid;
        let edit = || action_done(CellTxn::new().instance_change(uuid, change.clone()), uuid, caller, action);
        self.edit(located, edit).await
    }

    /// Records an action of the caller on the server that begins and ends now.
    pub async fn record_action(&self, located: &Located, caller: &RequestContext, action: &str) -> Result<(), DbError> {
        self.edit(located, || action_done(CellTxn::new(), located.instance.uuid, caller, action)).await
    }

    /// Replaces the server's metadata. [`DbError::NotFound`] if the server is deleted.
    pub async fn replace_metadata(&self, located: &Located, metadata: BTreeMap<String, String>) -> Result<(), DbError> {
        self.edit(located, || CellTxn::new().replace_metadata(located.instance.uuid, metadata.clone())).await
    }

    /// Sets these keys of the server's metadata and leaves the others. [`DbError::NotFound`] if the server is deleted.
    pub async fn merge_metadata(&self, located: &Located, metadata: BTreeMap<String, String>) -> Result<(), DbError> {
        self.edit(located, || CellTxn::new().merge_metadata(located.instance.uuid, metadata.clone())).await
    }

    /// Removes a key of the server's metadata. [`DbError::NotFound`] if the server does not have it.
    pub async fn delete_metadata(&self, located: &Located, key: String) -> Result<(), DbError> {
        self.edit(located, || CellTxn::new().delete_metadata(located.instance.uuid, key.clone())).await
    }

    /// Replaces the server's tags. [`DbError::NotFound`] if the server is deleted.
    pub async fn replace_tags(&self, located: &Located, tags: Vec<String>) -> Result<(), DbError> {
        self.edit(located, || CellTxn::new().replace_tags(located.instance.uuid, tags.clone())).await
    }

    /// Adds a tag. Succeeds if the server has it already. [`DbError::NotFound`] if the server is deleted.
    pub async fn add_tag(&self, located: &Located, tag: String) -> Result<(), DbError> {
        self.edit(located, || CellTxn::new().add_tag(located.instance.uuid, tag.clone())).await
    }

    /// Removes a tag. [`DbError::NotFound`] if the server does not have it.
    pub async fn delete_tag(&self, located: &Located, tag: String) -> Result<(), DbError> {
        self.edit(located, || CellTxn::new().delete_tag(located.instance.uuid, tag.clone())).await
    }

    /// Changes a block device of the server. [`DbError::NotFound`] if there is none with this uuid.
    pub async fn change_block_device(&self, located: &Located, device: Uuid, change: BlockDeviceChange) -> Result<(), DbError> {
        self.edit(located, || CellTxn::new().block_device_change(device, change.clone())).await
    }

    /// Records the new size, in GiB, of the volume of a block device, and the action `extend_volume` by which the server's user sees it.
    /// [`DbError::NotFound`] if there is no device with this uuid.
    pub async fn record_volume_size(&self, located: &Located, caller: &RequestContext, device: Uuid, size_gb: i32) -> Result<(), DbError> {
        let change = BlockDeviceChange { volume_size: Some(Some(size_gb)), ..BlockDeviceChange::default() };
        let edit = || {
            let txn = CellTxn::new().block_device_change(device, change.clone());
            action_done(txn, located.instance.uuid, caller, "extend_volume")
        };
        self.edit(located, edit).await
    }

    /// Records the present addresses of the server's ports, by the ports' ids.
    pub async fn renew_addresses(&self, located: &Located, present: Vec<(Uuid, Vec<VifAddress>)>) -> Result<(), DbError> {
        self.edit(located, || CellTxn::new().renew_addresses(located.instance.uuid, present.clone())).await
    }

    /// Makes a user's change to a server: in the server's cell, in the cell to which it has moved meanwhile, and on the other copy of a
    /// server in a move. So neither confirm nor revert loses the change (NOVA-DIFFERENCES L23).
    async fn edit(&self, located: &Located, change: impl Fn() -> CellTxn) -> Result<(), DbError> {
        let uuid = located.instance.uuid;
        let Some(mut home) = located.cell.clone() else {
            return Err(DbError::Conflict(reason!("Instance {uuid} is not ready")));
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

/// Adds an action of the caller on the server that begins and ends with this commit.
fn action_done(txn: CellTxn, instance: Uuid, caller: &RequestContext, action: &str) -> CellTxn {
    let key = ActionKey { instance, request_id: caller.request_id.clone(), action: action.to_owned() };
    txn.action_done(key, caller.user_id.clone(), caller.project_id.clone())
}
