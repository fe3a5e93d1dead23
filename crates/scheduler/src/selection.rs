//! The pure part of a decision: the remaining hosts, and the message that says why none remains.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use uuid::Uuid;

use super::filters::HostFilter;
use super::host_state::HostState;
use super::request::Request;
use cellshift_domain::port_request::Grant;
use cellshift_domain::reason;
use cellshift_domain::reason::{Inside, Reason};
use cellshift_domain::scheduling::Candidate;
use cellshift_neighbours::placement::Offer;

/// The maximum number of different reasons per filter in a message.
const REASONS_NAMED: usize = 3;

/// The hosts that a rule removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removal {
    /// The rule's name.
    pub rule: &'static str,
    /// Each host with the reason.
    pub hosts: Vec<(String, Reason)>,
}

/// Returns the hosts that placement offers, with placement's figures, and the number of offers without a known host (in cells that were not
/// asked or did not answer).
pub fn offered(offers: Vec<Offer>, mut hosts: Vec<HostState>) -> (Vec<HostState>, usize) {
    let offered = offers.len();
    let mut by_uuid: HashMap<Uuid, Offer, RandomState> = offers.into_iter().map(|offer| (offer.provider.uuid, offer)).collect();
    hosts.retain_mut(|host| {
        host.in_placement = by_uuid.remove(&host.provider());
        host.in_placement.is_some()
    });
    let unknown = offered - hosts.len();
    (hosts, unknown)
}

/// Returns the hosts that the request considers and that pass all filters, and the hosts that each rule removed. A forced host is judged
/// only by the filters that say so.
pub fn filter(mut hosts: Vec<HostState>, request: &Request, filters: &[Box<dyn HostFilter>]) -> (Vec<HostState>, Vec<Removal>) {
    let mut removals = Vec::new();
    keep(&mut hosts, "the request", &mut removals, |host| request.in_scope(host));
    let forced = request.forced_host().is_some();
    for filter in filters.iter().filter(|filter| !forced || filter.judges_forced_host()) {
        keep(&mut hosts, filter.name(), &mut removals, |host| filter.passes(host, request));
    }
    (hosts, removals)
}

/// Drops the hosts that do not pass.
fn keep(hosts: &mut Vec<HostState>, rule: &'static str, removals: &mut Vec<Removal>, passes: impl Fn(&HostState) -> Result<(), Reason>) {
    let mut removed = Vec::new();
    hosts.retain(|host| match passes(host) {
        Ok(()) => true,
        Err(reason) => {
            removed.push((host.name().clone(), reason));
            false
        }
    });
    if !removed.is_empty() {
        removals.push(Removal { rule, hosts: removed });
    }
}

/// Returns a host as the answer names it, with the providers that it gives to the ports.
pub fn candidate(host: &HostState, grants: &[Grant], request: &Request) -> Candidate {
    Candidate {
        cell: host.cell.name.clone(),
        cell_uuid: host.cell.uuid,
        host: host.name().clone(),
        node: host.node.hypervisor_hostname.clone(),
        provider: host.provider(),
        availability_zone: Some(host.availability_zone.to_string()),
        allocation: request.demand.resources.by_class(),
        grants: grants.to_vec(),
    }
}

/// The end of a decision without a host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NoneLeft {
    /// The number of placement's offers.
    pub offers: usize,
    /// The number of offers without a known host.
    pub unknown: usize,
    /// The hosts that the rules removed.
    pub removals: Vec<Removal>,
    /// Hosts that passed, but were taken by others before the claim, with placement's messages.
    pub lost_claims: Vec<(String, Reason)>,
    /// Cells that did not answer.
    pub silent_cells: Vec<String>,
}

impl NoneLeft {
    /// Returns the message for the instance action. It begins as Nova's, then tells operators alone what removed the hosts.
    pub fn sentence(&self, request: &Request) -> Reason {
        let inside = Inside(self.explanation(request));
        Reason::no_valid_host(reason!("There are not enough hosts available. {inside}"))
    }

    fn explanation(&self, request: &Request) -> String {
        let mut text = String::new();
        if self.offers == 0 {
            let host = request.only_host().map_or("No host has".to_owned(), |host| format!("The requested host {host} does not have"));
            text += &format!("{host} room for {}", demand(request));
        } else {
            let mut parts = Vec::new();
            if self.unknown > 0 {
                parts.push(format!("{} in cells that were not asked or did not answer", self.unknown));
            }
            parts.extend(self.removals.iter().map(|removal| part(&format!("{} removed", removal.rule), &removal.hosts)));
            if !self.lost_claims.is_empty() {
                parts.push(part("lost to other claims", &self.lost_claims));
            }
            let hosts = if self.offers == 1 { "host" } else { "hosts" };
            text += &format!("Of {} {hosts} with room: {}", self.offers, parts.join(", "));
        }
        if !self.silent_cells.is_empty() {
            text += &format!("; no answer from {}", self.silent_cells.join(", "));
        }
        text.push('.');
        text += &self.bar(request);
        text
    }

    /// Returns the reason that keeps a move from hosts with room in other cells.
    fn bar(&self, request: &Request) -> String {
        match request.confined_to().filter(|_| self.unknown > 0) {
            Some(cell) => format!(" The server may not leave {cell}: the policy compute:servers:resize:cross_cell does not allow it."),
            None => String::new(),
        }
    }
}

fn demand(request: &Request) -> String {
    let resources = request.demand.resources.by_class();
    let mut text = resources.iter().map(|(class, amount)| format!("{class} {amount}")).collect::<Vec<_>>().join(", ");
    let traits = request.required_traits();
    if !traits.is_empty() {
        text += &format!(" and the traits {}", traits.join(", "));
    }
    text
}

/// Writes `<label> 3 (down, disabled)`.
fn part(label: &str, hosts: &[(String, Reason)]) -> String {
    let mut reasons: Vec<&Reason> = Vec::new();
    for (_, reason) in hosts {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let more = if reasons.len() > REASONS_NAMED { ", …" } else { "" };
    let examples = reasons.into_iter().take(REASONS_NAMED).map(Reason::to_string).collect::<Vec<_>>().join(", ");
    format!("{label} {} ({examples}{more})", hosts.len())
}
