//! I4 and I14 for ports that ask for resources: the `allocation` of each binding names providers below its host, and the server (at the
//! source of a move that waits for confirm: the move) holds there what its ports ask for, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::explanations::Topic;
use super::report::{Findings, Violation, list};
use super::snapshot::{Phase, PlacementSnapshot, Resting, Snapshot};
use crate::domain::port_request::{Grant, PortRequest, providers_named};
use crate::services::network::{Port, PortBinding};
use crate::services::placement::Allocations;

/// Amounts by provider and class.
type Amounts = BTreeMap<Uuid, BTreeMap<String, i64>>;

/// Finds violations of I4 and I14 in the shares of ports.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    let (Some(ports), Some(placement)) = (&snapshot.ports, &snapshot.placement) else { return findings.done() };
    let looked = Looked::at(snapshot, placement, ports);
    for server in snapshot.resting() {
        looked.target_of(&server, &mut findings);
        looked.source_of(&server, &mut findings);
    }
    for server in &snapshot.at_one_step {
        looked.active_bindings_are_held(*server, &mut findings);
    }
    findings.done()
}

/// The snapshot, ordered for the questions of this rule.
struct Looked<'a> {
    snapshot: &'a Snapshot,
    placement: &'a PlacementSnapshot,
    by_server: BTreeMap<Uuid, Vec<&'a Port>>,
    held: BTreeMap<Uuid, &'a Allocations>,
    nodes: BTreeSet<Uuid>,
}

impl<'a> Looked<'a> {
    fn at(snapshot: &'a Snapshot, placement: &'a PlacementSnapshot, ports: &'a [Port]) -> Looked<'a> {
        let mut by_server: BTreeMap<Uuid, Vec<&Port>> = BTreeMap::new();
        for port in ports {
            if let Some(server) = port.server {
                by_server.entry(server).or_default().push(port);
            }
        }
        let held = placement.allocations.iter().map(|held| (held.consumer, held)).collect();
        let roots = placement.providers.iter().map(|provider| provider.uuid).filter(|uuid| !placement.parents.contains_key(uuid));
        Looked { snapshot, placement, by_server, held, nodes: roots.collect() }
    }

    fn ports_of(&self, server: Uuid) -> impl Iterator<Item = &'a Port> {
        self.by_server.get(&server).into_iter().flatten().copied()
    }

    /// Returns what a consumer holds of providers below hosts.
    fn below_hosts(&self, consumer: Uuid) -> Amounts {
        let held = self.held.get(&consumer).into_iter().flat_map(|held| &held.allocations);
        held.filter(|(provider, _)| !self.nodes.contains(provider)).map(|(provider, amounts)| (*provider, amounts.clone())).collect()
    }

    /// Checks the server's bindings to its host, and what it holds there.
    fn target_of(&self, server: &Resting, findings: &mut Findings) {
        let mut expected = Amounts::new();
        for port in self.ports_of(server.id()) {
            let binding = port.bindings.iter().find(|binding| Some(binding.host.as_str()) == server.host());
            let Some(binding) = binding else { continue };
            match self.grants(port, binding) {
                Ok(grants) => {
                    for Grant { provider, resources, .. } in grants {
                        for (class, amount) in resources {
                            *expected.entry(provider).or_default().entry(class).or_default() += amount;
                        }
                    }
                }
                Err(why) => findings.about(server.id(), Topic::Ports, "I14", format!("port {}", port.id), why),
            }
        }
        let held = self.below_hosts(server.id());
        if held != expected {
            let (held, expected) = (self.words(&held), self.words(&expected));
            let message = format!("it holds {held} of networks, expected {expected}, what its ports' bindings name");
            self.about_both(server.id(), findings, "I4", format!("server {}", server.id()), message);
        }
    }

