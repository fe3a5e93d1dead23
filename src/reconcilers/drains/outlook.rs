//! The outlook of planned moves and of a running drain: how full hosts will be, and how long the moves take, as measured by the last moves.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::choice::operation;
use crate::db::DbError;
use crate::db::api::operations::Operations;
use crate::domain::drain::{Counts, Drain, DrainServerState, DrainState, MoveKind};
use crate::domain::flavor::Resources;
use crate::saga::error::StepError;
use crate::saga::scheduling::PlannedMove;
use crate::saga::world::World;
use crate::services::placement::Offer;

/// The number of moves by which the next ones are measured.
const MEASURED: i64 = 50;

/// A move as planned, with the cell of its host.
pub(super) struct Planned {
    pub kind: MoveKind,
    pub cell: String,
    pub room: PlannedMove,
}

/// Returns each host that takes a server, with what is used of it now and after the moves.
pub(super) async fn targets(world: &World, planned: &[Planned]) -> Result<Vec<Value>, StepError> {
    let mut by_host: BTreeMap<(&str, &str), Vec<Resources>> = BTreeMap::new();
    for one in planned {
        by_host.entry((&one.cell, &one.room.host)).or_default().push(one.room.resources);
    }
    if by_host.is_empty() {
        return Ok(Vec::new());
    }
    let providers = world.placement.providers().await?.into_iter();
    let mut offers: BTreeMap<String, Offer> = providers.map(|provider| (provider.name.clone(), Offer::new(provider))).collect();
    let target = |((cell, host), moves): ((&str, &str), Vec<Resources>)| {
        let offer = offers.remove(host)?;
        let (total, free, number, more) = (offer.total, offer.free, moves.len(), moves.into_iter().sum::<Resources>());
        let fill = |total: i64, free: i64, more: i64| json!({"now": total - free, "after": total - free + more, "total": total});
        Some(json!({
            "cell": cell,
            "host": host,
            "moves": number,
            "vcpus": fill(total.vcpu, free.vcpu, more.vcpu),
            "memory_mb": fill(total.memory_mb, free.memory_mb, more.memory_mb),
            "disk_gb": fill(total.disk_gb, free.disk_gb, more.disk_gb),
        }))
    };
    Ok(by_host.into_iter().filter_map(target).collect())
}

/// Returns how long the moves take, with the measurements.
pub(super) async fn time(world: &World, planned: &[Planned]) -> Result<Value, DbError> {
    let number = |kind: MoveKind| planned.iter().filter(|planned| planned.kind == kind).count() as f64;
    time_of(&world.operations, number).await
}

/// Returns how long a running drain still takes for its servers that are pending or moving, with the measurements. The kinds of the moves to come
/// are taken to be those of the moves that it has begun; before the first there is no number of seconds. None if the drain begins no moves.
pub async fn time_left(operations: &Operations, drain: &Drain, counts: &Counts) -> Result<Option<Value>, DbError> {
    if drain.state != DrainState::Running {
        return Ok(None);
    }
    let count = |state: DrainServerState| counts.get(&state).copied().unwrap_or_default();
    let left = (count(DrainServerState::Pending) + count(DrainServerState::Moving)) as f64;
    let kinds = operations.drain_kinds(drain.id).await?;
    let all: i64 = kinds.iter().map(|(_, number)| number).sum();
    if all == 0 && left > 0.0 {
        return Ok(Some(json!({"seconds": null, "measured": []})));
    }
    let of_kind = |kind: MoveKind| kinds.iter().find(|(kinds, _)| *kinds == kind).map_or(0, |(_, number)| *number);
    time_of(operations, |kind| left * of_kind(kind) as f64 / all.max(1) as f64).await.map(Some)
}

