//! A shop sells one parcel. Its process dies while the card is charged, a successor goes on from the journal, and a mail that could not be sent
//! is a debt, which is paid when the mail service is back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cellshift_saga::course::Commit;
use cellshift_saga::debt::Owed;
use cellshift_saga::journal::Line;
use cellshift_saga::machine::{Outcome, Side, State};
use cellshift_saga::perform::{NoSigns, Performed, perform};
use cellshift_saga::{BackOff, Course, Saga, Step, Table, Undo, work};
use parking_lot::Mutex;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shop;

impl Saga for Shop {
    type Name = &'static str;
    type World = World;
    type Context = Order;
    type Fence = i64;
    type Error = Silence;
    type Moot = ();
    type Time = ();

    const NEVER_MOOT: () = ();
}

/// The order as the saga carries it.
#[derive(Clone, Debug)]
struct Order {
    parcels: u32,
}

/// The participants: each effect is noted once, however often it is repeated.
#[derive(Default)]
struct World {
    effects: Mutex<Vec<String>>,
    mail_is_up: AtomicBool,
}

/// A participant does not answer, so nobody knows whether the effect happened.
struct Silence(&'static str);

impl From<Silence> for Performed {
    fn from(Silence(who): Silence) -> Performed {
        Performed::Ended(Outcome::Unknown(format!("{who} does not answer")))
    }
}

impl World {
    fn effect(&self, effect: String) {
        let mut effects = self.effects.lock();
        if !effects.contains(&effect) {
            effects.push(effect);
        }
    }
}

const TABLE: Table<Shop> = Table::of(&[
    Step::reversible("reserve", work!(Shop, reserve), Undo::By(work!(Shop, release))),
    Step::pivot("charge", work!(Shop, charge), Undo::Nothing("a refused card was not charged")),
    Step::cleanup("send_mail", work!(Shop, send_mail)),
]);

async fn reserve(world: &World, order: &mut Order, _: i64) -> Result<(), Silence> {
    world.effect(format!("{} reserved", order.parcels));
    Ok(())
}

async fn release(world: &World, order: &mut Order, _: i64) -> Result<(), Silence> {
    world.effect(format!("{} released", order.parcels));
    Ok(())
}

async fn charge(world: &World, order: &mut Order, _: i64) -> Result<(), Silence> {
    world.effect(format!("{} paid", order.parcels));
    Ok(())
}

async fn send_mail(world: &World, order: &mut Order, _: i64) -> Result<(), Silence> {
    if !world.mail_is_up.load(Ordering::Relaxed) {
        return Err(Silence("the mail service"));
    }
    world.effect(format!("{} mailed", order.parcels));
    Ok(())
}

/// The store: here a list that outlives the runners; in a program a database, with one transaction for each commit.
#[derive(Default)]
struct Store {
    lines: Vec<Line<Shop>>,
    debts: Vec<(Owed<Shop>, Order)>,
    attempt: i64,
    state: Option<State>,
}

impl Store {
    /// Writes a commit, and returns the fence of the side that it begins.
    fn write(&mut self, mut commit: Commit<Shop>) -> i64 {
        if let Some(begun) = commit.lines.last_mut().filter(|_| commit.begins) {
            self.attempt += 1;
            begun.attempt = self.attempt;
        }
        self.lines.append(&mut commit.lines);
        self.state = Some(commit.state);
        self.attempt
    }
}

const LIMIT: Duration = Duration::from_secs(5);
const PAUSES: BackOff = BackOff { first: Duration::from_millis(1), longest: Duration::from_millis(10) };

/// Runs a saga from its journal, which may be empty. If it is to die at a step, it leaves after the effect, and its end is lost.
async fn run(world: &World, store: &mut Store, order: &mut Order, dies_at: Option<&str>) {
    let journal = store.lines.iter().map(Line::as_entry);
    let mut course: Course<Shop> = Course::resumed(&TABLE, journal).expect("this release wrote the journal");
    while let Some((step, side)) = course.at_hand(&TABLE) {
        tokio::time::sleep(PAUSES.pause(course.machine().tries)).await;
        let fence = store.write(course.begin(&TABLE, ()));
        course.begun(false);
        let performed = perform(world, step, side, order, fence, LIMIT, &NoSigns).await;
        let (Performed::Ended(outcome), false) = (performed, dies_at == Some(step.name)) else { return };
        let consequences = course.ended(&TABLE, fence, &outcome, ());
        store.debts.extend(consequences.owed.map(|owed| (owed, order.clone())));
    }
    store.write(course.end());
}

/// Pays what can be paid, under new fences.
async fn pay(world: &World, store: &mut Store) {
    for (owed, mut order) in std::mem::take(&mut store.debts) {
        let Some(step) = TABLE.named(owed.step) else { continue };
        store.attempt += 1;
        if perform(world, step, owed.side, &mut order, store.attempt, LIMIT, &NoSigns).await != Performed::Ended(Outcome::Ok) {
            store.debts.push((owed, order));
        }
    }
}

/// Tells the story, and returns its effects and its journal.
async fn story() -> (Vec<String>, Store) {
    let (world, mut store, mut order) = (World::default(), Store::default(), Order { parcels: 1 });
    run(&world, &mut store, &mut order, Some("charge")).await;
    assert_eq!(store.state, Some(State::Running), "its runner died");
    run(&world, &mut store, &mut order, None).await;
    assert_eq!(store.state, Some(State::Done), "a debt keeps no order from its end");
    pay(&world, &mut store).await;
    assert_eq!(store.debts.iter().map(|(owed, _)| (owed.step, owed.side)).collect::<Vec<_>>(), [("send_mail", Side::Act)]);
    world.mail_is_up.store(true, Ordering::Relaxed);
    pay(&world, &mut store).await;
    (world.effects.into_inner(), store)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (effects, store) = story().await;
    for Line { seq, step, side, attempt, event, .. } in &store.lines {
        println!("{seq:>2}  attempt {attempt}  {side} of {step}: {event}");
    }
    println!("{}", effects.join(", "));
}

#[cfg(test)]
mod tests {
    #[tokio::test(start_paused = true)]
    async fn an_order_survives_a_death_and_pays_its_debt() {
        let (effects, store) = super::story().await;
        assert_eq!(effects, ["1 reserved", "1 paid", "1 mailed"], "each happened once");
        assert!(store.debts.is_empty());
        let charges: Vec<_> =
            store.lines.iter().filter(|line| line.step == "charge").map(|line| (line.event.as_str(), line.attempt)).collect();
        assert_eq!(charges, [("begun", 2), ("begun", 3), ("ok", 3)], "the successor charged under a higher fence");
    }
}
