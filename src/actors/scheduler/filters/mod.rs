//! Filters: each says of one host whether it will do. To add one, write a file and a row in [`FILTERS`].

pub mod aggregate_instance_extra_specs;
pub mod availability_zone;
pub mod cell_enabled;
pub mod compute;
pub mod extra_specs_ops;
pub mod forbidden_traits;
pub mod server_group;
pub mod source_host;
#[cfg(test)]
mod tests;

use super::config::{ConfigError, SchedulerConfig};
use super::host_state::HostState;
use super::request::{Reason, Request};

/// One rule on hosts. Room is not a filter's business: placement has answered only hosts with room.
pub trait HostFilter: Send + Sync {
    /// The name in the configuration and in "no valid host" sentences.
    fn name(&self) -> &'static str;

    /// Whether the host will do; if not, why.
    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason>;

    /// True when it judges a host that an administrator forced at creation too: without it the server could not run
    /// there or would not be where it says.
    fn judges_forced_host(&self) -> bool {
        false
    }
}

/// Makes a filter from the configuration.
pub type MakeFilter = fn(&SchedulerConfig) -> Box<dyn HostFilter>;

/// Every filter, in the order in which they are used unless configured otherwise: cheap and telling ones first.
pub const FILTERS: &[(&str, MakeFilter)] = &[
    ("ComputeFilter", |_| Box::new(compute::ComputeFilter)),
    ("CellEnabledFilter", |_| Box::new(cell_enabled::CellEnabledFilter)),
    ("SourceHostFilter", |_| Box::new(source_host::SourceHostFilter)),
    ("AvailabilityZoneFilter", |config| Box::new(availability_zone::AvailabilityZoneFilter::new(config))),
    ("AggregateInstanceExtraSpecsFilter", |_| Box::new(aggregate_instance_extra_specs::AggregateInstanceExtraSpecsFilter)),
    ("ForbiddenTraitsFilter", |_| Box::new(forbidden_traits::ForbiddenTraitsFilter)),
    ("ServerGroupAntiAffinityFilter", |_| Box::new(server_group::ServerGroupAntiAffinityFilter)),
    ("ServerGroupAffinityFilter", |_| Box::new(server_group::ServerGroupAffinityFilter)),
];

/// The configured filters.
pub fn enabled(config: &SchedulerConfig) -> Result<Vec<Box<dyn HostFilter>>, ConfigError> {
    let make = |name: &String| match FILTERS.iter().find(|(known, _)| known == name) {
        Some((_, make)) => Ok(make(config)),
        None => {
            let known = FILTERS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(ConfigError::UnknownName { option: "filters", name: name.clone(), known })
        }
    };
    config.filters.iter().map(make).collect()
}
