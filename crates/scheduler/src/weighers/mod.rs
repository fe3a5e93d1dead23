//! Weighers: each gives a number to every host that passed the filters, and together they order the hosts. A new weigher is a file and a
//! row in [`WEIGHERS`].

pub mod cross_cell;
pub mod free_resources;
pub mod io_ops;
pub mod soft_group;
#[cfg(test)]
mod tests;

use super::config::{ConfigError, SchedulerConfig};
use super::host_state::HostState;
use super::request::Request;
use cellshift_env::random::Random;

/// A preference among hosts.
pub trait HostWeigher: Send + Sync {
    /// The name in the configuration and in explanations.
    fn name(&self) -> &'static str;

    /// Returns the amount of what is preferred, in any unit. It is scaled to 0..1 over the candidates.
    fn weigh(&self, host: &HostState, request: &Request) -> f64;

    /// The option with the preference's multiplier. Aggregate metadata under this key overrides it per host.
    fn multiplier_option(&self) -> &'static str;

    /// The option's value.
    fn multiplier(&self, config: &SchedulerConfig) -> f64;
}

/// Makes a type a weigher: the option with its multiplier, and what it weighs.
macro_rules! weigher {
    ($weigher:ident by $multiplier:ident: |$host:ident, $request:pat_param| $weight:expr) => {
        impl $crate::weighers::HostWeigher for $weigher {
            fn name(&self) -> &'static str {
                stringify!($weigher)
            }

            fn weigh(&self, $host: &$crate::host_state::HostState, $request: &$crate::request::Request) -> f64 {
                $weight
            }

            fn multiplier_option(&self) -> &'static str {
                stringify!($multiplier)
            }

            fn multiplier(&self, config: &$crate::config::SchedulerConfig) -> f64 {
                config.$multiplier
            }
        }
    };
}
use weigher;

/// A weigher's constructor.
pub type MakeWeigher = fn() -> Box<dyn HostWeigher>;

/// All weighers. All are used unless configured otherwise.
pub const WEIGHERS: &[(&str, MakeWeigher)] = &[
    ("CrossCellWeigher", || Box::new(cross_cell::CrossCellWeigher)),
    ("RAMWeigher", || Box::new(free_resources::RAMWeigher)),
    ("CPUWeigher", || Box::new(free_resources::CPUWeigher)),
    ("DiskWeigher", || Box::new(free_resources::DiskWeigher)),
    ("IoOpsWeigher", || Box::new(io_ops::IoOpsWeigher)),
    ("ServerGroupSoftAffinityWeigher", || Box::new(soft_group::ServerGroupSoftAffinityWeigher)),
    ("ServerGroupSoftAntiAffinityWeigher", || Box::new(soft_group::ServerGroupSoftAntiAffinityWeigher)),
];

/// Makes the configured weighers.
pub fn enabled(config: &SchedulerConfig) -> Result<Vec<Box<dyn HostWeigher>>, ConfigError> {
    let make = |name: &String| match WEIGHERS.iter().find(|(entry, _)| entry == name) {
        Some((_, make)) => Ok(make()),
        None => {
            let names = WEIGHERS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(ConfigError::UnknownName { option: "weighers", name: name.clone(), names })
        }
    };
    config.weighers.iter().map(make).collect()
}

/// Returns the hosts' places in the order in which they are tried: by the sum of scaled weights times multipliers. The best of the same sum
/// come in random order and all others by name, unless configured otherwise. With a `host_subset_size` the first is one of the best so many.
pub fn order(
    hosts: &[HostState],
    request: &Request,
    weighers: &[Box<dyn HostWeigher>],
    config: &SchedulerConfig,
    random: &mut Random,
) -> Vec<usize> {
    let sums: Vec<f64> = weights(hosts, request, weighers, config).into_iter().map(|parts| parts.iter().sum()).collect();
    let mut order: Vec<usize> = (0..hosts.len()).collect();
    order.sort_by(|a, b| sums[*b].total_cmp(&sums[*a]).then_with(|| hosts[*a].name().cmp(hosts[*b].name())));
    if config.shuffle_best_same_weighed_hosts {
        let best = order.iter().take_while(|place| sums[**place].total_cmp(&sums[order[0]]).is_eq()).count();
        random.shuffle(&mut order[..best]);
    }
    let subset = config.host_subset_size.min(order.len());
    let first = usize::try_from(random.below(subset as u64)).unwrap_or_default();
    if let Some(until_first) = order.get_mut(..=first) {
        until_first.rotate_right(1);
    }
    order
}

/// Returns for each host the part of each weigher: the scaled weight times its multiplier.
pub fn weights(hosts: &[HostState], request: &Request, weighers: &[Box<dyn HostWeigher>], config: &SchedulerConfig) -> Vec<Vec<f64>> {
    let mut parts = vec![Vec::with_capacity(weighers.len()); hosts.len()];
    for weigher in weighers {
        let weights: Vec<f64> = hosts.iter().map(|host| weigher.weigh(host, request)).collect();
        for ((host, part), weight) in hosts.iter().zip(&mut parts).zip(scale(&weights)) {
            part.push(weight * multiplier_for(host, weigher.as_ref(), config));
        }
    }
    parts
}

/// Scales weights to 0..1 between the least and the greatest. Equal weights become 0.
fn scale(weights: &[f64]) -> Vec<f64> {
    let least = weights.iter().copied().fold(f64::INFINITY, f64::min);
    let range = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    weights.iter().map(|weight| if range > 0.0 { (weight - least) / range } else { 0.0 }).collect()
}

/// Returns the multiplier for a host: the least that its aggregates name. The configured one if they name none or something that is no
/// number.
fn multiplier_for(host: &HostState, weigher: &dyn HostWeigher, config: &SchedulerConfig) -> f64 {
    let configured = weigher.multiplier(config);
    if host.aggregates.is_empty() {
        return configured;
    }
    let values = host.aggregate_values(weigher.multiplier_option());
    let parsed: Option<Vec<f64>> = values.iter().map(|text| text.parse().ok().filter(|number: &f64| number.is_finite())).collect();
    parsed.unwrap_or_default().into_iter().reduce(f64::min).unwrap_or(configured)
}
