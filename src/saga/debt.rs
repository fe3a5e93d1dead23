//! Debts: the undos and clean-ups that an ended saga owes because a participant did not answer. They are paid when it returns (INVARIANTS S5).
//!
//! The server may have gone on since its saga ended. So a step says when its debt is moot ([`Moot`]), and names a payment of its own if what
//! it owes is not the same as its undo or clean-up within the saga ([`Step::paid_by`]). The questions that payments ask stand here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cellshift_saga::debt::needs_operator;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::context::{Context, Place, ServerFacts};
use super::error::StepError;
use super::machine::Side;
use super::refusal::Refusal;
use super::step::{At, Moot, Step};
use super::tables::{Tables, waits_for};
use super::world::World;
use crate::db::DbError;
use crate::db::api::debts::{DueDebts, PaymentHold};
use crate::db::cell::CellTxn;
use crate::domain::debt::Debt;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::GuestReport;
use crate::domain::instance_change::{Expected, InstanceChange};
use crate::domain::migration::{Migration, MigrationStatus};
use crate::domain::reason;
use crate::domain::saga_record::LeftAlone;
use crate::domain::server::{PowerState, VmState};
use crate::env::guard::{Guard, stands};

/// Servers whose debts a payer tries at once.
const SERVERS_AT_ONCE: usize = 32;

/// True if the debt has nothing left to do: see [`Moot`].
pub(crate) async fn is_moot(world: &World, context: &Context, moot: Moot) -> Result<bool, StepError> {
    let place = |at| match at {
        At::Source => context.source.as_ref(),
        At::Target => context.target.as_ref(),
    };
    match moot {
        Moot::Never => Ok(false),
        Moot::AttachedAnew => context.part().is_attached_anew(world).await,
        Moot::NotSoftDeleted => not_soft_deleted(world, context).await,
        Moot::InUseAgain(at) | Moot::LostOwnership(at) | Moot::OutOfHand(at) => {
            // The operation chose no place, so it did nothing there.
            let Some(place) = place(at) else { return Ok(false) };
            match moot {
                Moot::InUseAgain(_) => in_use_again(world, context, place).await,
                Moot::LostOwnership(_) => lost_ownership(world, context, place).await,
                _ => Ok(lost_ownership(world, context, place).await? || is_as_its_user_has_it(world, context, place).await?),
            }
        }
    }
}

/// True if the server has come to that place again, so that nothing there may be removed.
pub(crate) async fn in_use_again(world: &World, context: &ServerFacts, place: &Place) -> Result<bool, StepError> {
    let owner = world.operations.ownership(context.server).await?.and_then(|row| row.owner);
    if stands(Guard::InUseAgain) && owner == Some((place.cell.clone(), place.host.clone())) {
        return Ok(true);
    }
    let passes = |migration: &Migration| migration.source_compute == place.host || migration.dest_compute.as_deref() == Some(&place.host);
    Ok(stands(Guard::InUseAgain) && other_move(world, context).await?.is_some_and(|migration| passes(&migration)))
}

