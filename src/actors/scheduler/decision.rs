//! A decision from request to claim: gather, filter, weigh, claim (INVARIANTS C1 to C10).

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Mutex;
use uuid::Uuid;

use cellshift_scheduler::assumed::{AssumedClaims, Look};
use cellshift_scheduler::decision::{Contest, Rules};
use cellshift_scheduler::port_providers::{PORTS, PortProviders, needs_functions};
use cellshift_scheduler::request::Request;
use cellshift_scheduler::selection::{self, NoneLeft, Removal};

use super::config::{ConfigError, SchedulerConfig};
use super::host_state::{HostState, HostStates, HostsOfCells};
use crate::domain::compute_host::WhichHosts;
use crate::domain::port_request::Grant;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::scheduler_hints::{DIFFERENT_HOST, Hints, SAME_HOST, servers_named};
use crate::domain::server_group::ServerGroup;
use crate::env::Env;
use crate::env::random::Random;
use crate::saga::claim::Claimed;
use crate::saga::scheduling::{Candidate, SchedulingError, SelectDestinations, Selection, claim_candidate, release_claim};
use crate::services::ServiceError;
use crate::services::placement::{HostDemand, Offer, PlacementService};

/// A limit beyond all candidates, for when the first, bounded answer of placement had no suitable host.
const NO_LIMIT: usize = i32::MAX as usize;

/// Makes decisions. Shared by all requests of the scheduler.
pub struct Decider {
    pub(super) rules: Rules,
    pub(super) placement: Arc<dyn PlacementService>,
    pub(super) hosts: Arc<dyn HostStates>,
    /// Held from the reading of a group's members to the claim, so that two members never decide by the same state. Requests without a
    /// group need no turn: placement's capacity check orders them.
    group_turn: Mutex<()>,
    pub(super) assumed: AssumedClaims,
    env: Env,
}

impl Decider {
    /// Makes a decider with the configured filters and weighers. Fails on an unknown name.
    pub fn new(
        config: SchedulerConfig,
        placement: Arc<dyn PlacementService>,
        hosts: Arc<dyn HostStates>,
        env: &Env,
    ) -> Result<Decider, ConfigError> {
        let (rules, group_turn, assumed) = (Rules::new(config)?, Mutex::new(()), AssumedClaims::default());
        Ok(Decider { rules, placement, hosts, group_turn, assumed, env: env.clone() })
    }

    /// See [`Scheduling::select_destinations`](crate::saga::scheduling::Scheduling::select_destinations).
    pub async fn select(&self, demand: SelectDestinations) -> Result<Selection, SchedulingError> {
        let _turn = match demand.request_spec.instance_group {
            Some(_) => Some(self.group_turn.lock().await),
            None => None,
        };
        let request = self.look_up(demand).await?;
        match self.select_among(&request, self.rules.config.max_placement_results).await? {
            Ok(selection) => Ok(selection),
            // The hosts of a large cell may have filled the answer (INVARIANTS C10), so all hosts are asked for before giving up.
            Err(none) if none.offers >= self.rules.config.max_placement_results => {
                let again = self.select_among(&request, NO_LIMIT).await?;
                again.map_err(|none| SchedulingError::NoValidHost { reason: none.sentence(&request) })
            }
            Err(none) => Err(SchedulingError::NoValidHost { reason: none.sentence(&request) }),
        }
    }

    /// Checks a request and looks up its group and the servers that its hints name.
    pub(super) async fn look_up(&self, demand: SelectDestinations) -> Result<Request, SchedulingError> {
        let mut request = Request { demand, group: None, named_servers: BTreeMap::new() };
        request.validate().map_err(|reason| SchedulingError::Invalid { reason })?;
        if request.demand.claim {
            self.release_leftovers(&request.demand).await?;
        }
        let spec = &request.demand.request_spec;
        if let Some(group) = spec.instance_group {
            request.group = self.group_with_claims(group, spec.instance_uuid).await?;
        }
        request.named_servers = self.named_servers(&request.demand.request_spec.scheduler_hints).await?;
        Ok(request)
    }

