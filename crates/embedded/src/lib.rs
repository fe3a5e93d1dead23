//! The five services that a compute control plane needs around it, for a deployment that has no others: identity, image, network, volume and
//! placement. Each keeps all its records in the services database, its bytes in a folder, and serves the API of its OpenStack counterpart.
//!
//! - [`identity`], [`image`], [`network`], [`volume`] and [`placement`] each have one folder per resource: its rules in `mod.rs`, its row and
//!   statements in `records.rs`, its routes and bodies in `routes.rs`. The services share no table; [`MIGRATIONS`] makes all. `EmbeddedImage`
//!   and its like implement the traits of `cellshift-neighbours`, by which sagas, the scheduler and hosts reach a service in the same process.
//! - `resource` has the calls that resources have alike. [`apis`] describes the APIs to the door of `cellshift-web`, and [`request_bodies`] the
//!   bodies that they read. `of` reads the rows that have some keys.
//! - [`transaction`] gives a refusal in a transaction back as the service's own error. [`bytes_on_disk`] writes and reads the bytes of images and
//!   volumes, [`stored_bytes`] compares them with their records, and [`lost_and_found`] keeps files without a record.
//!
//! Nothing here knows servers, cells or sagas but by the ids and fences that callers bring. What the network API shows of hosts is given to it
//! as [`network::agents::AgentHosts`].

#![forbid(unsafe_code)]

pub mod apis;
pub mod bytes_on_disk;
pub mod identity;
pub mod image;
pub mod lost_and_found;
mod migrations;
pub mod network;
mod of;
pub mod placement;
mod proxies;
pub mod request_bodies;
mod resource;
pub mod stored_bytes;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod transaction;
pub mod volume;

pub use cellshift_neighbours::ServiceError;
pub use migrations::MIGRATIONS;
