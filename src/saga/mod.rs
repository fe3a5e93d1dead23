//! Sagas: every operation that spans participants, declared as a table of steps (INVARIANTS S1 to S9).
//!
//! [`tables`] has one file per operation; read `tables/cross_cell_resize.rs` from top to bottom first. [`steps`] has the acts and undos that
//! several tables share, by subject. [`context`] is the state that travels from step to step, a typed part per operation. [`world`] is all that a
//! step can reach, [`debt`] pays what an ended saga owes, and [`migration_view`] shows a saga to operators. How a table is written, what comes
//! next and what is journalled when is decided by the engine `cellshift-saga`; [`compute`] is this program's side of it, and [`step`],
//! [`machine`] and [`course`] have its types.
//! The actor that runs a saga is `actors::conductor::migration`. No actix, no diesel, no clock here.

pub mod accept;
pub mod claim;
pub mod clear_contexts;
pub mod compute;
pub mod context;
pub mod course;
pub mod debt;
pub mod error;
pub mod explanation;
pub mod flavor_change;
pub mod history;
pub mod idle;
pub mod journal;
pub mod machine;
pub mod migration_view;
pub mod notifications;
pub mod operation;
pub mod operations;
pub mod performer;
pub mod refusal;
pub mod reset;
pub mod scheduling;
pub mod step;
pub mod step_name;
pub mod steps;
pub mod tables;
pub mod world;
