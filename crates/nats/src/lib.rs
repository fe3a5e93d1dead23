//! The link between controllers and compute hosts over NATS. NATS carries messages, not truth: it may lose a message or deliver it late,
//! and a sender that gets no reply knows nothing. Fences, remembered replies and repeated reports make that harmless.
//!
//! - [`subjects`] has the names of all subjects, and the names that cells and hosts may have.
//! - [`Connection`] is the connection of one process to the NATS of one cell. It reconnects by itself, for ever.
//! - [`NatsLink`] is a controller's end of the link to one host (`cellshift_host::link::HostLink`). It says *not delivered* at once while
//!   there is no connection or no agent, and *unknown* when no reply came.
//! - [`HostServer`] is the host's end: it hands messages to a `cellshift_host::link::HostEnd`, says hello and reports the host's state
//!   again and again, asks controllers ([`ToControllers`]), and says goodbye.
//! - [`Controllers`] receives hellos, reports and questions of all hosts of a cell.
//! - [`config`] writes the configuration of a cell's NATS server, and [`credentials`] makes the key of each of its users.
//!
//! An agent's process has a life, a new id at each start, and the life is a part of its subjects. NATS gives two agents of one name every
//! message; with the life in the subject, requests reach the agent that the controllers have accepted, and nobody else.

pub mod config;
mod connection;
mod controllers;
pub mod credentials;
mod freshness;
mod link;
mod presence;
mod promise;
mod questions;
mod requests;
mod server;
pub mod subjects;
#[cfg(feature = "testkit")]
pub mod testkit;
mod wire;

pub use connection::{Connection, ConnectionError, ConnectionOptions, ConnectionState, Unanswered};
pub use controllers::{Acceptance, Answers, Arrivals, CellDesk, Controllers};
pub use link::{NatsLink, Silence};
pub use presence::{Admission, Hello, HostFacts, LastWord, Place, Presence, Rhythm, Welcome};
pub use questions::ToControllers;
pub use server::{HostServer, Quiet};
pub use subjects::{CellAddress, HostAddress, Life, Name, NameError};
pub use wire::{MESSAGE_MAX, PROTOCOL, RELEASE};
