//! The five services that a compute control plane needs around it, for a deployment that has no others: identity, image, network, volume and
//! placement. Each keeps all its records in the services database, its bytes in a folder, and serves the API of its OpenStack counterpart.
//!
//! - [`identity`], [`image`], [`network`], [`volume`] and [`placement`] have the rules. `EmbeddedImage` and its like implement the traits of
//!   `cellshift-neighbours`, by which sagas, the scheduler and hosts reach a service in the same process.
//! - `records` has the tables, one folder or file per service, and [`MIGRATIONS`] makes them. The services share no table.
//! - [`routes`] has the APIs over HTTP, one folder per service and one file per resource, for the door of `cellshift-web`.
//! - [`transaction`] gives a refusal in a transaction back as the service's own error. [`bytes_on_disk`] writes and reads the bytes of images and
//!   volumes, [`stored_bytes`] compares them with their records, and [`lost_and_found`] keeps files without a record.
//!
//! Nothing here knows servers, cells or sagas but by the ids and fences that callers bring. What the network API shows of hosts is given to it
//! as [`network::agents::AgentHosts`].

#![forbid(unsafe_code)]

pub mod bytes_on_disk;
pub mod identity;
pub mod image;
pub mod lost_and_found;
pub mod network;
pub mod placement;
mod records;
pub mod routes;
pub mod stored_bytes;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod transaction;
pub mod volume;

pub use cellshift_neighbours::ServiceError;
pub use records::MIGRATIONS;
