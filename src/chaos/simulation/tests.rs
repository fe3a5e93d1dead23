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
