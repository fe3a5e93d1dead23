//! Tests the rule for moves past the scheduler.

use uuid::Uuid;

use super::fixture::*;
use super::snapshot::Snapshot;
use crate::domain::context::RequestContext;
use crate::domain::saga_record::SagaRecord;
use crate::domain::saga_state::SagaState;
use crate::saga::context::{Context, Kind, LiveMigrateRequest, Request};

const SAGA: Uuid = Uuid::from_u128(0x71);

/// Adds a live migration of server A that is over.
fn live_migration(world: &mut Snapshot, forced: bool) {
    let request = LiveMigrateRequest { host: Some("h2".into()), block_migration: None, forced, unchecked: true };
    let caller = RequestContext { request_id: "req-1".into(), ..RequestContext::default() };
    let context = Context::new(SAGA, caller, A, Request::LiveMigrate(request));
    let (kind, context) = (Kind::LiveMigrate.as_str().to_owned(), serde_json::to_string(&context).unwrap());
    world.sagas.push(SagaRecord { id: SAGA, server: A, kind, context, state: SagaState::Done, ..saga("done") });
    world.journals.insert(SAGA, journal(&[("finish_record", "act", "begun"), ("finish_record", "act", "ok")]));
}

#[test]
fn a_forced_move_without_its_action_is_found() {
    expect_among("I20", "forced to h2 by request req-1", |world| live_migration(world, true));
    expect_none(|world| live_migration(world, false));
    expect_none(|world| {
        live_migration(world, true);
        records(world, "cell1").forced_actions.push((A, "req-1".into()));
    });
}
