//! Stories over a cluster: a controller, agents and NATS servers as processes of their own on loopback, which are killed, stood still, cut
//! off and started again in the middle of moves between the cells. The operators' API, the histories of clients and the audit judge them.

mod command;
mod enrolment;
#[path = "../it/killed/history.rs"]
mod history;
mod other_agent;
#[path = "../it/small_disk.rs"]
mod small_disk;
mod stage;
mod stories;
mod witness;
