//! The simulation replays, finds what is put there to be found, and its fixed seeds are good.

use super::*;

fn small() -> Scenario {
    Scenario { servers: 8, actions: 40, seconds: 20, ..Scenario::default() }
}

#[test]
fn a_seed_replays_to_the_same_trace() {
    let options = Options { whole_trace: true };
    let first = run(1, &small(), options).unwrap();
    let second = run(1, &small(), options).unwrap();
    let differs = first.trace.iter().zip(&second.trace).position(|(first, second)| first != second);
    if let Some(at) = differs {
        panic!("line {at} differs:\n{}\n{}", first.trace[at], second.trace[at]);
    }
    assert_eq!(first.hash, second.hash);
    assert_ne!(first.hash, run(2, &small(), options).unwrap().hash);
}

/// What a plain run of the tests takes: each seed twice.
#[test]
fn fixed_seeds_are_good_and_replay() {
    for seed in 10..14 {
        let faults = fault::drawn(seed, &small());
        let first = run_with(seed, &small(), &faults, Options::default()).unwrap();
        let told = format!("{:#?}\n{:?}\n{}", first.violations, first.unreachable, first.trace.join("\n"));
        assert!(first.is_good(), "seed {seed} (cellshift simulate --seed {seed} with this test's scenario):\n{told}");
        assert!(first.moves > 0, "seed {seed} moves nothing");
        assert_eq!(first.hash, run_with(seed, &small(), &faults, Options::default()).unwrap().hash, "seed {seed} does not replay");
    }
}
