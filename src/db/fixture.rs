//! Databases for tests.

use uuid::Uuid;

use super::api::operations::Append;
use crate::domain::saga_state::SagaState;
pub use cellshift_store::fixture::{check_migrations, databases, errors_from_inside, fresh_postgres, run_down, run_up};

/// Returns the commit by which a saga ends in this state, under its first lease and without entries.
pub fn end_of(saga: Uuid, server: Uuid, state: SagaState) -> Append {
    Append {
        saga,
        server,
        lease_epoch: 1,
        entries: Vec::new(),
        state,
        step: "accept".into(),
        context: None,
        error: None,
        begins: false,
        ends: true,
        owed: Vec::new(),
        heeds_cancellation: false,
        follow_up: None,
    }
}
