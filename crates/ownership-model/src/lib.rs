//! Checks the rules by which one of two hosts may run a server's guest (INVARIANTS S3, S4 and S11). The model has one server, two hosts and two
//! conductors, of which one may have lost its lease unnoticed. Messages are lost, late, doubled and reordered; hosts are cut off, lose their power,
//! and come back. [`explore()`] visits every state within the bounds, and tells by which events a promise is broken.
//!
//! A rule that is left out shows what it is for: `tests/promises.rs` has the trace of each.

mod cases;
mod conductors;
mod events;
mod explore;
mod hosts;
mod setting;
mod world;

pub use cases::{Case, of_release, without_a_word, without_guards};
pub use events::Event;
pub use explore::{Breach, Explored, Promise, explore};
pub use setting::{Bounds, Guard, Operator, Setting, WhoIsOff};
pub use world::{Command, Guest, Kind, Place, Reply, Way, World};
