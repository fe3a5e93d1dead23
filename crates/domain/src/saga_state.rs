//! The states of an operation's saga, as the journal, the operators' API and the command line name them.

use serde::{Deserialize, Serialize};

use super::server::named_states;

named_states! {
    /// Where a saga stands.
    SagaState {
        /// The saga goes forward.
        Running = "running",
        /// The saga goes back.
        Unwinding = "unwinding",
        /// Every step is done.
        Done = "done",
        /// Every step that had begun is undone, or its undo is owed.
        Unwound = "unwound",
        /// Its journal cannot be read by this release, or a debt of it fails for good: nothing goes on without an operator.
        NeedsOperator = "needs_operator",
    }
}

impl SagaState {
    /// The states of a saga that has ended.
    pub const OVER: [&'static str; 2] = [SagaState::Done.as_str(), SagaState::Unwound.as_str()];

    /// True when nothing of the saga will be performed any more, but for its debts.
    pub fn is_over(self) -> bool {
        matches!(self, SagaState::Done | SagaState::Unwound)
    }
}
