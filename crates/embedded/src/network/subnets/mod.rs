//! Subnets: their blocks, gateways and allocation pools.

mod block_request;
pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use std::net::IpAddr;

use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::attributes::{SUBNET, checked};
use super::change::Change;
use super::cidr::{Cidr, number};
use super::makings::{Making, creates};
use super::networks::records as networks;
use super::networks::visible;
use super::ports::records as ports;
use super::records::{AllocationPool, Attributes, Scope, SubnetRecord, patched, take_id, take_owner};
use super::{EmbeddedNetwork, absent, in_use, quotas};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use block_request::{Block, BlockRequest};
use records::{self as table, SubnetRow};

impl EmbeddedNetwork {
    /// Returns the subnets that the caller may see, oldest first: those of the networks on which the caller may have ports. Clients take a
    /// network whose subnet they see for a network of their servers.
    pub async fn subnets(&self, scope: Scope) -> Result<Vec<SubnetRecord>, ServiceError> {
        self.read(move |conn| {
            let usable: Vec<String> =
                networks::list(conn)?.into_iter().filter(|n| scope.may_see(&n.project_id, n.shared)).map(|n| n.id).collect();
            let rows = table::list(conn, Of::These(&usable))?;
            Ok(rows.into_iter().map(record).collect::<Result<_, DbError>>()?)
        })
        .await
    }

    /// Returns a subnet of a network that the caller may use.
    pub async fn subnet(&self, scope: Scope, id: Uuid) -> Result<SubnetRecord, ServiceError> {
        self.read(move |conn| find(conn, &scope, id)).await
    }

    // By default the block's first address is the gateway's, and the rest is the pool.
    creates!(SubnetRecord: create_subnet, create_subnets by new_subnet);

    fn new_subnet(&self, scope: Scope, mut attributes: Attributes) -> Result<Making<SubnetRecord>, ServiceError> {
        let project_id = take_owner(&scope, &mut attributes)?;
        let network_id = take_id(&mut attributes, "network_id")?;
        let mut attributes = checked(SUBNET, attributes, true)?;
        attributes.remove("segment_id");
        let block_request = BlockRequest::take(&mut attributes)?;
        let draft = Draft { id: self.new_id(), project_id, network_id, attributes, now: self.now() };
        // Without a pool everything is known before the transaction.
        let ready = block_request.outside_pools().map(|block| draft.subnet(&block).map(|subnet| (subnet, block))).transpose()?;
        let limits = self.limits.clone();
        Ok(Making::new(&draft.project_id.clone(), move |conn| {
            let network = visible(conn, &scope, network_id)?;
            if !scope.may_change(&network.project_id) {
                return Err(ServiceError::Forbidden(reason!("Adding a subnet to network {network_id} is disallowed by policy")).into());
            }
            let granted = quotas::take(conn, &limits, &draft.project_id)?;
            let (subnet, block) = match ready {
                Some(ready) => ready,
                None => {
                    let block = block_request.choose(conn, &scope, &draft.project_id)?;
                    (draft.subnet(&block)?, block)
                }
            };
            block.fits_beside(network_id, &table::list(conn, Of::These(&[network_id.to_string()]))?)?;
            table::insert(conn, granted, &row(&subnet, None)?)?;
            Ok(subnet)
        }))
    }

    /// Changes a subnet.
    pub async fn update_subnet(&self, scope: Scope, id: Uuid, change: impl Into<Change>) -> Result<SubnetRecord, ServiceError> {
        let (now, change) = (self.now(), change.into().checked(SUBNET)?);
        self.write(None, move |conn| {
            let held = table::hold(conn, &id.to_string())?.ok_or_else(|| absent("Subnet", id))?;
            let before = changeable(conn, &scope, id)?;
            let mut after = patched(&before, &change.on(&before.tags)?)?;
            let block = Cidr::parse(&after.cidr).ok_or_else(|| DbError::unreadable("subnets.cidr", &after.cidr))?;
            check(&block, &after)?;
            if after.gateway_ip != before.gateway_ip {
                refuse_routers_gateway(conn, &before)?;
            }
            after.updated_at = now;
            table::save(conn, &row(&after, held.next_address)?)?;
            Ok(after)
        })
        .await
    }

    /// Deletes a subnet. Conflict while ports have addresses in it.
    pub async fn delete_subnet(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            changeable(conn, &scope, id)?;
            let id = id.to_string();
            table::hold(conn, &id)?;
            if table::addresses_in_use(conn, &id)? > 0 {
                let text =
                    format!("Unable to complete operation on subnet {id}: One or more ports have an IP allocation from this subnet.");
                return Err(in_use(text));
            }
            table::delete(conn, &id)?;
            Ok(())
        })
        .await
    }
}

