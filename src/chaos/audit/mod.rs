//! The audit (docs/INVARIANTS.md): reads all databases, services and hosts, and says which invariants do not hold. Each test and experiment
//! ends with it, and operators run it as `cellshift audit`.
//!
//! `collect` reads the world once into a `Snapshot`; each rule is a pure function of it, one file per subject. For a server that an
//! operation holds only the rules marked "always" apply. A debt explains violations of its part of the server. A silent part is named and
//! not checked. I7, I10, I18 and the memory of a failed move (I5, I6) cannot be seen at rest: tests check them by repeating and killing.

mod allocations;
mod bytes;
mod collect;
mod deep;
mod disks;
mod explanations;
#[cfg(test)]
mod fixture;
mod forced;
mod functions;
mod groups;
mod guests;
mod images;
pub mod journal;
mod names;
mod port_allocations;
mod ports;
mod providers;
mod records;
mod report;
mod snapshot;
mod usage;
mod volumes;

pub use collect::{Sources, collect};
pub use deep::{Counter, Progress};
pub use names::Names;
pub use report::{Checked, Report, StandingDebt, Violation};
pub use snapshot::Snapshot;

use crate::db::DbError;
use crate::saga::world::World;

/// The invariants that can be seen in a world at rest.
const SEEN: &[&str] = &["I1", "I2", "I3", "I4", "I5", "I8", "I9", "I11", "I12", "I13", "I14", "I15", "I16", "I17", "I19", "I20"];

/// Audits a running service. Fails if the API database is silent, because nothing is known of any server without it.
pub async fn audit(world: &World) -> Result<Report, DbError> {
    audit_of(&Sources::of(world)).await
}

/// Audits these sources.
pub async fn audit_of(sources: &Sources<'_>) -> Result<Report, DbError> {
    Ok(judge(&collect(sources).await?))
}

/// Audits a running service and reads all bytes.
pub async fn thorough_audit(world: &World) -> Result<Report, DbError> {
    deep_audit(&Sources::of(world), &Counter::default()).await
}

/// Audits these sources and reads all bytes that have a checksum. The disks determine the time.
pub async fn deep_audit(sources: &Sources<'_>, counter: &Counter) -> Result<Report, DbError> {
    Ok(deepen(sources, collect(sources).await?, counter).await)
}

/// Reads the bytes of a snapshot's files, and applies the rules.
pub async fn deepen(sources: &Sources<'_>, mut snapshot: Snapshot, counter: &Counter) -> Report {
    deep::read(sources, &mut snapshot, counter).await;
    judge(&snapshot)
}

/// Applies all rules.
pub fn judge(snapshot: &Snapshot) -> Report {
    let rules: [fn(&Snapshot) -> Vec<Violation>; 15] = [
        guests::check,
        records::check,
        allocations::check,
        ports::check,
        port_allocations::check,
        functions::check,
        providers::check,
        volumes::check,
        images::check,
        journal::check,
        usage::check,
        disks::check,
        bytes::check,
        groups::check,
        forced::check,
    ];
    Report::new(snapshot, rules.iter().flat_map(|rule| rule(snapshot)).collect(), SEEN)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_forced;
#[cfg(test)]
mod tests_of_ports;
#[cfg(test)]
mod tests_of_shelved;
