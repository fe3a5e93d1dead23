//! The providers below a host that give what a server's ports ask of its network: bandwidth of a bridge or a card, packet rates of an agent.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::free_functions::{offer, with_function, without_functions};
use super::host_state::HostState;
use super::request::Request;
use cellshift_domain::host_network::VirtualFunction;
use cellshift_domain::port_request::{Grant, PortRequest, RequestGroup};
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_domain::scheduling::PlannedMove;
use cellshift_neighbours::placement::Provider;
use cellshift_neighbours::placement::candidates::{Query, first_in};
use cellshift_neighbours::placement::port_groups::{grants, query};
use cellshift_neighbours::placement::tree::Tree;

/// The rule's name in messages.
pub const PORTS: &str = "ports";
/// The extra spec by which a flavor says whether groups may share a provider.
const GROUP_POLICY: &str = "group_policy";

/// True if a port of the request needs a virtual function.
pub fn needs_functions(request: &Request) -> bool {
    request.demand.port_requests.iter().any(|port| port.function_on.is_some())
}

/// The trees of the hosts in question, and the question.
pub struct PortProviders {
    tree: Tree,
    groups: Vec<RequestGroup>,
    query: Query,
    /// True if the tree offers the free virtual functions.
    offers_functions: bool,
}

impl PortProviders {
    /// Makes the question of a request to these trees, whose hosts have these free virtual functions. The hosts need not be asked for functions
    /// unless a port needs one ([`needs_functions`]).
    pub fn of(
        request: &Request,
        trees: Vec<(Provider, Option<Uuid>)>,
        free: Option<&BTreeMap<Uuid, Vec<VirtualFunction>>>,
    ) -> PortProviders {
        let requests = &request.demand.port_requests;
        // No flavor has groups of its own, so without a word of the flavor the groups may share a provider.
        let isolate = request.demand.request_spec.flavor.extra_specs.get(GROUP_POLICY).is_some_and(|policy| policy == "isolate");
        match free {
            Some(free) => PortProviders::with_functions(trees, free, requests, isolate),
            None => PortProviders::over(Tree::of(trees), requests, isolate),
        }
    }

    /// Makes the question to these trees, whose hosts have these free virtual functions.
    pub(crate) fn with_functions(
        mut trees: Vec<(Provider, Option<Uuid>)>,
        free: &BTreeMap<Uuid, Vec<VirtualFunction>>,
        requests: &[PortRequest],
        isolate: bool,
    ) -> PortProviders {
        offer(&mut trees, free);
        let demands: Vec<PortRequest> = requests.iter().map(with_function).collect();
        PortProviders { query: query(&demands, isolate), offers_functions: true, ..PortProviders::over(Tree::of(trees), requests, isolate) }
    }

    /// Makes the question to these trees, without a look at virtual functions. If isolated, no two groups share a provider.
    pub fn over(tree: Tree, requests: &[PortRequest], isolate: bool) -> PortProviders {
        let groups = requests.iter().flat_map(|request| request.groups.clone()).collect();
        PortProviders { tree, groups, query: query(requests, isolate), offers_functions: false }
    }

    /// Counts what the ports of planned moves will take of these hosts' networks. A move whose host cannot give it takes nothing.
    pub(crate) fn take_planned(&mut self, hosts: &[HostState], planned: &[PlannedMove]) {
        for planned in planned.iter().filter(|planned| !planned.port_requests.is_empty()) {
            let host = hosts.iter().find(|host| *host.name() == planned.host);
            self.take(host.map(HostState::provider), &planned.port_requests);
        }
    }

    fn take(&mut self, host: Option<Uuid>, requests: &[PortRequest]) {
        let requests: Vec<PortRequest> = match self.offers_functions {
            true => requests.iter().map(with_function).collect(),
            false => requests.to_vec(),
        };
        let candidate = host.and_then(|host| first_in(&self.tree, &query(&requests, false), host));
        let granted = candidate.and_then(|candidate| grants(&candidate, requests.iter().flat_map(|request| &request.groups)));
        for grant in granted.into_iter().flatten() {
            self.tree.take(grant.provider, &grant.resources);
        }
    }

    /// Returns the providers that a host's tree gives to each group.
    pub fn grants(&self, host: Uuid) -> Result<Vec<Grant>, Reason> {
        if self.query.groups.is_empty() {
            return Ok(Vec::new());
        }
        let Some(candidate) = first_in(&self.tree, &self.query, host) else { return Err(self.why_none(host)) };
        grants(&candidate, self.groups.iter()).ok_or_else(|| "two ports have requests with one id".into())
    }

