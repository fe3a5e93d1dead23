//! Explains a decision without making it: every host, with the rules that refuse it or with its weights. Choices of decisions in progress are
//! counted as a decision counts them; hosts of the same weight stand by name.

use std::collections::BTreeMap;
use std::fmt::Display;

use cellshift_domain::explanation::{HostRefusal, HostVerdict, HostWeight};
use cellshift_domain::flavor::Resources;
use cellshift_domain::scheduling::PlannedMove;
use cellshift_neighbours::placement::{Offer, Provider};
use uuid::Uuid;

use crate::assumed::Look;
use crate::decision::Rules;
use crate::host_state::HostState;
use crate::port_providers::{PORTS, PortProviders};
use crate::request::Request;
use crate::weighers;

/// The rule that stands for inventories and required traits.
const PLACEMENT: &str = "placement";

/// All that an explanation looks at.
pub struct Sight {
    /// All hosts of the cells that answered.
    pub hosts: Vec<HostState>,
    /// All providers of placement.
    pub providers: Vec<Provider>,
    /// The providers of the ports' resources; none if no port asks for any.
    pub ports: Option<PortProviders>,
}

impl Rules {
    /// Returns the verdict on every host, the best first and the refused ones last, as if these planned moves had taken their room. Counts
    /// what others have chosen since `look` began.
    pub fn verdicts(&self, request: &Request, planned: &[PlannedMove], sight: Sight, look: &mut Look) -> Vec<HostVerdict> {
        let Sight { hosts, providers, mut ports } = sight;
        let mut providers: BTreeMap<Uuid, Provider> = providers.into_iter().map(|provider| (provider.uuid, provider)).collect();
        take_planned(&mut providers, planned);
        if let Some(ports) = &mut ports {
            ports.take_planned(&hosts, planned);
        }
        let (mut passing, mut refused) = (Vec::new(), Vec::new());
        for host in hosts {
            let (host, mut refusals) = in_placement(host, &mut providers, request);
            let short = ports.as_ref().and_then(|ports| ports.grants(host.provider()).err());
            refusals.extend(short.map(|reason| refusal(PORTS, reason)));
            refusals.extend(self.refusals(&host, request));
            match refusals.is_empty() {
                true => passing.push(host),
                false => refused.push(verdict(&host, refusals, Vec::new())),
            }
        }
        look.count(&mut passing, request.demand.consumer);
        let mut destinations = self.weighed(passing, request);
        refused.sort_by(|one: &HostVerdict, other| (&one.cell, &one.host).cmp(&(&other.cell, &other.host)));
        destinations.extend(refused);
        destinations
    }

    /// Returns the refusals of the request itself and of all filters, also of those after the first that refuses.
    fn refusals(&self, host: &HostState, request: &Request) -> Vec<HostRefusal> {
        let scope = request.in_scope(host).err().map(|reason| refusal("the request", reason));
        let judged = self.filters.iter().filter(|filter| request.forced_host().is_none() || filter.judges_forced_host());
        let filtered = judged.filter_map(|filter| Some(refusal(filter.name(), filter.passes(host, request).err()?)));
        scope.into_iter().chain(filtered).collect()
    }

    fn weighed(&self, hosts: Vec<HostState>, request: &Request) -> Vec<HostVerdict> {
        let weights = weighers::weights(&hosts, request, &self.weighers, &self.config);
        let with_weights = |(host, weights): (HostState, Vec<f64>)| {
            let host_weights = self.weighers.iter().zip(weights);
            let host_weights = host_weights
                .map(|(weigher, weight)| HostWeight { weigher: weigher.name().to_owned(), weight: unsigned_zero(weight) })
                .collect();
            verdict(&host, Vec::new(), host_weights)
        };
        let mut verdicts: Vec<HostVerdict> = hosts.into_iter().zip(weights).map(with_weights).collect();
        let sum = |verdict: &HostVerdict| verdict.weight.unwrap_or_default();
        verdicts.sort_by(|one, other| sum(other).total_cmp(&sum(one)).then_with(|| one.host.cmp(&other.host)));
        verdicts
    }
}

/// Counts the room of planned moves as used.
fn take_planned(providers: &mut BTreeMap<Uuid, Provider>, planned: &[PlannedMove]) {
    let mut by_host: BTreeMap<&str, Vec<Resources>> = BTreeMap::new();
    for one in planned {
        by_host.entry(&one.host).or_default().push(one.resources);
    }
    for provider in providers.values_mut() {
        let Some(planned) = by_host.remove(provider.name.as_str()) else { continue };
        for (class, amount) in planned.into_iter().sum::<Resources>().by_class() {
            *provider.usages.entry(class).or_insert(0) += amount;
        }
    }
}

/// Returns the host with placement's figures, and placement's reasons against it.
fn in_placement(mut host: HostState, providers: &mut BTreeMap<Uuid, Provider>, request: &Request) -> (HostState, Vec<HostRefusal>) {
    let Some(provider) = providers.remove(&host.provider()) else {
        return (host, vec![refusal(PLACEMENT, "no resource provider")]);
    };
    let resources = request.demand.resources.by_class();
    let short = resources.iter().filter(|(_, amount)| **amount > 0).filter_map(|(class, amount)| provider.lacks(class, *amount));
    let required = request.required_traits();
    let missing = required.iter().filter(|name| !provider.traits.contains(name)).map(|name| format!("the trait {name} is missing"));
    let refusals = short.chain(missing).map(|reason| refusal(PLACEMENT, reason)).collect();
    host.in_placement = Some(Offer::new(provider));
    (host, refusals)
}

fn refusal(rule: &str, reason: impl Display) -> HostRefusal {
    HostRefusal { rule: rule.to_owned(), reason: reason.to_string() }
}

/// Returns the weight, and 0.0 for -0.0, which readers of the answer take for a mistake.
fn unsigned_zero(weight: f64) -> f64 {
    weight + 0.0
}

fn verdict(host: &HostState, refusals: Vec<HostRefusal>, weights: Vec<HostWeight>) -> HostVerdict {
    HostVerdict {
        cell: host.cell.name.clone(),
        host: host.name().clone(),
        availability_zone: Some(host.availability_zone.to_string()),
        weight: refusals.is_empty().then(|| unsigned_zero(weights.iter().map(|part| part.weight).sum())),
        refusals,
        weights,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_weight_is_minus_zero() {
        let no_weights: f64 = std::iter::empty::<f64>().sum();
        for weight in [-0.0, no_weights] {
            assert!(unsigned_zero(weight).is_sign_positive(), "{weight}");
        }
        assert_eq!([-1.5, 2.0].map(unsigned_zero), [-1.5, 2.0]);
    }
}
