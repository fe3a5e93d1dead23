//! The periodic work alone; the conductor and the host are played by the test.

use std::time::Duration;

use chrono::TimeDelta;
use parking_lot::Mutex;
use uuid::Uuid;

use super::*;
use crate::actors::tests::played::{Played, play};
use crate::chaos::borders::{Outage, Outages};
use crate::db::api::operations::NewSaga;
use crate::db::api::ownership;
use crate::db::cell::CellTxn;
use crate::domain::cancellation::Cancellation;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{GuestReport, LiveProgress};
use crate::domain::instance_change::InstanceChange;
use crate::domain::migration::{Migration, MigrationStatus, MigrationType};
use crate::domain::reason::Reason;
use crate::domain::server::{PowerState, VmState};
use crate::reconcilers::PeriodicOptions;
use crate::saga::context::{Context as SagaContext, Request};
use crate::saga::operations::{BeginOperation, LiveMove};
use crate::saga::refusal::Refusal;
use crate::saga::reset::ResetTo;
use crate::saga::world::CELL0;

/// An active server whose guest is off.
const WENT_OFF: power::States = power::States { record: VmState::Active, guest: VmState::Stopped };

/// Remembers what was to begin.
#[derive(Default)]
struct Begun(Mutex<Vec<SagaContext>>);

#[async_trait::async_trait]
impl BeginOperation for Begun {
    async fn begin(&self, context: SagaContext) -> Result<Uuid, Refusal> {
        let saga = context.saga;
        self.0.lock().push(context);
        Ok(saga)
    }

    async fn cancel(&self, _: Uuid, _: Cancellation) -> Result<bool, Refusal> {
        Ok(false)
    }

    async fn failure(&self, _: Uuid) -> Result<Option<Reason>, Refusal> {
        Ok(None)
    }

    async fn outcome(&self, _: Uuid) -> Result<Option<Result<(), Reason>>, Refusal> {
        Ok(None)
    }

    async fn console(&self, _: &str, _: &str, _: Uuid) -> Result<String, Refusal> {
        Err(Refusal::Invalid("no console here".into()))
    }

    async fn type_line(&self, _: &str, _: &str, _: Uuid, _: String) -> Result<(), Refusal> {
        Err(Refusal::Invalid("no console here".into()))
    }

    async fn guest(&self, _: &str, _: &str, _: Uuid) -> Result<Option<GuestReport>, Refusal> {
        Ok(None)
    }

    async fn reset_state(&self, _: &RequestContext, _: Uuid, _: ResetTo) -> Result<(), Refusal> {
        Err(Refusal::Invalid("no reset here".into()))
    }

    async fn live_progress(&self, _: &LiveMove) -> Option<LiveProgress> {
        None
    }

    async fn force_complete(&self, _: &LiveMove) -> Result<bool, Refusal> {
        Ok(false)
    }
}

fn periodic(played: &Played, window: Duration) -> (Addr<Periodic>, Arc<Begun>) {
    let begun = Arc::new(Begun::default());
    let options = PeriodicOptions {
        resize_confirm_window: window,
        interval: Duration::from_secs(3600),
        offload: OffloadOptions::default(),
        reclaim_after: Duration::ZERO,
        ports_interval: Duration::from_secs(3600),
        retention: RetentionOptions::default(),
    };
    let (services, controller) = (played.world.api.db().clone(), "test".to_owned());
    let parts = PeriodicParts { world: played.world.clone(), services, conductor: begun.clone(), controller, options };
    (Periodic::new(parts, None).start(), begun)
}

/// Runs one round and waits for the end of it.
async fn run_round(periodic: &Addr<Periodic>) {
    periodic.send(RunRound).await.unwrap();
    while periodic.send(IsLooking).await.unwrap() {
        tokio::task::yield_now().await;
    }
}

#[derive(Message)]
#[rtype(result = "bool")]
struct IsLooking;

impl Handler<IsLooking> for Periodic {
    type Result = bool;

    fn handle(&mut self, _: IsLooking, _: &mut Self::Context) -> bool {
        !self.busy.is_empty()
    }
}

fn resized(played: &Played, server: Uuid, ago: TimeDelta) -> Migration {
    let at = played.world.env.now() - ago;
    Migration {
        updated_at: Some(at),
        status: MigrationStatus::Finished,
        source_compute: "elsewhere".into(),
        source_node: "elsewhere".into(),
        dest_compute: Some("host1".into()),
        dest_node: Some("host1".into()),
        old_flavor_id: "1".into(),
        new_flavor_id: "2".into(),
        old_instance_type_id: 1,
        new_instance_type_id: 2,
        cross_cell_move: true,
        user_id: "alice".into(),
        project_id: "demo".into(),
        ..Migration::new(played.world.env.uuid(), server, MigrationType::Resize, at)
    }
}