/// True if the server's records in that cell belong to another move, which began or ends there.
pub async fn records_in_use_again(world: &World, context: &ServerFacts, cell: &str) -> Result<bool, StepError> {
    let other = other_move(world, context).await?.filter(|_| stands(Guard::InUseAgain));
    let Some(migration) = other else { return Ok(false) };
    for host in std::iter::once(&migration.source_compute).chain(&migration.dest_compute) {
        if world.cell_of_host(host).await? == cell {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns a live move of the server other than the operation's own: an undone revert leaves its own move alive.
async fn other_move(world: &World, context: &ServerFacts) -> Result<Option<Migration>, StepError> {
    let Some(cell) = cell_of(world, context).await? else { return Ok(None) };
    let live = world.cell(&cell)?.latest_migration(context.server, &MigrationStatus::LIVE).await?;
    Ok(live.filter(|migration| migration.uuid != context.move_id()))
}

/// True if this place no longer owns the guest, so that nothing there may be restored.
pub async fn lost_ownership(world: &World, context: &ServerFacts, place: &Place) -> Result<bool, StepError> {
    let owner = world.operations.ownership(context.server).await?.and_then(|row| row.owner);
    Ok(stands(Guard::LostOwnership) && owner != Some((place.cell.clone(), place.host.clone())))
}

/// True if the server was restored or deleted for good since its soft delete.
async fn not_soft_deleted(world: &World, context: &ServerFacts) -> Result<bool, StepError> {
    match super::accept::find(world, context.server).await {
        Ok((_, instance)) => Ok(instance.vm_state != VmState::SoftDeleted),
        Err(Refusal::NotFound(_)) => Ok(true),
        Err(other) => Err(other.into()),
    }
}

/// True if the server's record has an interface of this port.
pub async fn has_interface(world: &World, context: &ServerFacts, port: Uuid) -> Result<bool, StepError> {
    let Some(cell) = cell_of(world, context).await? else { return Ok(false) };
    Ok(world.cell(&cell)?.info_cache(context.server).await?.0.iter().any(|vif| vif.port_id == port))
}

/// Returns the guest that is defined at that place now.
pub async fn guest_at(world: &World, context: &ServerFacts, place: &Place) -> Result<Option<GuestReport>, StepError> {
    let guest = world.hosts.guest(&place.cell, &place.host, context.server, world.settings.debt_deadline).await;
    let guest = guest.map_err(|error| StepError::Unknown(reason!("host {}: {error}", place.host)))?;
    Ok(guest.filter(|guest| guest.defined))
}

/// Returns the cell of the server's record; none if the server is gone. A silent cell is an error, because silence proves nothing.
pub async fn cell_of(world: &World, context: &ServerFacts) -> Result<Option<String>, StepError> {
    match super::accept::find(world, context.server).await {
        Ok((cell, _)) => Ok(Some(cell)),
        Err(Refusal::NotFound(_)) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// True if the server was mended, and its guest is not off against its record. A reset of the state mends no guest.
async fn is_as_its_user_has_it(world: &World, context: &ServerFacts, place: &Place) -> Result<bool, StepError> {
    if !was_mended(world, context).await? {
        return Ok(false);
    }
    let (_, instance) = super::accept::find(world, context.server).await.map_err(StepError::from)?;
    let runs_by_its_record = instance.vm_state == VmState::Active;
    Ok(!runs_by_its_record || guest_at(world, context, place).await?.is_none_or(|guest| guest.power_state != PowerState::Shutdown))
}

/// True if the server has left the ERROR of the owing operation.
pub async fn was_mended(world: &World, context: &ServerFacts) -> Result<bool, StepError> {
    let (_, instance) = super::accept::find(world, context.server).await.map_err(StepError::from)?;
    Ok(stands(Guard::MendedServer) && instance.vm_state != VmState::Error)
}

/// Pays debts in the background: several servers at once, each server's debts in their order. A participant that hangs delays the debts of
/// its own servers only.
pub struct Payer {
    world: Arc<World>,
    owner: String,
    /// The servers whose debts are being tried; later rounds skip them.
    busy: Mutex<BTreeSet<Uuid>>,
    /// True while the debts are read: a database that hangs is asked once.
    reading: AtomicBool,
    /// The sagas that the log has named because this release does not know their tables.
    named: Mutex<BTreeSet<Uuid>>,
    turns: Semaphore,
}

impl Payer {
    /// Makes a payer that holds servers in this owner's name.
    pub fn new(world: Arc<World>, owner: &str) -> Payer {
        let (owner, busy, turns) = (owner.to_owned(), Mutex::default(), Semaphore::new(SERVERS_AT_ONCE));
        Payer { world, owner, busy, reading: AtomicBool::new(false), named: Mutex::default(), turns }
    }

    /// Tries the due debts of all servers at rest.
    pub async fn pay_due(&self) {
        if self.reading.swap(true, Ordering::SeqCst) {
            return;
        }
        let debts = self.world.operations.due_debts().await;
        self.reading.store(false, Ordering::SeqCst);
        match debts {
            Ok(DueDebts { debts, left_alone }) => {
                self.name_once(&left_alone);
                self.pay(debts).await;
            }
            Err(error) => log::warn!("the debts cannot be read: {error}"),
        }
    }

    /// Names in the log, once, the sagas whose debts wait for a release that knows their tables.
    fn name_once(&self, left_alone: &[LeftAlone]) {
        let mut named = self.named.lock();
        let new: Vec<&LeftAlone> = left_alone.iter().filter(|left| named.insert(left.saga)).collect();
        if new.is_empty() {
            return;
        }
        let tables: BTreeSet<String> = new.iter().map(|left| left.table.to_string()).collect();
        let (tables, sagas) = (Vec::from_iter(tables).join(", "), Vec::from_iter(new.iter().map(|left| left.saga.to_string())).join(", "));
        log::error!(
            "debts are left alone until the release that owes them runs again, because this one knows no {tables}: those of {sagas}"
        );
    }

    async fn pay(&self, debts: Vec<Debt>) {
        let mut of_servers: BTreeMap<Uuid, Vec<Debt>> = BTreeMap::new();
        for debt in debts {
            of_servers.entry(debt.server).or_default().push(debt);
        }
        join_all(of_servers.into_iter().map(|(server, debts)| self.pay_server(server, debts))).await;
    }

    async fn pay_server(&self, server: Uuid, debts: Vec<Debt>) {
        let Some(_busy) = Busy::take(self, server) else { return };
        let Ok(_turn) = self.turns.acquire().await else { return };
        let mut paid = false;
        for debt in debts {
            match pay(&self.world, &debt, &self.owner, false).await {
                Ok(done) => paid |= done,
                Err(error) => {
                    log::warn!(server:% = debt.server, migration:% = debt.saga, step = debt.step.as_str(); "a debt cannot be looked at: {error}")
                }
            }
        }
        // The participant answers again, and other servers may wait for it.
        if paid && let Err(error) = self.world.operations.hasten_debts().await {
            log::warn!("other debts wait for their own time: {error}");
        }
    }
}

/// Marks a server as being tried, until it is dropped.
struct Busy<'a> {
    payer: &'a Payer,
    server: Uuid,
}

impl Busy<'_> {
    fn take(payer: &Payer, server: Uuid) -> Option<Busy<'_>> {
        let is_free = payer.busy.lock().insert(server);
        // Made only if the server was free: a drop of the mark takes it away.
        is_free.then(|| Busy { payer, server })
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.payer.busy.lock().remove(&self.server);
    }
}

/// Tries the debts that the operation waits for, and returns an unpaid one.
pub async fn pay_before(world: &World, context: &Context, owner: &str) -> Result<Option<Debt>, StepError> {
    let steps = waits_for(context);
    if steps.is_empty() {
        return Ok(None);
    }
    let owed = async || {
        let debts = world.operations.debts(Some(context.server)).await?;
        Ok::<_, StepError>(debts.into_iter().filter(|debt| steps.contains(debt.step.as_str())).collect::<Vec<_>>())
    };
    for debt in owed().await? {
        pay(world, &debt, owner, true).await?;
    }
    Ok(owed().await?.into_iter().next())
}

/// Tries one debt under a hold of its server and a new fence, if it is due or the caller is eager. True if it is paid. A hold that failed
/// may have been taken all the same: then its lease runs out, and a conductor ends it.
async fn pay(world: &World, debt: &Debt, owner: &str, eager: bool) -> Result<bool, StepError> {
    let Some(held) = world.operations.hold(debt, owner, eager).await? else { return Ok(false) };
    world
        .operations
        .kept(debt.saga, held.lease_epoch, async {
            let tried = try_to_pay(world, debt, held).await;
            let_go(world, debt, held).await;
            tried
        })
        .await
}

/// Mends the server's status before it settles the debt: after a failure in between, both are tried again.
async fn try_to_pay(world: &World, debt: &Debt, held: PaymentHold) -> Result<bool, StepError> {
    let PaymentHold { fence, lease_epoch } = held;
    let paid = match perform(world, debt, fence).await {
        Ok(()) => recover_status(world, debt, fence).await,
        failed => failed,
    };
    let Err(error) = paid else {
        log::info!(server:% = debt.server, migration:% = debt.saga, step = debt.step.as_str(); "a debt is paid");
        world.operations.settle_debt(debt.saga, debt.owed_seq, lease_epoch).await?;
        return Ok(true);
    };
    let refused = needs_operator(matches!(error, StepError::Refused(_)), debt.tries + 1);
    if refused && !debt.needs_operator {
        log::error!(server:% = debt.server, migration:% = debt.saga, step = debt.step.as_str(); "a debt needs an operator: {error}");
    }
    let pause = world.settings.debt_pause(debt.tries + 1);
    world.operations.debt_failed(debt.saga, debt.owed_seq, lease_epoch, reason!("{error}").stored(), refused, pause).await?;
    Ok(false)
}

/// Ends the hold, however long that takes, because a hold blocks every operation. A hold that another payer has ended is left alone.
async fn let_go(world: &World, debt: &Debt, held: PaymentHold) {
    let mut tries = 0;
    while let Err(error) = world.operations.release(debt.saga, held.lease_epoch).await {
        if let DbError::Conflict(why) = error {
            return log::warn!(server:% = debt.server, migration:% = debt.saga; "another has the server that was held for a debt: {why}");
        }
        tries += 1;
        log::warn!(server:% = debt.server, migration:% = debt.saga; "a server cannot be let go yet: {error}");
        tokio::time::sleep(world.settings.back_off(tries)).await;
    }
}

async fn perform(world: &World, debt: &Debt, fence: Fence) -> Result<(), StepError> {
    let (mut context, step) = read(debt)?;
    let Some(payment) = step.payment_of(side_of(debt)) else { return Ok(()) };
    let paid = async {
        match is_moot(world, &context, step.moot).await? {
            true => Ok(()),
            false => payment(world, &mut context, fence).await,
        }
    };
    match tokio::time::timeout(world.settings.debt_deadline, paid).await {
        Ok(result) => result,
        Err(_) => Err(StepError::Unknown("no answer within the deadline".into())),
    }
}

fn side_of(debt: &Debt) -> Side {
    Side::parse(&debt.side).unwrap_or(Side::Act)
}

fn read(debt: &Debt) -> Result<(Context, Step), StepError> {
    let context: Context = serde_json::from_str(&debt.context).map_err(|error| StepError::Refused(reason!("{error}")))?;
    let unknown = |what: String| StepError::Refused(reason!("this release does not know {what}"));
    let tables = Tables::released(context.kind, debt.table_version)
        .ok_or_else(|| unknown(format!("version {} of the table of {}", debt.table_version, context.kind)))?;
    let step = tables.of(&context).named(&debt.step);
    Ok((context, *step.ok_or_else(|| unknown(format!("the step {}", debt.step)))?))
}

/// Gives a server in ERROR its earlier state when the last debt on which its guest depends is paid (INVARIANTS S7).
async fn recover_status(world: &World, debt: &Debt, fence: Fence) -> Result<(), StepError> {
    let (context, step) = read(debt)?;
    if !step.service_depends || context.guest_lost || (stands(Guard::OtherDebts) && depends_on_others(world, debt).await?) {
        return Ok(());
    }
    let Some(cell) = cell_of(world, &context).await? else { return Ok(()) };
    let undone = side_of(debt) == Side::Undo;
    let runs = if undone { context.ran_before() } else { context.part().runs_when_done() };
    let prior = context.prior.as_ref().map(|prior| prior.vm_state).filter(|_| undone);
    let vm_state = match (prior, runs) {
        // The move still waits for confirm or revert, and the shelved server for its unshelve.
        (Some(waiting @ (VmState::Resized | VmState::Shelved)), _) => waiting,
        (Some(kept @ (VmState::Paused | VmState::Suspended)), _) if context.part().rules().keeps_memory => kept,
        (Some(VmState::Rescued), true) => VmState::Rescued,
        (_, true) => VmState::Active,
        (_, false) => VmState::Stopped,
    };
    let power = match vm_state {
        VmState::Paused => PowerState::Paused,
        VmState::Suspended => PowerState::Suspended,
        _ if runs => PowerState::Running,
        _ => PowerState::Shutdown,
    };
    let change = InstanceChange { power_state: Some(power), ..InstanceChange::states(vm_state, None) };
    let txn = CellTxn::new().instance_change_if(context.server, Expected::at_rest(&[VmState::Error]), change);
    match world.cell(&cell)?.apply(fence, txn).await {
        Err(DbError::WrongState { .. }) => Ok(()),
        other => Ok(other?),
    }
}

/// True if the guest depends on another debt, too.
async fn depends_on_others(world: &World, debt: &Debt) -> Result<bool, StepError> {
    let debts = world.operations.debts(Some(debt.server)).await?;
    let mut others = debts.iter().filter(|other| (other.saga, other.owed_seq) != (debt.saga, debt.owed_seq));
    Ok(others.any(|other| read(other).is_ok_and(|(_, step)| step.service_depends)))
}
