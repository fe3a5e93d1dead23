//! Explores the rules of this release, and then what happens without them, and prints what was found. Exits with 1 if that is not as expected.

use std::process::ExitCode;

use ownership_model::{of_release, without_a_word, without_guards};

fn main() -> ExitCode {
    let mut is_as_expected = true;
    for case in [of_release(), without_a_word(), without_guards()].concat() {
        let explored = case.explore();
        is_as_expected &= explored.breach.is_none() == case.holds;
        print!("{}", case.report(&explored));
    }
    if is_as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
