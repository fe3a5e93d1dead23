//! The placement service: the built-in names, and the embedded implementation of [`PlacementService`].

mod embedded;
pub mod names;

pub use cellshift_neighbours::placement::{
    AggregateId, Allocations, ChildProvider, HostDemand, Inventory, Offer, PlacementService, ProjectAllocation, Provider, ReportedTree,
    candidates, port_groups, tree,
};
pub(crate) use embedded::within;
pub use embedded::{EmbeddedPlacement, HeldOfProvider, Identity, Put, Reshaped, Usage};

/// The maximum amount of one class in an inventory or an allocation, and the bound of an inventory's units.
pub const AMOUNT_MAX: i64 = i32::MAX as i64;
/// The maximum allocation ratio: the largest number in single precision.
pub const RATIO_MAX: f64 = 3.40282e38;
/// The consumer type of allocations that a client made before consumers had types (placement 1.38).
pub const UNTYPED: &str = "unknown";
