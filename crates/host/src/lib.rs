//! A compute host of cellshift: it obeys a controller's requests about guests, and answers its queries.
//!
//! - A request carries a fence. Each server has a lane on the host (`lanes`): the lane refuses a request that a higher fence has overtaken,
//!   answers a repeated one with the remembered reply, and lets the others wait for each other. `memory` keeps fences, claims and replies on
//!   the disk, so they hold after a restart.
//! - [`Host`] takes a request through its lane (`host`). The work is in `commands`, `rescue`, `guest_commands`, `live` (live migration) and
//!   `transfer` (disks between hosts; `copies` reads and writes them). `key` opens the secrets that controllers have sealed for this host.
//!   `report` answers queries (`pages` the long ones), and `contents` compares disks with the
//!   record of what their guests wrote.
//! - [`virt`] has the drivers' trait [`virt::Hypervisor`], the simulated driver, which keeps guests as files, and [`virt::Hosts`], by which a
//!   controller reaches hosts.
//!
//! A host knows its own cell only, and uses no database. It needs two things: a [`HostSite`] with its driver, and the way [`Upward`] to the
//! images that it reads and writes, the ports that it plugs, and the word whether it may start a guest that it lost with its power.
//! With these, [`Host::start`] makes one incarnation of a host: it obeys requests and answers queries as the end of a link
//! ([`link::HostEnd`]), and [`Host::keep_up`] runs beside them. It has no mailbox and no server of its own; the program that starts it brings
//! both.
//!
//! [`link`] is the way between controllers and a host, whatever carries the messages. `asks` keeps queries that act from acting twice, and
//! `trials` are what tests, experiments and the demo do to a host that allows it.
//!
//! Requests, replies and queries are the plain values of `cellshift_domain::host_protocol`.

mod asks;
mod belonging;
mod commands;
mod contents;
mod copies;
mod drivers;
mod end;
mod first_boot;
mod guest_commands;
mod host;
mod key;
mod lanes;
pub mod link;
mod live;
mod memory;
mod options;
mod pages;
mod report;
mod rescue;
mod site;
mod stored;
#[cfg(test)]
mod tests;
mod transfer;
mod trials;
mod upkeep;
mod upward;
pub mod virt;

pub use drivers::{HypervisorFactory, of_deployment, simulated_hypervisors};
pub use host::{Host, HostParts};
pub use live::LiveOptions;
pub use options::HostOptions;
pub use site::{HostPlace, HostSite, TRANSFER_AREA};
pub use stored::StoredHosts;
pub use upward::Upward;
