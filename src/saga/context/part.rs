//! The interface of an operation's typed part: all that the shared code (acceptance, history, debts) asks of an operation.

use std::ops::{Deref, DerefMut};

use chrono::{DateTime, Utc};

use super::{Candidates, Context, Place, ServerFacts};
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};

/// The typed part of an operation. It dereferences to the facts that all operations share.
pub trait Part: Deref<Target = ServerFacts> + DerefMut + Send + Sync {
    /// The instance action's name.
    fn action(&self) -> &'static str;

    /// The name of the operation in messages about the server's state.
    fn verb(&self) -> &'static str {
        self.action()
    }

    /// The states of a server in which the operation is allowed.
    fn allowed_states(&self) -> &'static [VmState];

    /// True if the operation is refused for a server that never ran.
    fn needs_launch(&self) -> bool {
        true
    }

    /// The task state that users see from the acceptance on.
    fn first_task_state(&self) -> Option<TaskState>;

    /// The server's host; none if it has none.
    fn here(&self) -> Option<&Place>;

    /// The action's leading events, in Nova's names and order: the conductor's, then the host's.
    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)>;

    /// The time of the action's beginning, if that is not the time of its record.
    fn asked_at(&self) -> Option<DateTime<Utc>> {
        None
    }

    /// True if the operation writes disks, which may take minutes.
    fn copies_disks(&self) -> bool {
        false
    }

    /// The hosts among which the operation chooses.
    fn candidates(&self) -> Option<&Candidates> {
        None
    }

    /// See [`Part::candidates`].
    fn candidates_mut(&mut self) -> Option<&mut Candidates> {
        None
    }

    /// True if the operation builds upon the allocations, move fields and records of the server's earlier moves.
    fn waits_for_moves_debts(&self) -> bool {
        false
    }

    /// The configuration that the guest reads at its first boot, and the sealed secrets beside it.
    fn first_boot(&self) -> Option<(&serde_json::Value, &Option<Sealed>)> {
        None
    }

    /// Replaces the result of [`Part::first_boot`].
    fn set_first_boot(&mut self, _config: serde_json::Value, _sealed: Option<Sealed>) {}
}

/// A view of a context that a step takes: the whole, the shared facts, or one operation's part.
pub trait View {
    /// None if the context is another operation's.
    fn of(context: &mut Context) -> Option<&mut Self>;
}

impl View for Context {
    fn of(context: &mut Context) -> Option<&mut Context> {
        Some(context)
    }
}

impl View for ServerFacts {
    fn of(context: &mut Context) -> Option<&mut ServerFacts> {
        Some(context)
    }
}

/// Makes a struct the part of an operation: it has the shared facts, and is a view of the contexts of these variants.
macro_rules! part {
    ($part:ident: $($variant:ident),+) => {
        impl std::ops::Deref for $part {
            type Target = $crate::saga::context::ServerFacts;

            fn deref(&self) -> &Self::Target {
                &self.facts
            }
        }

        impl std::ops::DerefMut for $part {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.facts
            }
        }

        impl $crate::saga::context::View for $part {
            fn of(context: &mut $crate::saga::context::Context) -> Option<&mut $part> {
                match context {
                    $($crate::saga::context::Context::$variant(part) => Some(part),)+
                    _ => None,
                }
            }
        }
    };
}
pub(super) use part;
