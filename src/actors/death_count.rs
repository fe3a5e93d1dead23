//! The metrics of actors' deaths, by the kind of the actor.

use std::sync::Arc;

use super::root::{AGENTS, HOSTS_HERE};
use super::supervision::DeathCount;
use crate::metrics::Metrics;

/// Counts deaths in the metrics of the service.
pub struct DeathsByKind(pub Arc<Metrics>);

impl DeathCount for DeathsByKind {
    fn restarted(&self, path: &str) {
        self.0.actor_restarted(kind_of(path));
    }

    fn given_up(&self, path: &str) {
        self.0.actor_given_up(kind_of(path));
    }
}

/// Returns the kind of the actor at a path, for metrics, which must not name hosts or sagas.
fn kind_of(path: &str) -> &'static str {
    const CHILDREN_OF_ROOT: [&str; 6] = ["conductor", "scheduler", "notifier", "periodic", HOSTS_HERE, AGENTS];
    let first = path.split(['/', '-']).next().unwrap_or_default();
    match CHILDREN_OF_ROOT.into_iter().find(|kind| *kind == first) {
        _ if path.contains("migration/") => "migration",
        Some(kind) => kind,
        None if path.contains('/') => "host",
        None => "cell",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_the_kind_of_its_actor() {
        let paths =
            ["migration/1-2", "conductor-2/migration/1-2", "conductor-2", "periodic", "cell1/h1", "hosts/cell1", "agents/cell1", "cell1"];
        let kinds = paths.map(kind_of);
        assert_eq!(kinds, ["migration", "migration", "conductor", "periodic", "host", "hosts", "agents", "cell"]);
    }
}
