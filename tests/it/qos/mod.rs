//! Servers whose ports have guaranteed bandwidth and packet rates: who holds what of which network, at each moment of each operation.

mod acceptance;
mod agents;
mod failures;
mod functions;
mod groups;
mod healing;
mod moves;
pub mod networks;
mod old_form;
mod lost_ports;
mod policies;
mod refusals;
