//! The choice of a host for a server, as plain functions (INVARIANTS C1 to C10). Whoever calls them has read the hosts, asks placement for
//! room and claims the choice; nothing here waits, reads or writes.
//!
//! - A [`request::Request`] is a demand with the records that were looked up for it. A [`host_state::HostState`] is a host at the moment of
//!   the decision, with the [`Offer`](cellshift_neighbours::placement::Offer) that placement made for it.
//! - [`decision::Rules`] are the configured [`filters`] and [`weighers`]. [`selection`] drops the hosts that do not pass and keeps the reasons;
//!   [`port_providers`] says what a host's network gives to the server's ports; [`decision::Contest`] orders those that are left and names the best
//!   with its alternates, until one can be claimed.
//! - Decisions that are made at once count each other's choices ([`assumed`]), which are not in placement yet.
//! - [`explain`] judges every host and gives all reasons and weights instead of a choice.
//!
//! A new filter is a file in `filters/` and a row in [`filters::FILTERS`]; a new weigher likewise.

#![forbid(unsafe_code)]

pub mod assumed;
pub mod config;
pub mod decision;
pub mod explain;
pub mod filters;
mod free_functions;
pub mod host_state;
pub mod port_providers;
pub mod request;
pub mod selection;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod weighers;
