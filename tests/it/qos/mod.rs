//! Servers whose ports have guaranteed bandwidth and packet rates: who holds what of which network, at each moment of each operation.

mod acceptance;
mod agents;
mod bad_input;
mod deletes;
mod failures;
mod functions;
mod groups;
mod heal_command;
mod healing;
mod lost_ports;
mod moves;
pub mod networks;
mod old_form;
mod policies;
mod refusals;
