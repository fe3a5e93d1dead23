//! Placement follows the QoS policy of a bound port. When the policy that applies to a port is replaced, what its server holds and the
//! `allocation` of the port's binding change in the same commit as the port, or nothing does.

use std::collections::{BTreeMap, BTreeSet};

use cellshift_domain::host_network::{EGRESS_BANDWIDTH, INGRESS_BANDWIDTH};
use cellshift_domain::port_request::{Grant, PortRequest};
use cellshift_store::Conn;
use serde_json::Value;
use uuid::Uuid;

use super::records::ACTIVE;
use crate::network::limits::RequestFormat;
use crate::network::ports::assemble;
use crate::network::ports::records as ports;
use crate::network::{HostKey, Port, PortBinding};
use crate::network::{bindings, in_use, shown_in};
use crate::placement::candidates::up_to;
use crate::placement::port_groups::{grants, query};
use crate::placement::{Allocations, within};
use crate::transaction::TransactionError;

/// The maximum number of ways to serve a port among which its present providers are looked for.
const WAYS_MAX: usize = 100;
/// The maximum number of ports that follow a network's policy in one commit.
const FOLLOWERS_MAX: i64 = 200;

/// Replaces, in the server's allocation, the resources of the bound port's former request by those of its present one. A port that was bound
/// without a request has no allocation: its next move or a heal makes one.
pub(in crate::network) fn follow(conn: &mut Conn, before: &Port, after: &Port) -> Result<(), TransactionError> {
    if before.resource_request == after.resource_request {
        return Ok(());
    }
    let Some(change) = Change::of(before, after)? else { return Ok(()) };
    let held = within::held(conn, change.server)?.ok_or_else(|| change.refused("its server holds nothing in placement"))?;
    let freed = change.free(&held)?;
    let new = change.choose(conn, &freed)?;
    let key = change.request.as_ref().and_then(|request| change.key(request, &new));
    let mut demand = freed;
    for Grant { provider, resources, .. } in new {
        for (class, amount) in resources {
            *demand.allocations.entry(provider).or_default().entry(class).or_insert(0) += amount;
        }
    }
    within::hold(conn, &demand)?;
    let row = bindings::hold(conn, after.id)?;
    Ok(bindings::create_with(conn, &row, &change.binding.host, HostKey::AllocationIs(key))?)
}

/// Returns the ports of servers to which a network's policy applies, before that changes. Refused if they are too many for one commit.
pub(in crate::network) fn followers(conn: &mut Conn, format: RequestFormat, network: Uuid) -> Result<Vec<Port>, TransactionError> {
    let rows = ports::of_servers_under(conn, &network.to_string(), FOLLOWERS_MAX + 1)?;
    if rows.len() > FOLLOWERS_MAX as usize {
        return Err(in_use(format!(
            "The QoS policy of network {network} cannot be replaced: more than {FOLLOWERS_MAX} ports of servers have it. Give ports a policy of \
             their own, {FOLLOWERS_MAX} at a time."
        )));
    }
    Ok(assemble::records(conn, rows)?.into_iter().map(|record| shown_in(format, record.port)).collect())
}

/// Has placement follow a network's new policy for all of these ports, or for none.
pub(in crate::network) fn follow_all(conn: &mut Conn, format: RequestFormat, before: &[Port]) -> Result<(), TransactionError> {
    for port in before {
        let after = shown_in(format, assemble::port(conn, port.id)?.port);
        follow(conn, port, &after)?;
    }
    Ok(())
}

/// A change of what a bound port asks for.
struct Change<'a> {
    port: Uuid,
    server: Uuid,
    binding: &'a PortBinding,
    allocation: &'a Value,
    /// The providers of the port until now.
    grants: Vec<Grant>,
    /// The request from now on.
    request: Option<PortRequest>,
}