    /// An earlier try of the same step may have claimed before its reply was lost. Its room must not count as used.
    async fn release_leftovers(&self, demand: &SelectDestinations) -> Result<(), SchedulingError> {
        let placement = self.placement.as_ref();
        if placement.allocations_of(demand.consumer).await.map_err(from_placement)?.is_some() {
            release_claim(placement, demand.fence, demand.consumer, &demand.request_spec).await.map_err(from_placement)?;
        }
        Ok(())
    }

    /// Returns the group with its members' hosts: those that own them, and those where they hold claims, because a moving member counts
    /// already.
    async fn group_with_claims(&self, group: Uuid, server: Uuid) -> Result<Option<ServerGroup>, SchedulingError> {
        let group = self.hosts.server_group(group).await.map_err(|reason| SchedulingError::Unavailable { reason })?;
        let Some(mut group) = group else { return Ok(None) };
        if group.members.keys().all(|member| *member == server) {
            return Ok(Some(group));
        }
        self.add_claims(&mut group.members).await?;
        Ok(Some(group))
    }

    /// Returns the servers that hints name, with the hosts that own them and those where they hold claims.
    async fn named_servers(&self, hints: &Hints) -> Result<BTreeMap<Uuid, Vec<String>>, SchedulingError> {
        let named = [SAME_HOST, DIFFERENT_HOST].map(|hint| servers_named(hints, hint)).concat();
        if named.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut hosts = self.hosts.hosts_of(&named).await.map_err(|reason| SchedulingError::Unavailable { reason })?;
        self.add_claims(&mut hosts).await?;
        Ok(hosts)
    }

    async fn add_claims(&self, servers: &mut BTreeMap<Uuid, Vec<String>>) -> Result<(), SchedulingError> {
        for (server, hosts) in servers {
            let held = self.placement.allocations_of(*server).await.map_err(from_placement)?;
            let Some(held) = held else { continue };
            // The providers below a host are not hosts.
            let claimed = self.placement.roots_among(held.allocations.into_keys().collect()).await.map_err(from_placement)?;
            for provider in claimed {
                if !hosts.contains(&provider.name) {
                    hosts.push(provider.name.clone());
                }
            }
        }
        Ok(())
    }

    async fn select_among(&self, request: &Request, limit: usize) -> Result<Result<Selection, NoneLeft>, SchedulingError> {
        let (look, mut random) = (self.assumed.look(), self.env.random());
        let (offers, states) = self.look_at_hosts(request, limit, random.number()).await?;
        let mut none = NoneLeft { offers: offers.len(), ..NoneLeft::default() };
        let (hosts, unknown) = selection::offered(offers, states.hosts);
        let (left, removals) = selection::filter(hosts, request, &self.rules.filters);
        (none.unknown, none.removals, none.silent_cells) = (unknown, removals, states.silent_cells);
        let granted = self.with_grants(left, request, &mut none).await?;
        self.claim_best(request, granted, (look, random), none).await
    }

    /// Returns at most `limit` offers of placement, from the provider with the index `first` on, and the hosts of the cells that have them.
    /// For a named host, placement searches this host alone, as for Nova's `in_tree`.
    async fn look_at_hosts(&self, request: &Request, limit: usize, first: u64) -> Result<(Vec<Offer>, HostsOfCells), SchedulingError> {
        let (resources, required) = (request.demand.resources.by_class(), request.required_traits());
        let mut demand = HostDemand { resources, required, only: None, limit, first };
        if let Some(name) = request.only_host() {
            let states = self.hosts.host_states(request.cells(), WhichHosts::Named(name.to_owned())).await;
            demand.only = states.hosts.first().map(HostState::provider);
            if demand.only.is_some() {
                return Ok((self.placement.candidates(demand).await.map_err(from_placement)?, states));
            }
        }
        // A named host that no cell knows is refused among the others, which tells why.
        let offers = self.placement.candidates(demand).await.map_err(from_placement)?;
        let providers = offers.iter().map(|offer| offer.provider.uuid).collect();
        let states = self.hosts.host_states(request.cells(), WhichHosts::OfProviders(providers)).await;
        Ok((offers, states))
    }

