//! The declaration of an operation: its word, its sagas, and the versions of its tables. Each operation declares itself as a constant beside its
//! table, and `context/mod.rs` lists all of them. What depends on the single request, the operation's [`Part`](super::context::Part) answers.

use futures::future::BoxFuture;

use super::accept::accept_existing;
use super::context::{Context, Kind};
use super::refusal::Refusal;
use super::step::Table;
use super::step_name::StepName;
use super::world::World;
use crate::domain::fence::Fence;

/// The first step of an operation, as it is performed within the request.
pub type Accept = for<'a> fn(&'a World, &'a mut Context, Fence) -> BoxFuture<'a, Result<(), Refusal>>;

/// An operation on a server.
#[derive(Clone, Copy)]
pub struct Operation {
    /// The word in journals, routes and metrics. It never changes, because journals outlive a release.
    pub word: &'static str,
    /// True if the operation takes a server's guest to another host, or back to the host where it was.
    pub is_move: bool,
    /// True if the guest runs while the operation moves it.
    pub is_live: bool,
    /// True if the operation makes its server, so that there is no earlier record to check.
    pub makes_server: bool,
    /// Performs the first step.
    pub accept: Accept,
    /// The words that follow from the undoing of the operation, for the log and the command line; none if nothing needs to be said.
    pub when_undone: Option<&'static str>,
    /// The tables by which the operation begins now, each by its name in tests and documents.
    pub sagas: &'static [(&'static str, Table)],
    /// The present version of the tables.
    pub present: Tables,
    /// The versions of earlier releases, from the first on. They stay as long as an operation or a debt of theirs may be in a database: two
    /// minor releases at least.
    pub earlier: &'static [Tables],
}

impl Operation {
    /// Declares an operation on an existing server that has tables of one version, and is no move. `choose` says which of its sagas a context
    /// runs.
    pub const fn new(word: &'static str, sagas: &'static [(&'static str, Table)], choose: fn(&Context) -> Table) -> Operation {
        Operation {
            word,
            is_move: false,
            is_live: false,
            makes_server: false,
            accept: |world, context, fence| Box::pin(accept_existing(world, context, fence)),
            when_undone: None,
            sagas,
            present: Tables::of_version(1, choose),
            earlier: &[],
        }
    }

    /// Declares the operation a move.
    pub const fn moving(self) -> Operation {
        Operation { is_move: true, ..self }
    }

    /// Declares the operation a move of a guest that runs meanwhile.
    pub const fn moving_live(self) -> Operation {
        Operation { is_live: true, ..self.moving() }
    }

    /// Declares that the operation makes its server, with this first step.
    pub const fn making_server(self, accept: Accept) -> Operation {
        Operation { makes_server: true, accept, ..self }
    }

    /// Declares the words that follow from the undoing of the operation.
    pub const fn when_undone(self, words: &'static str) -> Operation {
        Operation { when_undone: Some(words), ..self }
    }

    /// Declares the versions of earlier releases. The present version is the next one.
    pub const fn after(self, earlier: &'static [Tables]) -> Operation {
        let version = earlier[earlier.len() - 1].version + 1;
        Operation { present: Tables { version, ..self.present }, earlier, ..self }
    }

    /// Returns the step that is performed within the request: all tables of an operation begin with the same.
    pub fn first_step(self) -> StepName {
        self.sagas[0].1.steps[0].name
    }

    /// Returns all versions of the tables that may be in flight, the present one last.
    pub fn versions(self) -> impl Iterator<Item = Tables> {
        self.earlier.iter().copied().chain([self.present])
    }
}

/// The tables of an operation in one version. A release that changes a released table adds a version, and keeps the old one.
#[derive(Clone, Copy)]
pub struct Tables {
    /// Stored with each saga and each debt.
    pub version: i32,
    choose: fn(&Context) -> Table,
}

impl Tables {
    /// Declares a version. `choose` says which table a context runs.
    pub const fn of_version(version: i32, choose: fn(&Context) -> Table) -> Tables {
        Tables { version, choose }
    }

    /// Returns the tables by which an operation of this kind begins now.
    pub fn present(kind: Kind) -> Tables {
        kind.operation().present
    }

    /// Returns a released version; none if this release does not know it.
    pub fn released(kind: Kind, version: i32) -> Option<Tables> {
        kind.operation().versions().find(|tables| tables.version == version)
    }

    /// Returns the table that a context runs. The two tables of a move begin with the same four steps, and those of an unshelve onto a host
    /// with the same three, so the choice between them may come later.
    pub fn of(&self, context: &Context) -> Table {
        (self.choose)(context)
    }
}
