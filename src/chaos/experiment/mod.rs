//! Chaos experiments: the file (`scenario`, `fault`, `journey`, checked by `check`), the making of its faults (`plan` at steps, `host_network`
//! between controllers and hosts, `injector` elsewhere), and the results (`record`, `verdict`, `text`, `html`). The simulation, a live run
//! and a running service (`service`) share these parts. `shipped` has the files that come with the program.

pub mod check;
pub mod draw;
pub mod fault;
pub mod host_network;
pub mod html;
pub mod injector;
pub mod journey;
pub mod plan;
pub mod record;
pub mod scenario;
pub mod service;
pub mod shipped;
pub mod text;
pub mod verdict;

use crate::chaos::point::Point;
use crate::domain::fence::Fence;

/// Observes a run and each of its steps.
pub trait Witness: Send + Sync {
    /// Returns the milliseconds since the beginning.
    fn elapsed_ms(&self) -> u64;

    /// Records a line about an event.
    fn note(&self, line: String);

    /// Records a line that a watcher should see at once.
    fn tell(&self, line: String) {
        self.note(line);
    }

    /// Called at each point of a saga.
    fn step(&self, _point: &Point<'_>) {}

    /// Called when a request has reached its host.
    fn delivered(&self, _host: &str, _fence: Fence) {}
}

/// Shortens an id for readers.
pub fn short(id: uuid::Uuid) -> String {
    let mut text = id.simple().to_string();
    text.truncate(8);
    text
}
