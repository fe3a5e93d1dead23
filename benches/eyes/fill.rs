//! Counts every event that a long life of the service would have met, so that a scrape is as long as it can become.

use std::time::Duration;

use cellshift::metrics::{CallKind, Metrics};
use cellshift::saga::machine::{Event, Side};
use cellshift::saga::tables;

/// With three methods each, the APIs have about as many routes.
const ROUTES: usize = 220;
/// The methods and statuses with which each route was asked.
const REQUESTS: [(&str, u16); 6] = [("GET", 200), ("GET", 404), ("POST", 202), ("POST", 409), ("DELETE", 204), ("GET", 503)];
/// The largest number of cells that a configuration may ask for.
const CELLS: usize = 100;

/// Counts all of it.
pub fn fill(metrics: &Metrics) {
    let took = Duration::from_millis(7);
    for route in 0..ROUTES {
        for (method, status) in REQUESTS {
            metrics.request_ended(Some(&format!("/compute/v2.1/resource-{route}/{{id}}/part")), method, status, took);
        }
    }
    for (kind, table) in tables::ALL {
        for end in ["done", "unwound"] {
            metrics.operation_ended(kind, end, took);
        }
        for step in table.steps {
            for (side, outcome) in
                [(Side::Act, Event::Ok), (Side::Act, Event::Failed), (Side::Act, Event::Unknown), (Side::Undo, Event::Ok)]
            {
                metrics.step([kind, step.name.as_str(), side.as_str(), outcome.as_str()], took);
            }
        }
    }
    // Beside the cloud's own cells, whose hosts stay as they are told.
    for cell in (0..CELLS).map(|number| format!("another-cell{number}")) {
        metrics.cell_is(&cell, true);
        metrics.cell_failed(&cell);
        metrics.heartbeat(&cell, (0, 0), None);
        let database = metrics.database(&cell).expect("metrics");
        for kind in [CallKind::Read, CallKind::Write] {
            for error in [None, Some("unavailable"), Some("stale"), Some("conflict")] {
                database.ended(kind, error, took);
            }
        }
        metrics.commits(&cell).note();
    }
}
