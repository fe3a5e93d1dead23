//! The difference between what a server holds of its host and its host's network, and what its flavor and its ports ask for.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::domain::port_request::{Grant, PortRequest};
use crate::saga::context::{Amounts, HealPlan};
use crate::services::network::Port;
use crate::services::placement::Provider;
use crate::services::placement::candidates::up_to;
use crate::services::placement::port_groups::{grants, query};
use crate::services::placement::tree::Tree;

/// The classes of networks begin with this.
const NETWORK: &str = "NET_";

/// A server on its host, with its ports and what it holds in placement.
pub struct PlacedServer<'a> {
    pub host: &'a str,
    /// The host's own provider.
    pub node: Uuid,
    pub ports: &'a [Port],
    pub held: &'a Amounts,
    /// True if the flavor wants a provider for each group.
    pub isolate: bool,
    /// The amounts that the flavor takes of the host itself; none to leave them as they are held.
    pub own: Option<&'a BTreeMap<String, i64>>,
}

/// Makes the plan over the host's tree. Fails with the reason if the host cannot give what is missing, or could in several ways.
pub fn plan(server: &PlacedServer<'_>, tree: Vec<(Provider, Option<Uuid>)>) -> Result<HealPlan, String> {
    let PlacedServer { host, node, held, .. } = server;
    let host_tree = Tree::of(tree.clone());
    let is_below = |provider: Uuid| provider != *node && host_tree.provider(provider).is_some();
    let (mut grants_to_keep, mut wanting, mut keys) = (Vec::new(), Vec::new(), BTreeMap::new());
    for port in server.ports {
        let Some(binding) = port.bindings.iter().find(|binding| binding.host == **host) else { continue };
        let before = binding.allocation().cloned();
        let Some(request) = PortRequest::read(port.id, port.resource_request.as_ref())? else {
            keys.insert(port.id, (before, None));
            continue;
        };
        let grants = before.as_ref().and_then(|allocation| request.grants(allocation).ok());
        match grants.filter(|grants| grants.iter().all(|grant| is_below(grant.provider))) {
            Some(grants) => {
                keys.insert(port.id, (before, request.allocation(&grants)));
                grants_to_keep.extend(grants);
            }
            None => wanting.push((request, before)),
        }
    }
    let requests: Vec<PortRequest> = wanting.iter().map(|(request, _)| request.clone()).collect();
    let choice = choose(server, &requests, without(tree, held, &grants_to_keep, is_below))?;
    for (request, before) in wanting {
        keys.insert(request.port, (before, request.allocation(&choice)));
    }
    let is_network =
        |provider: &Uuid, amounts: &BTreeMap<String, i64>| is_below(*provider) || amounts.keys().all(|class| class.starts_with(NETWORK));
    let mut after: Amounts = (*held).clone();
    after.retain(|provider, amounts| !is_network(provider, amounts));
    add(&mut after, grants_to_keep.iter().chain(&choice));
    if let Some(own) = server.own {
        after.insert(*node, own.clone());
    }
    Ok(HealPlan { before: (*held).clone(), after, keys })
}

/// Plans that a port joins the server: it gets the first choice among what the host's network can give. Fails if there is none.
pub fn joining(server: &PlacedServer<'_>, port: &Port, tree: Vec<(Provider, Option<Uuid>)>) -> Result<HealPlan, String> {
    let before = server.held.clone();
    let Some(request) = PortRequest::read(port.id, port.resource_request.as_ref())? else {
        return Ok(HealPlan { after: before.clone(), before, keys: BTreeMap::new() });
    };
    let choices = up_to(&Tree::of(tree), &query(std::slice::from_ref(&request), server.isolate), server.node, 1);
    let grants = choices.first().and_then(|first| grants(first, request.groups.iter()));
    let grants = grants.ok_or_else(|| format!("the network of {} cannot give what port {} asks for", server.host, port.id))?;
    let mut after = before.clone();
    add(&mut after, grants.iter());
    Ok(HealPlan { before, after, keys: BTreeMap::from([(port.id, (None, request.allocation(&grants)))]) })
}