#[actix::test]
async fn only_what_has_waited_longer_than_the_window_is_confirmed() {
    let played = play().await;
    let (old, young) = (played.server(VmState::Resized).await, played.server(VmState::Resized).await);
    for (server, ago) in [(old, TimeDelta::hours(2)), (young, TimeDelta::minutes(1))] {
        let txn = CellTxn::new().create_migration(resized(&played, server, ago));
        played.world.cells["cell1"].db.apply_unfenced(txn).await.unwrap();
    }
    let (periodic, begun) = periodic(&played, Duration::from_secs(3600));
    run_round(&periodic).await;
    let waiting = played.world.cells["cell1"].db.latest_migration(old, &[]).await.unwrap();
    let begun = begun.0.lock();
    let [SagaContext::Confirm(confirm)] = &begun[..] else { panic!("not one confirm: {begun:?}") };
    assert_eq!((confirm.server, confirm.request.automatic), (old, true));
    assert_eq!(confirm.request.migration, waiting.map(|migration| migration.uuid), "no later move of its user is confirmed");
}

#[actix::test]
async fn without_a_window_nothing_is_confirmed() {
    let played = play().await;
    let server = played.server(VmState::Resized).await;
    let txn = CellTxn::new().create_migration(resized(&played, server, TimeDelta::days(9)));
    played.world.cells["cell1"].db.apply_unfenced(txn).await.unwrap();
    let (periodic, begun) = periodic(&played, Duration::ZERO);
    run_round(&periodic).await;
    assert!(begun.0.lock().is_empty());
}

#[actix::test]
async fn the_record_follows_a_guest_that_went_off() {
    let played = play().await;
    let (gone, runs) = (played.server(VmState::Active).await, played.server(VmState::Active).await);
    *played.guests.lock() = vec![played.guest(gone, PowerState::Shutdown), played.guest(runs, PowerState::Running)];
    let (periodic, _) = periodic(&played, Duration::ZERO);
    run_round(&periodic).await;
    assert_eq!(played.record(gone).await.vm_state, VmState::Stopped);
    assert_eq!(played.record(runs).await.vm_state, VmState::Active);
}

/// An active server has a guest in each state. The record of a server that is not active keeps its state.
#[actix::test]
async fn an_active_record_follows_a_guest_that_does_not_just_run() {
    let played = play().await;
    let guests = [
        (VmState::Active, PowerState::Paused, false, (VmState::Paused, PowerState::Paused)),
        (VmState::Active, PowerState::Suspended, false, (VmState::Suspended, PowerState::Suspended)),
        (VmState::Active, PowerState::Running, true, (VmState::Rescued, PowerState::Running)),
        (VmState::Rescued, PowerState::Shutdown, true, (VmState::Rescued, PowerState::Shutdown)),
        (VmState::Suspended, PowerState::Paused, false, (VmState::Suspended, PowerState::Running)),
    ];
    let mut followed = Vec::new();
    for (record, power, rescued, expected) in guests {
        let server = played.server(record).await;
        let mark = InstanceChange { power_state: Some(PowerState::Running), ..InstanceChange::default() };
        played.world.cells["cell1"].db.apply(played.fence(server).await, CellTxn::new().instance_change(server, mark)).await.unwrap();
        played.guests.lock().push(GuestReport { rescued, ..played.guest(server, power) });
        followed.push((server, expected));
    }
    let (periodic, _) = periodic(&played, Duration::ZERO);
    run_round(&periodic).await;
    for (server, expected) in followed {
        let record = played.record(server).await;
        assert_eq!((record.vm_state, record.power_state), expected);
    }
}

#[actix::test]
async fn a_cell_that_hangs_delays_no_other_cells_work() {
    let played = play().await;
    let (gone, old) = (played.server(VmState::Active).await, played.server(VmState::Resized).await);
    *played.guests.lock() = vec![played.guest(gone, PowerState::Shutdown)];
    let txn = CellTxn::new().create_migration(resized(&played, old, TimeDelta::hours(2)));
    played.world.cells["cell1"].db.apply_unfenced(txn).await.unwrap();
    // The first cell in the order of their names.
    let hangs = played.world.cells[CELL0].db.db().clone();
    hangs.set_outage(Outage::Hangs);
    let (periodic, begun) = periodic(&played, Duration::from_secs(3600));
    periodic.send(RunRound).await.unwrap();
    let done = async {
        while begun.0.lock().is_empty() || played.record(gone).await.vm_state != VmState::Stopped {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), done).await.expect("the other cell does not wait");
    hangs.set_outage(Outage::None);
}

