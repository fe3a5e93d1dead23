//! Reconcilers: each compares what is with what should be, and takes the next steps. A reconciler has no mailbox and no memory that must
//! survive, so it may break off at any point and begin anew. The actor `actors::periodic` and operators' requests run them.

pub mod aggregate_members;
pub mod drains;
pub mod queued_deletes;
