//! Debts: the undos and clean-ups that a saga could not do, because a participant did not answer. The saga ends all the same, and the program
//! pays them when the participant returns, under a new fence.

use crate::machine::Side;
use crate::saga::Saga;

/// The tries after which a debt that is refused, not merely unanswered, asks for a person.
pub const REFUSALS_BEFORE_OPERATOR: i64 = 10;

/// A side that a saga owes. The program stores it in the commit that ends the side, with a copy of the context, and pays it by
/// [`Step::payment_of`](crate::Step::payment_of).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owed<S: Saga> {
    /// The number of the journal's line that ends the side.
    pub seq: i64,
    /// The step.
    pub step: S::Name,
    /// The side that is to be done.
    pub side: Side,
    /// The error of the last try.
    pub reason: String,
}

/// True if a debt asks for a person after this many tries to pay it, the last of which was refused or not.
pub fn needs_operator(is_refused: bool, tries: i64) -> bool {
    is_refused && tries >= REFUSALS_BEFORE_OPERATOR
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{STEPS, Tiny, World, refuse};
    use crate::work;

    #[tokio::test]
    async fn a_step_that_names_a_payment_is_paid_by_it() {
        let world = World::default();
        let [own, named] =
            [STEPS[0], STEPS[0].paid_by(work!(Tiny, refuse))].map(|step| step.payment_of(Side::Undo).expect("it can be owed"));
        assert!(own(&world, &mut 0, 1).await.is_ok(), "the undo pays for itself");
        assert!(named(&world, &mut 0, 1).await.is_err(), "the payment refuses");
        assert!(STEPS[1].payment_of(Side::Undo).is_none(), "an undo that has nothing to do is not owed");
    }

    #[test]
    fn silence_never_asks_for_a_person() {
        assert!(!needs_operator(false, 1000));
        assert!(!needs_operator(true, REFUSALS_BEFORE_OPERATOR - 1));
        assert!(needs_operator(true, REFUSALS_BEFORE_OPERATOR));
    }
}