    fn why_none(&self, host: Uuid) -> Reason {
        let bare = without_functions(&self.query);
        let has_providers = |query: &Query| first_in(&self.tree, query, host).is_some();
        let alone = |group: &&RequestGroup| {
            let groups = bare.groups.iter().filter(|(suffix, _)| **suffix == group.id.to_string());
            !has_providers(&Query { groups: groups.map(|(suffix, group)| (suffix.clone(), group.clone())).collect(), ..Query::default() })
        };
        match self.groups.iter().find(alone) {
            Some(group) => {
                let amounts: Vec<String> = group.resources.iter().map(|(class, amount)| format!("{class} {amount}")).collect();
                let traits: Vec<&str> = group.required.iter().map(String::as_str).collect();
                let with = if traits.is_empty() { String::new() } else { format!(" with the traits {}", traits.join(", ")) };
                reason!("no provider of its network gives {}{with}", amounts.join(", "))
            }
            None if bare != self.query && (bare.groups.is_empty() || has_providers(&bare)) => {
                "no virtual function is free for each port that needs one".into()
            }
            None => "its network cannot give what all ports ask for together".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellshift_domain::port_request::RequestForm;
    use cellshift_neighbours::placement::Inventory;

    const BW: &str = "NET_BW_EGR_KILOBIT_PER_SEC";
    const RATE: &str = "NET_PACKET_RATE_KILOPACKET_PER_SEC";

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn provider(n: u128, stock: &[(&str, i64)], traits: &[&str]) -> Provider {
        let inventory = |total: i64| Inventory { total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio: 1.0 };
        Provider {
            uuid: id(n),
            name: format!("p{n}"),
            generation: 0,
            inventories: stock.iter().map(|(class, total)| ((*class).to_owned(), inventory(*total))).collect(),
            usages: BTreeMap::new(),
            traits: traits.iter().map(|name| (*name).to_owned()).collect(),
            aggregates: Vec::new(),
        }
    }

    /// A host (1) with an agent (2) that has two bridges (3, 4), and a second agent (5).
    fn tree() -> Tree {
        Tree::of(vec![
            (provider(1, &[("VCPU", 4)], &[]), None),
            (provider(2, &[(RATE, 100)], &["NORMAL"]), Some(id(1))),
            (provider(3, &[(BW, 1000)], &["NORMAL", "NET0"]), Some(id(2))),
            (provider(4, &[(BW, 1000)], &["NORMAL", "NET1"]), Some(id(2))),
            (provider(5, &[(RATE, 100)], &["OTHER"]), Some(id(1))),
        ])
    }

    fn group(n: u128, class: &str, amount: i64, required: &[&str]) -> RequestGroup {
        let required = required.iter().map(|name| (*name).to_owned()).collect();
        RequestGroup { id: id(n), resources: BTreeMap::from([(class.to_owned(), amount)]), required }
    }

    fn port(groups: Vec<RequestGroup>) -> PortRequest {
        let same_subtree = groups.iter().map(|group| group.id).collect();
        PortRequest { port: groups[0].id, form: RequestForm::Groups, groups, same_subtree, function_on: None }
    }

    fn granted(requests: &[PortRequest], isolate: bool) -> Result<Vec<u128>, Reason> {
        let providers = PortProviders::over(tree(), requests, isolate);
        providers.grants(id(1)).map(|grants| grants.iter().map(|grant| grant.provider.as_u128()).collect())
    }

    #[test]
    fn each_group_of_a_port_gets_a_provider_of_one_subtree() {
        let both = port(vec![group(10, BW, 600, &["NET1"]), group(11, RATE, 50, &[])]);
        assert_eq!(granted(std::slice::from_ref(&both), false), Ok(vec![4, 2]));
    }

    #[test]
    fn ports_share_a_provider_while_it_has_room() {
        let one = |n, amount| port(vec![group(n, BW, amount, &["NORMAL"])]);
        assert_eq!(granted(&[one(10, 400), one(11, 600)], false), Ok(vec![3, 3]));
        assert_eq!(granted(&[one(10, 400), one(11, 700)], false), Ok(vec![3, 4]));
        assert_eq!(granted(&[one(10, 400), one(11, 600)], true), Ok(vec![3, 4]));
        assert_eq!(
            granted(&[one(10, 900), one(11, 900), one(12, 900)], false).unwrap_err(),
            "its network cannot give what all ports ask for together".into()
        );
    }

    #[test]
    fn a_planned_move_takes_bandwidth_from_the_next() {
        let port_of = |n, amount| port(vec![group(n, BW, amount, &["NET0"])]);
        let mut providers = PortProviders::over(tree(), &[port_of(10, 400)], false);
        providers.take(Some(id(1)), &[port_of(11, 500)]);
        assert_eq!(providers.grants(id(1)).map(|grants| grants.len()), Ok(1), "500 and 400 of 1000");
        providers.take(Some(id(1)), &[port_of(12, 5000)]);
        providers.take(None, &[port_of(13, 500)]);
        assert_eq!(providers.grants(id(1)).map(|grants| grants.len()), Ok(1), "what no host gives takes nothing");
        providers.take(Some(id(1)), &[port_of(14, 200)]);
        assert_eq!(providers.grants(id(1)).unwrap_err(), reason!("no provider of its network gives {BW} 400 with the traits NET0"));
    }

    #[test]
    fn a_host_says_which_group_it_cannot_give() {
        let why = granted(&[port(vec![group(10, BW, 5, &["NET9"])])], false).unwrap_err();
        assert_eq!(why, reason!("no provider of its network gives {BW} 5 with the traits NET9"));
        let why = granted(&[port(vec![group(10, BW, 5000, &[])])], false).unwrap_err();
        assert_eq!(why, reason!("no provider of its network gives {BW} 5000"));
    }
}