/// Returns how long so many moves of each kind take. No number of seconds if a kind of move has not been measured yet.
async fn time_of(operations: &Operations, number: impl Fn(MoveKind) -> f64) -> Result<Value, DbError> {
    let (mut seconds, mut measured) = (Some(0.0), Vec::new());
    for kind in [MoveKind::Live, MoveKind::Cold] {
        let number = number(kind);
        if number <= 0.0 {
            continue;
        }
        let times = operations.last_times(operation(kind).as_str(), MEASURED).await?;
        let each = seconds_each(&times);
        seconds = seconds.zip(each).map(|(sum, each)| sum + each * number);
        measured.push(json!({"kind": kind, "moves": times.len(), "seconds_each": each.map(rounded)}));
    }
    Ok(json!({"seconds": seconds.map(rounded), "measured": measured}))
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// Returns the seconds per move while at least one was at work, so that moves at once count as quick ones. None without a move.
fn seconds_each(times: &[(DateTime<Utc>, DateTime<Utc>)]) -> Option<f64> {
    let mut times = times.to_vec();
    times.sort();
    let (mut busy, mut until) = (TimeDelta::zero(), DateTime::<Utc>::MIN_UTC);
    for (began, ended) in &times {
        busy += (*ended - until.max(*began)).max(TimeDelta::zero());
        until = until.max(*ended);
    }
    (!times.is_empty()).then(|| busy.as_seconds_f64() / times.len() as f64)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::db::api::operations::NewSaga;
    use crate::db::{Schema, fixture};
    use crate::domain::context::RequestContext;
    use crate::domain::drain::{Destination, DrainPlan, DrainServer};
    use crate::domain::saga_state::SagaState;

    #[test]
    fn moves_at_once_share_their_time() {
        let times = |pairs: &[(i64, i64)]| -> Vec<_> {
            let at = |second: i64| DateTime::UNIX_EPOCH + TimeDelta::seconds(second);
            pairs.iter().map(|(began, ended)| (at(*began), at(*ended))).collect()
        };
        assert_eq!(seconds_each(&[]), None);
        assert_eq!(seconds_each(&times(&[(0, 4)])), Some(4.0));
        assert_eq!(seconds_each(&times(&[(0, 4), (100, 104)])), Some(4.0), "the idle time between them does not count");
        assert_eq!(seconds_each(&times(&[(2, 6), (0, 4), (1, 3)])), Some(2.0), "six seconds for three");
    }

    const DRAIN: Uuid = Uuid::from_u128(1);
    const SAGA: Uuid = Uuid::from_u128(7);

    fn plan() -> DrainPlan {
        DrainPlan {
            cell: "cell1".into(),
            hosts: vec!["h1".into()],
            whole_cell: false,
            to: Destination::Cell("cell1".into()),
            flavors: BTreeMap::new(),
            max_in_flight: 1,
            confirm: false,
            confirm_others: false,
            may_leave_cell: false,
            caller: RequestContext::default(),
        }
    }

    /// A live migration that has ended well.
    async fn migrated(operations: &Operations) {
        let server = Uuid::from_u128(8);
        operations.begin(NewSaga::new(SAGA, server, (operation(MoveKind::Live).as_str(), 1), "accept", "{}".into(), "one")).await.unwrap();
        operations.append(fixture::end_of(SAGA, server, SagaState::Done)).await.unwrap();
    }

    #[tokio::test]
    async fn a_running_drain_tells_the_time_left() {
        for db in fixture::databases(Schema::Api) {
            let operations = Operations::new(db);
            operations.create_drain(DRAIN, plan()).await.unwrap();
            let lease = operations.lease_drain(DRAIN, "one", None).await.unwrap().expect("free");
            let servers = (11..14).map(|id| (Uuid::from_u128(id), "h1".to_owned())).collect();
            operations.add_drain_servers(lease, servers, Vec::new()).await.unwrap();
            let left = async || {
                let (drain, counts) = (operations.drain(DRAIN).await.unwrap().unwrap(), operations.drain_counts(DRAIN).await.unwrap());
                time_left(&operations, &drain, &counts).await.unwrap()
            };
            assert_eq!(left().await, Some(json!({"seconds": null, "measured": []})), "no move has begun");
            let first = operations.drain_servers(DRAIN, None, None, 9).await.unwrap().remove(0);
            let moved = DrainServer { state: DrainServerState::Moved, kind: Some(MoveKind::Live), ..first };
            operations.write_drain_server(lease, moved).await.unwrap();
            let unmeasured = left().await.unwrap();
            assert_eq!((&unmeasured["seconds"], &unmeasured["measured"][0]["moves"]), (&Value::Null, &json!(0)));
            migrated(&operations).await;
            let time = left().await.unwrap();
            let (seconds, each) = (time["seconds"].as_f64().unwrap(), time["measured"][0]["seconds_each"].as_f64().unwrap());
            assert!(each > 0.0 && (seconds - 2.0 * each).abs() < 0.02, "two servers are left: {time}");
            operations.change_drain(DRAIN, &[DrainState::Running], DrainState::Paused).await.unwrap();
            assert_eq!(left().await, None);
        }
    }
}
