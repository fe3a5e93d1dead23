//! Finds the faults that a failing seed needs: leaves out ever smaller parts and runs again.

use super::{Options, SimulationError, run_with};
use crate::chaos::experiment::fault::PlannedFault;
use crate::chaos::experiment::scenario::Scenario;

/// The maximum number of runs, because somebody waits for the answer.
const RUNS: usize = 64;

/// Returns the indexes of a smaller set of these faults with which the seed still fails.
pub fn minimised(seed: u64, scenario: &Scenario, faults: &[PlannedFault]) -> Result<Vec<usize>, SimulationError> {
    let fails = |kept: &[usize]| {
        let chosen: Vec<PlannedFault> = kept.iter().filter_map(|at| faults.get(*at).cloned()).collect();
        run_with(seed, scenario, &chosen, &Options::default()).map(|outcome| !outcome.is_good())
    };
    shrink((0..faults.len()).collect(), RUNS, fails)
}

/// Leaves out halves, then quarters, down to single faults, as long as the rest still fails.
fn shrink<E>(mut kept: Vec<usize>, mut runs: usize, mut fails: impl FnMut(&[usize]) -> Result<bool, E>) -> Result<Vec<usize>, E> {
    let mut part = kept.len();
    while part > 0 {
        let mut start = 0;
        let mut less = false;
        while start < kept.len() && runs > 0 {
            let without: Vec<usize> =
                kept.iter().enumerate().filter(|(at, _)| !(start..start + part).contains(at)).map(|(_, one)| *one).collect();
            runs -= 1;
            if fails(&without)? {
                (kept, less) = (without, true);
            } else {
                start += part;
            }
        }
        // With single faults another round may find more; above, smaller parts will.
        part = if part == 1 && less && runs > 0 { 1 } else { part / 2 };
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_faults_that_matter_are_left() {
        let needs = |faults: &'static [usize]| move |kept: &[usize]| Ok::<bool, ()>(faults.iter().all(|one| kept.contains(one)));
        assert_eq!(shrink((0..10).collect(), 100, needs(&[3, 7])), Ok(vec![3, 7]));
        assert_eq!(shrink((0..10).collect(), 100, needs(&[])), Ok(vec![]));
        assert_eq!(shrink((0..3).collect(), 100, needs(&[0, 1, 2])), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn minimising_stops_after_its_bound_of_runs() {
        let mut runs = 0;
        let never = |_: &[usize]| {
            runs += 1;
            Ok::<bool, ()>(false)
        };
        assert_eq!(shrink((0..40).collect(), 7, never), Ok((0..40).collect()));
        assert_eq!(runs, 7);
    }
}
