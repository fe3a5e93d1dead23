//! Chaos experiments: what a file says (`scenario`, `fault`, `journey`; `check` refuses what makes no sense), how its faults are made to
//! happen (`plan` at the steps of sagas, `post` between controllers and hosts, `injector` everywhere else), and what is told of it
//! afterwards (`record`, `verdict`, `text`, `html`). The simulation, a live run and a running service (`service`) use the same parts.

pub mod check;
pub mod draw;
pub mod fault;
pub mod html;
pub mod injector;
pub mod journey;
pub mod plan;
pub mod post;
pub mod random;
pub mod record;
pub mod scenario;
pub mod service;
pub mod text;
pub mod verdict;

use crate::chaos::point::Point;
use crate::domain::fence::Fence;

/// Who is told of a run while it goes on, and looks at every step.
pub trait Witness: Send + Sync {
    /// Milliseconds since the beginning.
    fn elapsed_ms(&self) -> u64;

    /// One line of all that happens.
    fn note(&self, line: String);

    /// One line that whoever waits for the run should see at once.
    fn tell(&self, line: String) {
        self.note(line);
    }

    /// A saga is at this point.
    fn step(&self, _point: &Point<'_>) {}

    /// A request has reached its host.
    fn delivered(&self, _host: &str, _fence: Fence) {}
}

/// An id as short as a reader needs it.
pub fn short(id: uuid::Uuid) -> String {
    let mut text = id.simple().to_string();
    text.truncate(8);
    text
}
