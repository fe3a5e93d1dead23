//! Filters: each says whether a host is suitable. A new filter is a file and a row in [`FILTERS`].

pub mod aggregate_instance_extra_specs;
pub mod availability_zone;
pub mod cell_enabled;
pub mod compute;
pub mod compute_capabilities;
pub mod extra_specs_ops;
pub mod forbidden_traits;
pub mod image_properties;
pub mod json;
pub mod named_servers;
pub mod server_group;
pub mod simple_cidr_affinity;
pub mod source_host;
#[cfg(test)]
mod tests;

use super::config::{ConfigError, SchedulerConfig};
use super::host_state::HostState;
use super::request::Request;
use cellshift_domain::reason::Reason;

/// A rule for hosts. Room needs no filter: placement returns only hosts with room.
pub trait HostFilter: Send + Sync {
    /// The name in the configuration and in "no valid host" messages.
    fn name(&self) -> &'static str;

    /// Returns `Err` with the reason if the host is not suitable.
    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason>;

    /// True if the filter also judges a host that an administrator forced at creation: otherwise the server could not run there, or would
    /// not be where its record says.
    fn judges_forced_host(&self) -> bool {
        false
    }
}

/// Makes a filter from the configuration.
pub type MakeFilter = fn(&SchedulerConfig) -> Box<dyn HostFilter>;

/// All filters.
pub const FILTERS: &[(&str, MakeFilter)] = &[
    ("ComputeFilter", |_| Box::new(compute::ComputeFilter)),
    ("CellEnabledFilter", |_| Box::new(cell_enabled::CellEnabledFilter)),
    ("SourceHostFilter", |_| Box::new(source_host::SourceHostFilter)),
    ("AvailabilityZoneFilter", |_| Box::new(availability_zone::AvailabilityZoneFilter)),
    ("AggregateInstanceExtraSpecsFilter", |_| Box::new(aggregate_instance_extra_specs::AggregateInstanceExtraSpecsFilter)),
    ("ComputeCapabilitiesFilter", |_| Box::new(compute_capabilities::ComputeCapabilitiesFilter)),
    ("ImagePropertiesFilter", |_| Box::new(image_properties::ImagePropertiesFilter)),
    ("ForbiddenTraitsFilter", |_| Box::new(forbidden_traits::ForbiddenTraitsFilter)),
    ("ServerGroupAntiAffinityFilter", |_| Box::new(server_group::ServerGroupAntiAffinityFilter)),
    ("ServerGroupAffinityFilter", |_| Box::new(server_group::ServerGroupAffinityFilter)),
    ("SameHostFilter", |_| Box::new(named_servers::SameHostFilter)),
    ("DifferentHostFilter", |_| Box::new(named_servers::DifferentHostFilter)),
    ("SimpleCIDRAffinityFilter", |_| Box::new(simple_cidr_affinity::SimpleCidrAffinityFilter)),
    ("JsonFilter", |_| Box::new(json::JsonFilter)),
];

/// The default filters, in this order: cheap and selective ones first. The others are optional, because users could learn properties of
/// hosts by asking for hosts with a property until one is found.
pub const DEFAULT: [&str; 12] = [
    "ComputeFilter",
    "CellEnabledFilter",
    "SourceHostFilter",
    "AvailabilityZoneFilter",
    "AggregateInstanceExtraSpecsFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ForbiddenTraitsFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "SameHostFilter",
    "DifferentHostFilter",
];

/// Makes the configured filters.
pub fn enabled(config: &SchedulerConfig) -> Result<Vec<Box<dyn HostFilter>>, ConfigError> {
    let make = |name: &String| match FILTERS.iter().find(|(entry, _)| entry == name) {
        Some((_, make)) => Ok(make(config)),
        None => {
            let names = FILTERS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(ConfigError::UnknownName { option: "enabled_filters", name: name.clone(), names })
        }
    };
    config.enabled_filters.iter().map(make).collect()
}