    /// Reads the trees of these hosts, and asks the hosts for free virtual functions if a port needs one. None if no port needs anything, which
    /// spares the reading.
    pub(super) async fn port_providers(&self, request: &Request, hosts: &[HostState]) -> Result<Option<PortProviders>, ServiceError> {
        if request.demand.port_requests.is_empty() {
            return Ok(None);
        }
        let roots = hosts.iter().map(HostState::provider).collect();
        let trees = self.placement.trees(Some(roots)).await?;
        if !needs_functions(request) {
            return Ok(Some(PortProviders::of(request, trees, None)));
        }
        let mut free = self.hosts.free_functions(hosts).await;
        let free = hosts.iter().filter_map(|host| Some((host.provider(), free.remove(host.name())?))).collect();
        Ok(Some(PortProviders::of(request, trees, Some(&free))))
    }

    /// Returns the hosts whose networks can give what the server's ports ask for, with the providers that would. All hosts, if none asks.
    async fn with_grants(
        &self,
        hosts: Vec<HostState>,
        request: &Request,
        none: &mut NoneLeft,
    ) -> Result<Vec<(HostState, Vec<Grant>)>, SchedulingError> {
        let providers = self.port_providers(request, &hosts).await.map_err(from_placement)?;
        let Some(providers) = providers else { return Ok(hosts.into_iter().map(|host| (host, Vec::new())).collect()) };
        let (mut left, mut removed) = (Vec::with_capacity(hosts.len()), Vec::new());
        for host in hosts {
            match providers.grants(host.provider()) {
                Ok(grants) => left.push((host, grants)),
                Err(reason) => removed.push((host.name().clone(), reason)),
            }
        }
        if !removed.is_empty() {
            none.removals.push(Removal { rule: PORTS, hosts: removed });
        }
        Ok(left)
    }

    /// Claims the best host that is still free. The next best hosts in its cell become alternates (INVARIANTS C8). What others have chosen is
    /// counted before each try, and the claim begins without a pause, so that the next decision counts it.
    async fn claim_best(
        &self,
        request: &Request,
        granted: Vec<(HostState, Vec<Grant>)>,
        (mut look, mut random): (Look, Random),
        mut none: NoneLeft,
    ) -> Result<Result<Selection, NoneLeft>, SchedulingError> {
        let mut contest = Contest::new(granted);
        while let Some(choice) = contest.best(request, &self.rules, &mut look, &mut random) {
            match self.claim(&request.demand, &choice.primary, &look).await? {
                Ok(claimed) => return Ok(Ok(Selection { primary: choice.primary, alternates: choice.alternates, claimed })),
                Err(why) => {
                    contest.drop_best(&choice);
                    none.lost_claims.push((choice.primary.host, why));
                }
            }
        }
        Ok(Err(none))
    }

    /// Claims a host if the request says so. The inner error is placement's reason why the host cannot be had any more.
    async fn claim(
        &self,
        demand: &SelectDestinations,
        primary: &Candidate,
        look: &Look,
    ) -> Result<Result<Option<Claimed>, Reason>, SchedulingError> {
        if !demand.claim {
            return Ok(Ok(None));
        }
        let assumption = look.assume(demand.consumer, primary.provider, demand.resources);
        match claim_candidate(self.placement.as_ref(), demand.fence, demand.consumer, primary, &demand.request_spec).await {
            Ok(claim) => {
                assumption.landed();
                Ok(Ok(Some(claim)))
            }
            Err(why @ (ServiceError::Conflict(_) | ServiceError::NotFound(_))) => Ok(Err(reason!("{why}"))),
            Err(error) => Err(from_placement(error)),
        }
    }
}

pub(super) fn from_placement(error: ServiceError) -> SchedulingError {
    match error {
        ServiceError::Stale(reason) => SchedulingError::Stale { reason },
        ServiceError::Invalid(reason) => SchedulingError::Invalid { reason },
        other => SchedulingError::Unavailable { reason: reason!("{other}") },
    }
}
