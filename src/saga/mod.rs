//! Sagas: every operation that spans participants, declared as a table of steps (INVARIANTS S1 to S9).
//!
//! Read a saga from top to bottom in its own file ([`cross_cell_resize`] first). [`machine`] is the pure core that decides
//! what comes next, [`step`] how a table is written, [`context`] what travels from step to step, [`world`] what a step can
//! reach, [`tables`] the register of all sagas. The actor that runs a saga is `actors::conductor::migration`. No actix, no diesel, no
//! clock here.

pub mod accept;
pub mod clear_contexts;
pub mod confirm;
pub mod context;
pub mod create;
pub mod cross_cell_resize;
pub mod debt;
pub mod delete;
pub mod error;
pub mod history;
pub mod journal;
pub mod machine;
pub mod notifications;
pub mod operations;
pub mod power;
pub mod rebuild;
pub mod refusal;
pub mod resize;
pub mod revert;
pub mod same_cell_resize;
pub mod scheduling;
pub mod step;
pub mod step_name;
pub mod steps;
pub mod tables;
pub mod volume_attachment;
pub mod world;
