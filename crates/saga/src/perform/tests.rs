//! Deadlines under the paused clock, and what a failure leaves in the context.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use super::*;
use crate::fixture::{Refused, Tiny, World, limited, refuse};
use crate::step::Undo;
use crate::work;

/// Signs that stop after so many questions.
struct EndingSigns {
    questions: u64,
    count: AtomicU64,
}

impl EndingSigns {
    fn question(questions: u64) -> EndingSigns {
        EndingSigns { questions, count: AtomicU64::new(0) }
    }
}

impl Signs for EndingSigns {
    async fn progress(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed).saturating_add(1).min(self.questions)
    }

    async fn is_answered(&self) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed) < self.questions
    }
}

const LIMIT: Duration = Duration::from_secs(10);

/// Performs an act that takes this many seconds; returns its end and the seconds that passed.
async fn after(deadline: Deadline, seconds: u64, signs: &impl Signs) -> (Performed, u64) {
    let (world, began) = (World { takes: Duration::from_secs(seconds) }, Instant::now());
    let performed = perform(&world, &limited(deadline), Side::Act, &mut 0, 1, LIMIT, signs).await;
    (performed, began.elapsed().as_secs())
}

fn late() -> Performed {
    Performed::Ended(Outcome::TimedOut("no end within 10 s".into()))
}

#[tokio::test(start_paused = true)]
async fn an_act_ends_within_its_limit_or_is_late() {
    assert_eq!(after(Deadline::Within(10), 9, &NoSigns).await, (Performed::Ended(Outcome::Ok), 9));
    assert_eq!(after(Deadline::Within(10), 11, &EndingSigns::question(100)).await, (late(), 10), "no sign prolongs it");
}

#[tokio::test(start_paused = true)]
async fn an_act_that_moves_may_go_on() {
    assert_eq!(after(Deadline::WithoutProgress(10), 35, &EndingSigns::question(3)).await, (Performed::Ended(Outcome::Ok), 35));
    assert_eq!(after(Deadline::WithoutProgress(10), 35, &EndingSigns::question(2)).await, (late(), 30));
}

#[tokio::test(start_paused = true)]
async fn a_wait_goes_on_while_it_is_answered() {
    assert_eq!(after(Deadline::WhileAlive(10), 35, &EndingSigns::question(3)).await, (Performed::Ended(Outcome::Ok), 35));
    assert_eq!(after(Deadline::WhileAlive(10), 35, &EndingSigns::question(2)).await, (late(), 30));
}

#[tokio::test(start_paused = true)]
async fn an_undo_has_its_limit_alone() {
    let step = Step { undo: Undo::By(limited(Deadline::WithoutProgress(10)).act), ..limited(Deadline::WithoutProgress(10)) };
    let world = World { takes: Duration::from_secs(11) };
    assert_eq!(perform(&world, &step, Side::Undo, &mut 0, 1, LIMIT, &EndingSigns::question(9)).await, late());
}

#[tokio::test(start_paused = true)]
async fn only_a_good_end_changes_the_context() {
    let mut context = 0;
    let good = perform(&World::default(), &limited(Deadline::Within(10)), Side::Act, &mut context, 1, LIMIT, &NoSigns).await;
    assert_eq!((good, context), (Performed::Ended(Outcome::Ok), 1));
    let refusing: Step<Tiny> = Step::forward("refuse", work!(Tiny, refuse));
    let refused = perform(&World::default(), &refusing, Side::Act, &mut context, 1, LIMIT, &NoSigns).await;
    assert_eq!((refused, context), (Refused.into(), 1));
    let slow = World { takes: LIMIT * 2 };
    assert_eq!(perform(&slow, &limited(Deadline::Within(10)), Side::Act, &mut context, 1, LIMIT, &NoSigns).await, late());
    assert_eq!(context, 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_without_an_undo_undoes_nothing_well() {
    let mut context = 0;
    let undone = perform(&World::default(), &limited(Deadline::Within(10)), Side::Undo, &mut context, 1, LIMIT, &NoSigns).await;
    assert_eq!((undone, context), (Performed::Ended(Outcome::Ok), 0));
}
