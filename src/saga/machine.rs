//! The engine's machine, and its states as operators see them.

pub use cellshift_saga::machine::{Back, Cursor, Effect, Event, Machine, Outcome, Side, State};

use crate::domain::saga_state::SagaState;

/// Returns the state that is stored and shown.
pub fn saga_state(state: State) -> SagaState {
    match state {
        State::Running => SagaState::Running,
        State::Unwinding => SagaState::Unwinding,
        State::Done => SagaState::Done,
        State::Unwound => SagaState::Unwound,
    }
}

#[cfg(test)]
mod tests {
    //! The machine over a move's own table, with the guards of this program.

    use super::*;
    use crate::saga::step_name::StepName;
    use crate::saga::tables::cross_cell_resize::TABLE;

    /// A move at this step, whose act has not begun.
    fn at(step: StepName) -> Machine {
        let mut machine = Machine::new();
        for _ in 0..TABLE.position(step).unwrap() {
            machine.begin();
            machine.apply(&TABLE, &Outcome::Ok);
        }
        machine
    }

    #[test]
    fn past_the_pivot_or_in_doubt_of_it_a_move_is_not_cancelled() {
        let wish = Outcome::Cancelled("it makes room".into());
        let mut before = at(StepName::TakeOwnership);
        assert!(before.may_turn_back(&TABLE));
        let mut in_doubt = before.clone();
        in_doubt.begin();
        for machine in [in_doubt, at(StepName::StartAtTarget), at(StepName::DeleteSnapshotImage)] {
            let mut wished = machine.clone();
            wished.apply(&TABLE, &wish);
            assert_eq!(wished, machine);
        }
        before.apply(&TABLE, &wish);
        assert_eq!(before.state(), State::Unwinding);
    }

    #[test]
    fn a_silent_target_is_not_left_past_the_pivot() {
        let mut machine = at(StepName::StartAtTarget);
        let start = TABLE.position(StepName::StartAtTarget).unwrap();
        machine.apply(&TABLE, &Outcome::Refused("spawn failed".into()));
        assert_eq!(machine.cursor, Cursor::Undo(start, Back::Unwind));
        machine.apply(&TABLE, &Outcome::Unknown("silence".into()));
        assert_eq!(machine.cursor, Cursor::Act(start), "it has not said that it is fenced");
    }
}