/// Returns a subnet of a network that the caller may use.
pub(super) fn find(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<SubnetRecord, TransactionError> {
    let row = table::find(conn, &id.to_string())?.ok_or_else(|| absent("Subnet", id))?;
    let subnet = record(row)?;
    let network = visible(conn, scope, subnet.network_id).map_err(|_| absent("Subnet", id))?;
    // An external network is visible to all, but its subnets are not.
    if scope.may_see(&network.project_id, network.shared) { Ok(subnet) } else { Err(absent("Subnet", id)) }
}

fn changeable(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<SubnetRecord, TransactionError> {
    let subnet = find(conn, scope, id)?;
    if scope.may_change(&subnet.project_id) {
        return Ok(subnet);
    }
    Err(ServiceError::Forbidden(reason!("Changing subnet {id} is disallowed by policy")).into())
}

/// Refuses another gateway address while a router has the present one.
fn refuse_routers_gateway(conn: &mut Conn, subnet: &SubnetRecord) -> Result<(), TransactionError> {
    let Some(gateway) = &subnet.gateway_ip else { return Ok(()) };
    let Some(holder) = ports::holder_of_address(conn, &subnet.id.to_string(), gateway)? else { return Ok(()) };
    match ports::find(conn, &holder)?.filter(|port| port.router_id.is_some()) {
        Some(port) => Err(in_use(format!("Current gateway ip {gateway} already in use by port {}. Unable to update.", port.id))),
        None => Ok(()),
    }
}

/// A new subnet before its block is known.
struct Draft {
    id: Uuid,
    project_id: String,
    network_id: Uuid,
    attributes: Attributes,
    now: DateTime<Utc>,
}

impl Draft {
    fn subnet(&self, block: &Block) -> Result<SubnetRecord, ServiceError> {
        let cidr = &block.cidr;
        let blank = SubnetRecord {
            id: self.id,
            network_id: self.network_id,
            project_id: self.project_id.clone(),
            ip_version: cidr.version(),
            cidr: cidr.to_string(),
            subnetpool_id: block.pool,
            gateway_ip: cidr.usable().map(|(first, _)| cidr.address(first).to_string()),
            enable_dhcp: true,
            created_at: self.now,
            updated_at: self.now,
            ..SubnetRecord::default()
        };
        let mut subnet = patched(&blank, &self.attributes)?;
        if subnet.allocation_pools.is_empty() {
            subnet.allocation_pools = default_pools(cidr, subnet.gateway_ip.as_deref());
        }
        check(cidr, &subnet)?;
        Ok(subnet)
    }
}

fn default_pools(block: &Cidr, gateway: Option<&str>) -> Vec<AllocationPool> {
    let Some((first, last)) = block.usable() else { return Vec::new() };
    let pool = |start: u128, end: u128| AllocationPool { start: block.address(start).to_string(), end: block.address(end).to_string() };
    match gateway.and_then(|text| text.parse::<IpAddr>().ok()).map(number) {
        Some(gateway) if (first..=last).contains(&gateway) => {
            let below = (gateway > first).then(|| pool(first, gateway - 1));
            let above = (gateway < last).then(|| pool(gateway + 1, last));
            below.into_iter().chain(above).collect()
        }
        _ => vec![pool(first, last)],
    }
}

fn check(block: &Cidr, subnet: &SubnetRecord) -> Result<(), ServiceError> {
    let invalid = |why: Reason| Err(ServiceError::Invalid(why));
    let gateway = match &subnet.gateway_ip {
        None => None,
        Some(text) => match text.parse::<IpAddr>() {
            // A gateway may be outside the subnet; guests then reach it by a route of their own.
            Ok(address) if address.is_ipv6() == (block.version() == 6) => Some(number(address)).filter(|_| block.contains(address)),
            _ => return invalid(reason!("Invalid input for gateway_ip. Reason: '{text}' is not of the IP version of {block}.")),
        },
    };
    let mut ranges = pools(subnet).ok_or_else(|| ServiceError::Invalid("Invalid input for allocation_pools: not addresses".into()))?;
    ranges.sort_unstable();
    for pool in &subnet.allocation_pools {
        let inside = [&pool.start, &pool.end].into_iter().all(|text| text.parse().is_ok_and(|address| block.is_usable(address)));
        if !inside {
            return invalid(reason!("The allocation pool {}-{} spans beyond the subnet cidr {block}.", pool.start, pool.end));
        }
    }
    if ranges.iter().any(|(start, end)| start > end || gateway.is_some_and(|gateway| (*start..=*end).contains(&gateway))) {
        return invalid("An allocation pool ends before it starts or contains the gateway.".into());
    }
    if ranges.windows(2).any(|pair| pair[0].1 >= pair[1].0) {
        return invalid("Allocation pools overlap.".into());
    }
    let of_another_version = |route: &&Value| {
        route["nexthop"].as_str().and_then(|text| text.parse::<IpAddr>().ok()).is_none_or(|ip| ip.is_ipv6() != (block.version() == 6))
    };
    match subnet.host_routes.iter().find(of_another_version) {
        Some(route) => invalid(reason!("Invalid input for host_routes. Reason: {route} is not of the IP version of {block}.")),
        None => Ok(()),
    }
}

/// Returns a subnet's pools as numbers; none if a pool is not made of addresses.
pub(super) fn pools(subnet: &SubnetRecord) -> Option<Vec<(u128, u128)>> {
    let read = |text: &str| text.parse::<IpAddr>().ok().map(number);
    subnet.allocation_pools.iter().map(|pool| Some((read(&pool.start)?, read(&pool.end)?))).collect()
}

/// Returns a stored subnet's pools as numbers.
pub(super) fn read_pools(subnet: &SubnetRecord) -> Result<Vec<(u128, u128)>, DbError> {
    pools(subnet).ok_or_else(|| DbError::unreadable("subnets.allocation_pools", &subnet.cidr))
}

/// Returns the number of addresses in a subnet's pools.
pub(super) fn size_of_pools(subnet: &SubnetRecord) -> Result<u128, DbError> {
    Ok(read_pools(subnet)?.iter().fold(0, |sum: u128, (start, end)| sum.saturating_add((end - start).saturating_add(1))))
}

/// Returns the number of these addresses that are in a subnet's pools.
pub(super) fn count_in_pools(subnet: &SubnetRecord, addresses: impl Iterator<Item = IpAddr>) -> Result<u128, DbError> {
    let pools = read_pools(subnet)?;
    Ok(addresses.map(number).filter(|n| pools.iter().any(|(start, end)| (start..=end).contains(&n))).count() as u128)
}

/// Converts a row into a subnet for callers.
pub(super) fn record(row: SubnetRow) -> Result<SubnetRecord, DbError> {
    Ok(SubnetRecord {
        id: read_id("subnets.id", &row.id)?,
        network_id: read_id("subnets.network_id", &row.network_id)?,
        name: row.name,
        project_id: row.project_id,
        description: row.description,
        ip_version: row.ip_version,
        cidr: row.cidr,
        subnetpool_id: row.subnetpool_id.as_deref().map(|id| read_id("subnets.subnetpool_id", id)).transpose()?,
        gateway_ip: row.gateway_ip,
        allocation_pools: serde_json::from_str(&row.allocation_pools)?,
        dns_nameservers: serde_json::from_str(&row.dns_nameservers)?,
        host_routes: serde_json::from_str(&row.host_routes)?,
        enable_dhcp: row.enable_dhcp,
        tags: serde_json::from_str(&row.tags)?,
        created_at: row.created_at.and_utc(),
        updated_at: row.updated_at.and_utc(),
    })
}

fn row(subnet: &SubnetRecord, next_address: Option<String>) -> Result<SubnetRow, DbError> {
    Ok(SubnetRow {
        id: subnet.id.to_string(),
        network_id: subnet.network_id.to_string(),
        name: subnet.name.clone(),
        project_id: subnet.project_id.clone(),
        description: subnet.description.clone(),
        ip_version: subnet.ip_version,
        cidr: subnet.cidr.clone(),
        gateway_ip: subnet.gateway_ip.clone(),
        allocation_pools: serde_json::to_string(&subnet.allocation_pools)?,
        dns_nameservers: serde_json::to_string(&subnet.dns_nameservers)?,
        host_routes: serde_json::to_string(&subnet.host_routes)?,
        enable_dhcp: subnet.enable_dhcp,
        tags: serde_json::to_string(&subnet.tags)?,
        next_address,
        created_at: subnet.created_at.naive_utc(),
        updated_at: subnet.updated_at.naive_utc(),
        subnetpool_id: subnet.subnetpool_id.map(|id| id.to_string()),
    })
}