/// Its host will ask whether it may run it again.
#[actix::test]
async fn power_following_ignores_a_guest_that_its_host_has_lost() {
    let played = play().await;
    let server = played.server(VmState::Active).await;
    *played.guests.lock() = vec![played.guest(server, PowerState::NoState)];
    let (periodic, _) = periodic(&played, Duration::ZERO);
    run_round(&periodic).await;
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

#[actix::test]
async fn a_guest_that_an_operation_has_in_hand_is_left_to_it() {
    let played = play().await;
    let server = played.server(VmState::Active).await;
    *played.guests.lock() = vec![played.guest(server, PowerState::Shutdown)];
    let context = played.context(server, Request::Reboot { hard: true });
    let json = serde_json::to_string(&context).unwrap();
    played.world.operations.begin(NewSaga::new(context.saga, server, ("reboot", 1), "accept", json, "test")).await.unwrap();
    let (periodic, _) = periodic(&played, Duration::ZERO);
    run_round(&periodic).await;
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

/// The undo of the move defines the guest, and a later undo starts it.
#[actix::test]
async fn power_following_waits_for_the_undos_that_a_server_owes() {
    for (side, followed) in [("undo", VmState::Active), ("act", VmState::Stopped)] {
        let played = play().await;
        let server = played.server(VmState::Active).await;
        *played.guests.lock() = vec![played.guest(server, PowerState::Shutdown)];
        played.owes(&played.context(server, Request::Stop), side, &["stop_guest"]).await;
        let (periodic, _) = periodic(&played, Duration::ZERO);
        run_round(&periodic).await;
        assert_eq!(played.record(server).await.vm_state, followed, "{side}");
    }
}

/// An operation ran from end to end between the host's word and the record's change.
#[actix::test]
async fn power_following_obeys_the_fence_of_a_newer_operation() {
    let played = play().await;
    let server = played.server(VmState::Active).await;
    let outdated = played.fence(server).await;
    let newer = Fence { attempt: outdated.attempt + 3, ..outdated };
    let cell = &played.world.cells["cell1"];
    cell.db.apply(newer, CellTxn::new().instance_change(server, InstanceChange::states(VmState::Active, None))).await.unwrap();
    power::record(cell, outdated, "host1", WENT_OFF).await;
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

/// The operation ended between the two questions to the host: what the first one saw was its doing.
#[actix::test]
async fn power_following_asks_the_host_again_after_reading_the_fence() {
    let played = play().await;
    let server = played.server(VmState::Active).await;
    *played.guests.lock() = vec![played.guest(server, PowerState::Running)];
    power::follow_one(&played.world, "cell1", "host1", server, WENT_OFF).await;
    assert_eq!(played.record(server).await.vm_state, VmState::Active);
}

#[actix::test]
async fn records_are_kept_for_the_configured_days() {
    let played = play().await;
    let retention = RetentionOptions { interval: Duration::from_secs(60), deleted_servers_days: 2, operations_days: 0, history_days: 0 };
    let options = PeriodicOptions {
        resize_confirm_window: Duration::ZERO,
        interval: Duration::from_secs(3600),
        offload: OffloadOptions::default(),
        reclaim_after: Duration::ZERO,
        ports_interval: Duration::from_secs(3600),
        retention,
    };
    let services = played.world.api.db().clone();
    let (conductor, controller) = (Arc::new(Begun::default()), "test".to_owned());
    let parts = PeriodicParts { world: played.world.clone(), services, conductor, controller, options };
    let cell = played.world.cells["cell1"].db.clone();
    let mut deleted = Vec::new();
    for days in [1, 3, 3] {
        let server = played.server(VmState::Active).await;
        let at = played.world.env.now() - TimeDelta::days(days);
        let fence = played.fence(server).await;
        cell.apply(fence, CellTxn::new().soft_delete_instance(server, at)).await.unwrap();
        played.world.api.db().write(move |conn| ownership::hand_over(conn, fence, None)).await.unwrap();
        played.world.api.set_queued_for_delete(server, true).await.unwrap();
        deleted.push(server);
    }
    // The last of the deleted servers still has an operation.
    let operation = NewSaga::new(played.world.env.uuid(), deleted[2], ("delete", 1), "accept", "{}".into(), "other");
    played.world.operations.begin(operation).await.unwrap();
    let periodic = Periodic::new(parts, None).start();
    run_round(&periodic).await;
    let mut left = Vec::new();
    for server in deleted {
        left.push((cell.instance_even_deleted(server).await.is_ok(), played.world.api.instance_mapping(server).await.is_ok()));
    }
    assert_eq!(left, [(true, true), (false, false), (true, true)]);
}