/// Plans that a port leaves the server. A port whose request no longer fits its allocation takes nothing along: a heal finds the rest.
pub fn leaving(server: &PlacedServer<'_>, port: &Port) -> Result<HealPlan, String> {
    let before = server.held.clone();
    let binding = port.bindings.iter().find(|binding| binding.host == server.host);
    let allocation = binding.and_then(|binding| binding.allocation());
    let request = PortRequest::read(port.id, port.resource_request.as_ref())?;
    let grants = request.zip(allocation).and_then(|(request, allocation)| request.grants(allocation).ok()).unwrap_or_default();
    let mut after = before.clone();
    for Grant { provider, resources, .. } in &grants {
        let Some(amounts) = after.get_mut(provider) else { continue };
        for (class, amount) in resources {
            *amounts.entry(class.clone()).or_default() -= amount;
        }
        amounts.retain(|_, left| *left > 0);
    }
    after.retain(|_, amounts| !amounts.is_empty());
    Ok(HealPlan { before, after, keys: BTreeMap::new() })
}

/// Plans the allocation of a server after one of its ports was deleted. The deleted port's request is unknown, so the server keeps the network
/// resources of its other ports only. Changes nothing if the allocation of another port does not fit its request: then a heal mends both.
pub fn left_behind(server: &PlacedServer<'_>) -> Result<HealPlan, String> {
    let before = server.held.clone();
    let mut charges = Amounts::new();
    for port in server.ports {
        let binding = port.bindings.iter().find(|binding| binding.host == server.host);
        let allocation = binding.and_then(|binding| binding.allocation());
        let Some((request, allocation)) = PortRequest::read(port.id, port.resource_request.as_ref())?.zip(allocation) else { continue };
        let Ok(grants) = request.grants(allocation) else {
            return Ok(HealPlan { after: before.clone(), before, keys: BTreeMap::new() });
        };
        add(&mut charges, grants.iter());
    }
    let mut after = before.clone();
    for (provider, amounts) in after.iter_mut().filter(|(provider, _)| **provider != server.node) {
        for (class, amount) in amounts.iter_mut().filter(|(class, _)| class.starts_with(NETWORK)) {
            let charges = charges.get(provider).and_then(|of| of.get(class)).copied().unwrap_or_default();
            *amount = charges.min(*amount);
        }
        amounts.retain(|_, left| *left > 0);
    }
    after.retain(|_, amounts| !amounts.is_empty());
    Ok(HealPlan { before, after, keys: BTreeMap::new() })
}

/// Returns the only providers that can give what these ports ask for.
fn choose(server: &PlacedServer<'_>, requests: &[PortRequest], tree: Vec<(Provider, Option<Uuid>)>) -> Result<Vec<Grant>, String> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let host = server.host;
    let choices = up_to(&Tree::of(tree), &query(requests, server.isolate), server.node, 2);
    match choices.len() {
        0 => Err(format!("the network of {host} cannot give what the ports ask for: migrate the server to a host that can")),
        1 => {
            let groups = requests.iter().flat_map(|request| &request.groups);
            choices.first().and_then(|only| grants(only, groups)).ok_or_else(|| "two ports have requests with one id".to_owned())
        }
        _ => Err(format!("several providers of {host} could give what the ports ask for: migrate the server, and the scheduler chooses")),
    }
}

/// Returns the tree as if the server held of its network only what it keeps.
fn without(
    mut tree: Vec<(Provider, Option<Uuid>)>,
    held: &Amounts,
    grants_to_keep: &[Grant],
    is_below: impl Fn(Uuid) -> bool,
) -> Vec<(Provider, Option<Uuid>)> {
    let mut stays = Amounts::new();
    add(&mut stays, grants_to_keep.iter());
    for (provider, _) in tree.iter_mut().filter(|(provider, _)| is_below(provider.uuid)) {
        let amount = |amounts: &Amounts, class: &String| amounts.get(&provider.uuid).and_then(|of| of.get(class)).copied().unwrap_or(0);
        let changed = provider.usages.iter().map(|(class, used)| (class.clone(), used - amount(held, class) + amount(&stays, class)));
        provider.usages = changed.collect();
    }
    tree
}

fn add<'a>(amounts: &mut Amounts, grants: impl Iterator<Item = &'a Grant>) {
    for Grant { provider, resources, .. } in grants {
        for (class, amount) in resources {
            *amounts.entry(*provider).or_default().entry(class.clone()).or_default() += amount;
        }
    }
}
