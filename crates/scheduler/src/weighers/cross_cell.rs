//! Prefers the server's cell, or other cells if the multiplier is negative (INVARIANTS C6).

use super::{HostState, HostWeigher, Request, SchedulerConfig};

/// +1 in the preferred cell, -1 in another one; 0 if the request prefers none.
pub struct CrossCellWeigher;

impl HostWeigher for CrossCellWeigher {
    fn name(&self) -> &'static str {
        "CrossCellWeigher"
    }

    fn weigh(&self, host: &HostState, request: &Request) -> f64 {
        match request.preferred_cell() {
            None => 0.0,
            Some(cell) if cell == host.cell.name => 1.0,
            Some(_) => -1.0,
        }
    }

    fn multiplier_option(&self) -> &'static str {
        "cross_cell_move_weight_multiplier"
    }

    fn multiplier(&self, config: &SchedulerConfig) -> f64 {
        config.cross_cell_move_weight_multiplier
    }
}
