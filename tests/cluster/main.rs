//! Stories over a cluster: a controller, agents and NATS servers as processes of their own on loopback, which are killed, stood still and
//! started again in the middle of moves between the cells. The operators' API and the audit judge them.

mod command;
mod enrolment;
mod experiments;
mod stage;
mod stories;
