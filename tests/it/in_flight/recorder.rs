//! Records a fixture: in one cloud an operation stands still at each step of each saga, on both sides; then the process dies.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use cellshift::chaos::point::{FaultPlan, Moment, Point, StepFault};
use cellshift::config::Config;
use cellshift::saga::step::{Class, Table};
use cellshift::saga::tables;
use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

use super::{Fixture, Packed, Stopped, directory, roomy};
use crate::cloud::{Cloud, PATIENCE};
use crate::faults::scenario::{self, Beginning};

/// The place where an operation shall stand still.
#[derive(Clone)]
struct Aim {
    step: &'static str,
    side: &'static str,
    /// Refuses this step's act, before or after its effect, so that the undos begin.
    refused: Option<(&'static str, Moment)>,
}

/// Directs the next operation of a server to its place, and keeps the operations that stand still.
#[derive(Default)]
struct StandsStill {
    next: Mutex<Option<(Uuid, Aim)>>,
    aimed: Mutex<BTreeMap<Uuid, Aim>>,
    stood: Mutex<Option<(Uuid, Uuid)>>,
    changed: Notify,
}

impl FaultPlan for StandsStill {
    fn at(&self, point: &Point<'_>) -> StepFault {
        let mut aimed = self.aimed.lock();
        if let Entry::Vacant(unknown) = aimed.entry(point.id) {
            // A new server's id is known here first.
            let next = self.next.lock().take_if(|(server, _)| server.is_nil() || *server == point.server);
            if let Some((_, aim)) = next {
                unknown.insert(aim);
            }
        }
        let Some(aim) = aimed.get(&point.id) else { return StepFault::None };
        if aim.refused == Some((aim.step_refused(), point.moment)) && point.side == "act" && point.step == aim.step_refused() {
            return StepFault::Refuse;
        }
        let arrived = point.step == aim.step && point.side == aim.side && point.moment == Moment::AfterEffect;
        if arrived {
            *self.stood.lock() = Some((point.id, point.server));
            self.changed.notify_one();
        }
        if arrived { StepFault::Freeze } else { StepFault::None }
    }
}

impl Aim {
    fn step_refused(&self) -> &'static str {
        self.refused.map_or("", |(step, _)| step)
    }
}

/// Returns each act and each undo of a table.
fn aims(table: &Table) -> Vec<Aim> {
    let steps = table.steps;
    let acts = steps.iter().map(|step| Aim { step: step.name.as_str(), side: "act", refused: None });
    // A first step before a forward step is never undone.
    let first = usize::from(steps[1].class != Class::Reversible);
    let undos = steps.iter().enumerate().skip(first).filter(|(_, step)| step.undo.work().is_some());
    let undos = undos.map(|(position, step)| {
        // A refusal of the first step is the request's refusal, so the second step is refused there.
        let refused =
            if position == 0 { (steps[1].name.as_str(), Moment::BeforeEffect) } else { (step.name.as_str(), Moment::AfterEffect) };
        Aim { step: step.name.as_str(), side: "undo", refused: Some(refused) }
    });
    acts.chain(undos).collect()
}

fn roomy_and_keeping(config: &mut Config) {
    roomy(config);
    scenario::kept_on_hosts(config);
}

fn on_root_volume(beginning: Beginning) -> bool {
    use Beginning::{OffloadedOnRootVolume, OffloadedOnRootVolumeForAnyCell, OnRootVolume};
    matches!(beginning, OnRootVolume | OffloadedOnRootVolume | OffloadedOnRootVolumeForAnyCell)
}

#[test]
fn record() {
    let Ok(file) = std::env::var("CELLSHIFT_RECORD_IN_FLIGHT") else { return };
    let fixture = actix_rt::System::new().block_on(async {
        let cloud = Rc::new(Cloud::start_small(roomy_and_keeping).await);
        let plan = Arc::new(StandsStill::default());
        cloud.faults().arm(Some(plan.clone()));
        let mut stopped = Vec::new();
        for (saga, table) in tables::ALL {
            let of_saga = || scenario::ALL.iter().filter(|scenario| scenario.saga == *saga);
            // Where shelved servers are kept on their hosts, a server on a volume leaves its host all the same.
            let scenario = of_saga().find(|scenario| on_root_volume(scenario.beginning)).or_else(|| of_saga().next()).expect("a scenario");
            for aim in aims(table) {
                let begun = scenario::begin(&cloud, scenario.beginning).await;
                let request = (scenario.ask)(&cloud, &begun);
                *plan.next.lock() = Some((begun.server, aim.clone()));
                let asking = cloud.clone();
                let sending =
                    tokio::task::spawn_local(async move { drop(asking.try_send(request.method, &request.path, request.body).await) });
                let arrived = tokio::time::timeout(PATIENCE, plan.changed.notified()).await;
                arrived.unwrap_or_else(|_| panic!("{saga} never came to {} of {}", aim.side, aim.step));
                sending.abort();
                let _ = sending.await;
                let (id, server) = plan.stood.lock().take().expect("an operation");
                assert!(scenario.beginning == Beginning::Nothing || server == begun.server);
                stopped.push(Stopped { saga: (*saga).to_owned(), step: aim.step.to_owned(), side: aim.side.to_owned(), id, server });
                eprintln!("{:?}", stopped.last());
            }
        }
        let dir = Rc::into_inner(cloud).expect("nobody asks any more").abandon();
        Fixture { stopped, directory: Packed::pack(dir.path()) }
    });
    directory::write(&fixture, Path::new(&file));
}
