//! Looks whether a network can give a server the ports that a request names, before the request is accepted.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cellshift_store::{Conn, DbError};
use uuid::Uuid;

use super::records as ports;
use super::{addresses, assemble};
use crate::network::PortRefusal;
use crate::network::cidr::Cidr;
use crate::network::limits::RequestFormat;
use crate::network::networks::records as networks;
use crate::network::records::SubnetRecord;
use crate::network::subnets::records as table;
use crate::network::{absent, in_format, subnets};
use crate::transaction::TransactionError;

/// Returns why the network cannot give ports with these addresses; none if it can. An entry without an address takes any.
pub(in crate::network) fn refusal(
    conn: &mut Conn,
    format: RequestFormat,
    network: Uuid,
    requests: &[Option<String>],
) -> Result<Option<PortRefusal>, TransactionError> {
    let row = networks::find(conn, &network.to_string())?.ok_or_else(|| absent("Network", network))?;
    let available = addresses::subnets_of(conn, network)?;
    if available.is_empty() {
        return Ok(Some(PortRefusal::NoSubnet { network, port_security: row.port_security_enabled }));
    }
    let mut requested = BTreeSet::new();
    for address in requests.iter().flatten() {
        let place = address.parse().ok().and_then(|parsed: IpAddr| Some((parsed, subnet_for(&available, parsed)?)));
        let Some((parsed, subnet)) = place else {
            return Ok(Some(PortRefusal::WrongAddress { network, address: address.clone() }));
        };
        let device = holder(conn, subnet, parsed)?;
        if !requested.insert(parsed) || device.is_some() {
            return Ok(Some(PortRefusal::AddressInUse { address: address.clone(), device: device.unwrap_or_default() }));
        }
    }
    let unspecified = requests.iter().filter(|address| address.is_none()).count() as u128;
    if unspecified > 0 && !has_room(conn, &available, unspecified, &requested)? {
        return Ok(Some(PortRefusal::NoAddressLeft { network }));
    }
    let guaranteed = in_format(format, assemble::request_on(conn, &row)?).is_some();
    Ok(guaranteed.then_some(PortRefusal::GuaranteedMinimum { network }))
}

/// Returns the subnet in which a server's port may have the address.
fn subnet_for(available: &[SubnetRecord], address: IpAddr) -> Option<&SubnetRecord> {
    let subnet = available.iter().find(|subnet| Cidr::parse(&subnet.cidr).is_some_and(|block| block.is_usable(address)))?;
    let gateway = subnet.gateway_ip.as_deref().and_then(|text| text.parse::<IpAddr>().ok());
    (gateway != Some(address)).then_some(subnet)
}

/// Returns the device of the port that has the address.
fn holder(conn: &mut Conn, subnet: &SubnetRecord, address: IpAddr) -> Result<Option<String>, DbError> {
    let Some(port) = ports::holder_of_address(conn, &subnet.id.to_string(), &address.to_string())? else { return Ok(None) };
    Ok(Some(ports::find(conn, &port)?.map(|port| port.device_id).unwrap_or_default()))
}

/// True if each IP version of the network has this many free addresses beside the named ones.
fn has_room(conn: &mut Conn, available: &[SubnetRecord], count: u128, requested: &BTreeSet<IpAddr>) -> Result<bool, TransactionError> {
    for version in [4, 6] {
        let of_version: Vec<&SubnetRecord> = available.iter().filter(|subnet| subnet.ip_version == version).collect();
        let mut free = 0_u128;
        for subnet in &of_version {
            // Stops at the first subnet that suffices: most networks have one large subnet.
            if free < count {
                free = free.saturating_add(free_in(conn, subnet, count, requested)?);
            }
        }
        if !of_version.is_empty() && free < count {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the number of free addresses in the subnet's pools. The addresses are read only if their number may leave fewer than `count`.
fn free_in(conn: &mut Conn, subnet: &SubnetRecord, count: u128, requested: &BTreeSet<IpAddr>) -> Result<u128, TransactionError> {
    let id = subnet.id.to_string();
    let size = subnets::size_of_pools(subnet)?;
    let used = table::addresses_in_use(conn, &id)?.unsigned_abs();
    let at_least = size.saturating_sub(u128::from(used)).saturating_sub(requested.len() as u128);
    if at_least >= count {
        return Ok(at_least);
    }
    let held = ports::addresses_of_subnet(conn, &id)?;
    let of_family = requested.iter().copied().filter(|address| address.is_ipv6() == (subnet.ip_version == 6));
    let used_addresses: BTreeSet<IpAddr> = held.iter().filter_map(|text| text.parse().ok()).chain(of_family).collect();
    let in_pools = subnets::count_in_pools(subnet, used_addresses.into_iter())?;
    Ok(size.saturating_sub(in_pools))
}
