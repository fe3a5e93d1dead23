//! The outlook of planned moves: how full their hosts will be, and how long they take, as measured by the last moves.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use crate::db::DbError;
use crate::domain::drain::MoveKind;
use crate::domain::flavor::Resources;
use crate::saga::context::Kind;
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

/// Returns how long the moves take, with the measurements. No number of seconds if a kind of move has not been measured yet.
pub(super) async fn time(world: &World, planned: &[Planned]) -> Result<Value, DbError> {
    let (mut seconds, mut measured) = (Some(0.0), Vec::new());
    for (kind, saga) in [(MoveKind::Live, Kind::LiveMigrate), (MoveKind::Cold, Kind::Resize)] {
        let number = planned.iter().filter(|one| one.kind == kind).count();
        if number == 0 {
            continue;
        }
        let times = world.operations.last_times(saga.as_str(), MEASURED).await?;
        let each = seconds_each(&times);
        seconds = seconds.zip(each).map(|(sum, each)| sum + each * number as f64);
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
    use super::*;

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
}
