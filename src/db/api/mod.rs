//! The API database: mappings, flavors, and the operations in flight with their journal.

pub mod debts;
pub mod operations;
pub mod ownership;
