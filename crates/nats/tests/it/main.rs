//! The link between controllers and hosts over a real NATS server, with its faults: the server ends and comes back, the network is cut and
//! heals, agents come twice, and messages cannot be read. Each test has a server of its own (Debian's package `nats-server`).

mod cell;
mod link;
mod outages;
mod presence;
mod questions;
mod rights;
mod scripted;
mod suite;