impl<'a> Change<'a> {
    /// Returns the change; none if the port is not bound to the host of a server, or has no allocation there.
    fn of(before: &Port, after: &'a Port) -> Result<Option<Change<'a>>, TransactionError> {
        let binding = after.bindings.iter().find(|binding| binding.status == ACTIVE);
        let (Some(server), Some(binding)) = (after.server, binding) else { return Ok(None) };
        let Some(allocation) = binding.allocation() else { return Ok(None) };
        let read = |port: &Port| PortRequest::read(port.id, port.resource_request.as_ref()).map_err(in_use);
        let mut change = Change { port: after.id, server, binding, allocation, grants: Vec::new(), request: read(after)? };
        let request_before = read(before)?.ok_or_else(|| change.refused("its binding has an allocation for an earlier policy"))?;
        let grants = request_before.grants(allocation);
        change.grants = grants.map_err(|_| change.refused("its binding has the allocation for an earlier policy"))?;
        Ok(Some(change))
    }

    fn refused(&self, why: &str) -> TransactionError {
        in_use(format!(
            "The QoS policy of port {} cannot be replaced now: {why}. Try again when no operation has server {}; a healing of the server mends \
             what an earlier operation left.",
            self.port, self.server
        ))
    }

    /// Returns what the server holds without the port's share. Refused if it does not hold the share, as during a move.
    fn free(&self, held: &Allocations) -> Result<Allocations, TransactionError> {
        let mut freed = held.clone();
        for Grant { provider, resources, .. } in &self.grants {
            let of_provider = freed.allocations.entry(*provider).or_default();
            for (class, amount) in resources {
                let left = of_provider.get(class).map(|held| held - amount).filter(|left| *left >= 0);
                match left.ok_or_else(|| self.refused("its server does not hold what its binding names"))? {
                    0 => drop(of_provider.remove(class)),
                    left => drop(of_provider.insert(class.clone(), left)),
                }
            }
        }
        freed.allocations.retain(|_, amounts| !amounts.is_empty());
        Ok(freed)
    }

    /// Chooses the port's providers on its host: the bandwidth stays with its present provider, to which the port is connected.
    fn choose(&self, conn: &mut Conn, freed: &Allocations) -> Result<Vec<Grant>, TransactionError> {
        let Some(request) = &self.request else { return Ok(Vec::new()) };
        let host = &self.binding.host;
        let mine = Allocations { allocations: self.amounts(), ..freed.clone() };
        let (root, tree) = within::tree_without(conn, host, &mine)?.ok_or_else(|| self.refused("its host has no provider in placement"))?;
        let present = bandwidth_of(&self.grants);
        let ways = up_to(&tree, &query(std::slice::from_ref(request), false), root, WAYS_MAX);
        let mut ways = ways.iter().filter_map(|way| grants(way, request.groups.iter()));
        let fits = |way: &Vec<Grant>| present.is_empty() || bandwidth_of(way).is_subset(&present);
        ways.find(fits).ok_or_else(|| {
            in_use(format!("The network of host {host} has no room for what port {} would ask for with this QoS policy.", self.port))
        })
    }

    /// Returns the port's share by provider.
    fn amounts(&self) -> BTreeMap<Uuid, BTreeMap<String, i64>> {
        let mut sums: BTreeMap<Uuid, BTreeMap<String, i64>> = BTreeMap::new();
        for Grant { provider, resources, .. } in &self.grants {
            for (class, amount) in resources {
                *sums.entry(*provider).or_default().entry(class.clone()).or_insert(0) += amount;
            }
        }
        sums
    }

    /// Returns the binding's new `allocation`, in the form of the present one if that can say it.
    fn key(&self, request: &PortRequest, new: &[Grant]) -> Option<Value> {
        match (self.allocation, new) {
            (Value::String(_), [only]) => Some(Value::String(only.provider.to_string())),
            _ => request.allocation(new),
        }
    }
}

/// Returns the providers of bandwidth among these.
fn bandwidth_of(grants: &[Grant]) -> BTreeSet<Uuid> {
    let gives = |grant: &&Grant| [EGRESS_BANDWIDTH, INGRESS_BANDWIDTH].iter().any(|class| grant.resources.contains_key(*class));
    grants.iter().filter(gives).map(|grant| grant.provider).collect()
}