    /// Checks the bindings that a revert would use: the move holds something of each provider that they name, and of no other. The amounts
    /// are those of the ports' policies at that time.
    fn source_of(&self, server: &Resting, findings: &mut Findings) {
        let (Phase::Verify(migration), Some(source)) = (server.phase, server.source_host()) else { return };
        let bindings = self.ports_of(server.id()).filter_map(|port| port.bindings.iter().find(|binding| binding.host == source));
        let in_bindings: BTreeSet<Uuid> = bindings.filter_map(PortBinding::allocation).flat_map(providers_named).collect();
        let held: BTreeSet<Uuid> = self.below_hosts(migration.uuid).into_keys().collect();
        if in_bindings != held {
            let (held, in_bindings) = (self.names(&held), self.names(&in_bindings));
            let message = format!("it holds something of {held}, expected of {in_bindings}, the providers in the bindings to its source");
            self.about_both(server.id(), findings, "I4", format!("migration {}", migration.uuid), message);
        }
    }

    /// Returns the providers of a port on its server's host, and what they give.
    fn grants(&self, port: &Port, binding: &PortBinding) -> Result<Vec<Grant>, String> {
        let host = &binding.host;
        let request = PortRequest::read(port.id, port.resource_request.as_ref())?;
        let (request, allocation) = match (request, binding.allocation()) {
            (None, None) => return Ok(Vec::new()),
            (Some(_), None) => return Err(format!("its binding to {host} has no allocation, expected providers for its resource request")),
            (None, Some(stale)) => {
                return Err(format!("its binding to {host} has the allocation {stale}, expected none: it asks for nothing"));
            }
            (Some(request), Some(allocation)) => (request, allocation),
        };
        let grants = request.grants(allocation).map_err(|why| format!("the allocation of its binding to {host} does not fit: {why}"))?;
        let Some(node) = self.snapshot.node_of(host) else { return Ok(grants) };
        match grants.iter().find(|grant| self.root(grant.provider) != node.uuid) {
            Some(strange) => Err(format!(
                "the allocation of its binding to {host} names {}, expected a provider below {host}",
                self.name(strange.provider)
            )),
            None => Ok(grants),
        }
    }

    /// While an operation stays at one step: the providers of an active binding are held by the server or by one of its moves.
    fn active_bindings_are_held(&self, server: Uuid, findings: &mut Findings) {
        let moves = self.snapshot.sagas.iter().filter(|saga| saga.server == server).map(|saga| saga.id);
        let held: BTreeSet<Uuid> =
            std::iter::once(server).chain(moves).flat_map(|consumer| self.below_hosts(consumer).into_keys()).collect();
        for port in self.ports_of(server) {
            let active = port.bindings.iter().filter(|binding| binding.status == "ACTIVE");
            for (binding, provider) in
                active.flat_map(|one| one.allocation().map(providers_named).unwrap_or_default().into_iter().map(move |of| (one, of)))
            {
                if !held.contains(&provider) {
                    let message = format!(
                        "its active binding to {} names {}, of which neither the server nor a move of it holds anything",
                        binding.host,
                        self.name(provider)
                    );
                    self.about_both(server, findings, "I14", format!("port {}", port.id), message);
                }
            }
        }
    }

    /// Adds a violation unless a debt explains the server's ports or its allocations.
    fn about_both(&self, server: Uuid, findings: &mut Findings, invariant: &str, subject: String, message: String) {
        if !self.snapshot.is_explained(server, Topic::Ports) {
            findings.about(server, Topic::Allocations, invariant, subject, message);
        }
    }

    fn root(&self, provider: Uuid) -> Uuid {
        let way = std::iter::successors(Some(provider), |at| self.placement.parents.get(at).copied());
        way.take(self.placement.providers.len() + 1).last().unwrap_or(provider)
    }

    fn name(&self, provider: Uuid) -> String {
        let record = self.placement.providers.iter().find(|record| record.uuid == provider);
        record.map_or_else(|| format!("provider {provider}, which does not exist"), |record| record.name.clone())
    }

    fn names(&self, providers: &BTreeSet<Uuid>) -> String {
        list(providers.iter().map(|provider| self.name(*provider)))
    }

    fn words(&self, amounts: &Amounts) -> String {
        let one = |(provider, amounts): (&Uuid, &BTreeMap<String, i64>)| {
            let amounts = amounts.iter().map(|(class, amount)| format!("{amount} {class}")).collect::<Vec<_>>().join(" and ");
            format!("{amounts} of {}", self.name(*provider))
        };
        list(amounts.iter().map(one))
    }
}
