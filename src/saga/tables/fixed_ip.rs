//! Adds an address to a port that the server has, or removes one (`addFixedIp`, `removeFixedIp`). The network service has the truth; the
//! server's record shows the same when the operation is over. The guest learns of its addresses from the network.

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::saga::accept::ACCEPT;
use crate::saga::context::{AddFixedIp, AddedAddress, PortAddress, RemoveFixedIp, RemovedAddress, ServerFacts};
use crate::saga::debt;
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::ports::addresses_of;
use crate::saga::world::World;
use crate::services::ServiceError;

/// Adds an address.
pub const ADD: Operation = Operation::new("add_fixed_ip", &[("add_fixed_ip", ADD_TABLE)], |_| ADD_TABLE);

const ADD_TABLE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::TakeAddress, work!(take_address), Undo::By(work!(give_address_up))).paid_by(work!(pay_address_up)),
    Step::forward(StepName::RecordAddress, work!(record_address)),
]);

/// Removes an address.
pub const REMOVE: Operation = Operation::new("remove_fixed_ip", &[("remove_fixed_ip", REMOVE_TABLE)], |_| REMOVE_TABLE);

const REMOVE_TABLE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::DropAddress, work!(drop_address), Undo::By(work!(take_address_back))).paid_by(work!(pay_address_back)),
    Step::forward(StepName::ForgetAddress, work!(forget_address)),
]);

async fn take_address(world: &World, context: &mut AddFixedIp, fence: Fence) -> Result<(), StepError> {
    let AddedAddress(PortAddress { port_id, fixed }) = context.request.clone();
    Ok(world.network.add_fixed_ip(fence, port_id, fixed).await?)
}

/// Undo: removes the address.
async fn give_address_up(world: &World, context: &mut AddFixedIp, fence: Fence) -> Result<(), StepError> {
    let AddedAddress(address) = context.request.clone();
    world.network.remove_fixed_ip(fence, address.port_id, address.fixed).await?;
    renew(world, context, fence, |txn| txn).await
}

/// Payment of [`give_address_up`]. A later operation may have recorded the address; then it stays.
async fn pay_address_up(world: &World, context: &mut AddFixedIp, fence: Fence) -> Result<(), StepError> {
    match is_recorded(world, context, &context.request.0).await? {
        true => Ok(()),
        false => give_address_up(world, context, fence).await,
    }
}

async fn record_address(world: &World, context: &mut AddFixedIp, fence: Fence) -> Result<(), StepError> {
    renew(world, context, fence, |txn| history::succeeded(txn, context)).await
}

async fn drop_address(world: &World, context: &mut RemoveFixedIp, fence: Fence) -> Result<(), StepError> {
    let RemovedAddress(PortAddress { port_id, fixed }) = context.request.clone();
    Ok(world.network.remove_fixed_ip(fence, port_id, fixed).await?)
}

/// Payment of [`take_address_back`]. A later operation may have removed the address; then it stays out.
async fn pay_address_back(world: &World, context: &mut RemoveFixedIp, fence: Fence) -> Result<(), StepError> {
    match is_recorded(world, context, &context.request.0).await? {
        true => take_address_back(world, context, fence).await,
        false => Ok(()),
    }
}

/// Undo: the port has the address again, unless somebody else has taken it.
async fn take_address_back(world: &World, context: &mut RemoveFixedIp, fence: Fence) -> Result<(), StepError> {
    let RemovedAddress(address) = context.request.clone();
    match world.network.add_fixed_ip(fence, address.port_id, address.fixed).await {
        Ok(()) | Err(ServiceError::Conflict(_) | ServiceError::Invalid(_) | ServiceError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    renew(world, context, fence, |txn| txn).await
}

async fn forget_address(world: &World, context: &mut RemoveFixedIp, fence: Fence) -> Result<(), StepError> {
    renew(world, context, fence, |txn| history::succeeded(txn, context)).await
}

/// Records the addresses that the server's ports have now, with what `also` adds to the commit. A server that is gone has no record.
async fn renew(world: &World, context: &ServerFacts, fence: Fence, also: impl FnOnce(CellTxn) -> CellTxn) -> Result<(), StepError> {
    let Some(cell) = debt::cell_of(world, context).await? else { return Ok(()) };
    let present = addresses_of(&world.network.ports_of(context.server).await?);
    Ok(world.cell(&cell)?.apply(fence, also(CellTxn::new().renew_addresses(context.server, present))).await?)
}

/// True if the server's record has the address.
async fn is_recorded(world: &World, context: &ServerFacts, address: &PortAddress) -> Result<bool, StepError> {
    let Some(cell) = debt::cell_of(world, context).await? else { return Ok(false) };
    let recorded = world.cell(&cell)?.info_cache(context.server).await?;
    let mut of_port = recorded.0.iter().filter(|vif| vif.port_id == address.port_id).flat_map(|vif| &vif.fixed_ips);
    Ok(of_port.any(|fixed| fixed.address == address.fixed.ip_address))
}
