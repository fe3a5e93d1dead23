//! The invariant audit (docs/INVARIANTS.md): one function over all databases, services and hosts that says which invariants do not
//! hold. It ends every test and experiment, and operators run it as `cellshift audit`.
//!
//! `collect` reads the world once into a `Snapshot`; each rule is a pure function of that, one file per subject. A server
//! that an operation holds is judged only by what must hold at every instant; what a recorded debt explains is no violation;
//! what does not answer is named and nothing is said about it. I7, I10 and I18 (and what a failed move was before, I5 and I6)
//! cannot be seen in a world at rest: the harness checks them by running things twice and by killing them.

mod allocations;
mod bytes;
mod collect;
mod deep;
mod disks;
mod explanations;
#[cfg(test)]
mod fixture;
mod guests;
mod images;
pub mod journal;
mod ports;
mod records;
mod report;
mod snapshot;
mod usage;
mod volumes;

pub use collect::{Sources, collect};
pub use deep::{Counter, Progress};
pub use report::{Checked, Report, StandingDebt, Violation};
pub use snapshot::Snapshot;

use crate::db::DbError;
use crate::saga::world::World;

/// The invariants that a world at rest shows.
const SEEN: &[&str] = &["I1", "I2", "I3", "I4", "I5", "I8", "I9", "I11", "I12", "I13", "I14", "I15", "I16", "I17"];

/// Audits a running service's world. The API database must answer: without it nothing is known of any server.
pub async fn audit(world: &World) -> Result<Report, DbError> {
    audit_of(&Sources::of(world)).await
}

/// Audits whatever the sources lead to.
pub async fn audit_of(sources: &Sources<'_>) -> Result<Report, DbError> {
    Ok(judge(&collect(sources).await?))
}

/// Audits a running service's world, every byte included.
pub async fn thorough_audit(world: &World) -> Result<Report, DbError> {
    deep_audit(&Sources::of(world), &Counter::default()).await
}

/// Audits whatever the sources lead to, and reads every byte of which it is known what was written. Takes as long as the disks need.
pub async fn deep_audit(sources: &Sources<'_>, counter: &Counter) -> Result<Report, DbError> {
    Ok(deepen(sources, collect(sources).await?, counter).await)
}

/// Reads the bytes of what a snapshot says is there, and judges.
pub async fn deepen(sources: &Sources<'_>, mut snapshot: Snapshot, counter: &Counter) -> Report {
    deep::read(sources, &mut snapshot, counter).await;
    judge(&snapshot)
}

/// Applies every rule.
pub fn judge(snapshot: &Snapshot) -> Report {
    let rules: [fn(&Snapshot) -> Vec<Violation>; 10] = [
        guests::check,
        records::check,
        allocations::check,
        ports::check,
        volumes::check,
        images::check,
        journal::check,
        usage::check,
        disks::check,
        bytes::check,
    ];
    Report::new(snapshot, rules.iter().flat_map(|rule| rule(snapshot)).collect(), SEEN)
}

#[cfg(test)]
mod tests;
