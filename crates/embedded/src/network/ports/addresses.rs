//! Chooses ports' addresses and MAC addresses.

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use std::collections::BTreeSet;
use std::net::IpAddr;

use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use uuid::Uuid;

use super::records::{self as ports, AddressRow};
use crate::ServiceError;
use crate::network::FixedIp;
use crate::network::cidr::{Cidr, number};
use crate::network::limits::Limits;
use crate::network::records::{AddressRequest, SubnetRecord};
use crate::network::subnets::records as table;
use crate::network::{in_use, subnets};
use crate::transaction::TransactionError;

/// The number of addresses after the last assigned one that are tried before all used addresses are read.
const TRIES: usize = 16;

/// Refuses more addresses than a port may have.
pub(in crate::network) fn check_count(limits: &Limits, requests: Option<&[AddressRequest]>) -> Result<(), ServiceError> {
    match requests {
        Some(requests) if requests.len() > limits.max_fixed_ips_per_port => {
            Err(ServiceError::Invalid("Invalid input for operation: Exceeded maximum amount of fixed ips per port.".into()))
        }
        _ => Ok(()),
    }
}

/// Assigns a port its addresses: the requested ones or, if the request names none, one per IP version of the network.
pub(in crate::network) fn assign(
    conn: &mut Conn,
    port: Uuid,
    network: Uuid,
    requests: Option<&[AddressRequest]>,
) -> Result<Vec<FixedIp>, TransactionError> {
    let available = subnets_of(conn, network)?;
    let Some(requests) = requests else {
        let chosen = any(conn, network, &available)?;
        for (place, fixed) in chosen.iter().enumerate() {
            hold(conn, port, place, fixed)?;
        }
        return Ok(chosen);
    };
    // The named addresses first, so that none of them is chosen for an entry that names a subnet alone.
    let (with_address, without_address): (Vec<_>, Vec<_>) =
        requests.iter().enumerate().partition(|(_, address)| address.ip_address.is_some());
    let mut chosen = Vec::new();
    for (place, address) in with_address.into_iter().chain(without_address) {
        let fixed = one(conn, port, network, &available, address)?;
        hold(conn, port, place, &fixed)?;
        chosen.push((place, fixed));
    }
    chosen.sort_by_key(|(place, _)| *place);
    Ok(chosen.into_iter().map(|(_, fixed)| fixed).collect())
}

/// Chooses an address of a port's network without assigning it. The next choice is another one.
pub(in crate::network) fn choose(
    conn: &mut Conn,
    port: Uuid,
    network: Uuid,
    request: &AddressRequest,
) -> Result<FixedIp, TransactionError> {
    let available = subnets_of(conn, network)?;
    one(conn, port, network, &available, request)
}

/// Returns the subnets of a network, oldest first.
pub(in crate::network) fn subnets_of(conn: &mut Conn, network: Uuid) -> Result<Vec<SubnetRecord>, TransactionError> {
    let rows = table::list(conn, Of::These(&[network.to_string()]))?;
    Ok(rows.into_iter().map(subnets::record).collect::<Result<_, DbError>>()?)
}

fn hold(conn: &mut Conn, port: Uuid, place: usize, fixed: &FixedIp) -> Result<(), DbError> {
    let row = AddressRow {
        subnet_id: fixed.subnet_id.to_string(),
        ip_address: fixed.ip_address.clone(),
        port_id: port.to_string(),
        place: place as i32,
    };
    ports::add_address(conn, &row)
}

/// Returns the addresses of a port, in order.
pub(in crate::network) fn fixed_ips(rows: Vec<AddressRow>) -> Result<Vec<FixedIp>, DbError> {
    rows.into_iter()
        .map(|row| Ok(FixedIp { subnet_id: read_id("port_addresses.subnet_id", &row.subnet_id)?, ip_address: row.ip_address }))
        .collect()
}

/// Returns an unused MAC address, derived from the port's id so that a replay makes the same address.
pub(in crate::network) fn mac_address(conn: &mut Conn, port: Uuid) -> Result<String, DbError> {
    let mut salt = 0u32;
    loop {
        let bytes = Uuid::new_v5(&port, &salt.to_be_bytes()).into_bytes();
        let mac = format!("fa:16:3e:{:02x}:{:02x}:{:02x}", bytes[0], bytes[1], bytes[2]);
        if !ports::mac_is_used(conn, &mac)? {
            return Ok(mac);
        }
        salt += 1;
    }
}

fn any(conn: &mut Conn, network: Uuid, available: &[SubnetRecord]) -> Result<Vec<FixedIp>, TransactionError> {
    let mut chosen = Vec::new();
    for version in [4, 6] {
        let of_version: Vec<&SubnetRecord> = available.iter().filter(|subnet| subnet.ip_version == version).collect();
        let mut free = None;
        for subnet in &of_version {
            free = next_free(conn, subnet)?;
            if free.is_some() {
                break;
            }
        }
        match free {
            Some(fixed) => chosen.push(fixed),
            None if of_version.is_empty() => {}
            None => return Err(in_use(format!("No more IP addresses available on network {network}."))),
        }
    }
    Ok(chosen)
}

fn one(
    conn: &mut Conn,
    port: Uuid,
    network: Uuid,
    available: &[SubnetRecord],
    request: &AddressRequest,
) -> Result<FixedIp, TransactionError> {
    let invalid = |why: Reason| TransactionError::Service(ServiceError::Invalid(why));
    let subnet = request.subnet_id.map(|id| {
        let subnet = available.iter().find(|subnet| subnet.id == id);
        subnet.ok_or_else(|| invalid(reason!("Subnet {id} is not one of network {network}.")))
    });
    let subnet = subnet.transpose()?;
    let Some(text) = &request.ip_address else {
        let Some(subnet) = subnet else { return Err(invalid("A fixed IP needs a subnet or an address.".into())) };
        let free = next_free(conn, subnet)?;
        return free.ok_or_else(|| in_use(format!("No more IP addresses available on subnet {}.", subnet.id)));
    };
    let address: IpAddr = text.parse().map_err(|_| invalid(reason!("'{text}' is not a valid IP address.")))?;
    let holds = |subnet: &&SubnetRecord| Cidr::parse(&subnet.cidr).is_some_and(|block| block.is_usable(address));
    let subnet = match subnet {
        Some(subnet) => Some(subnet).filter(holds),
        None => available.iter().find(holds),
    };
    let subnet =
        subnet.ok_or_else(|| invalid(reason!("IP address {address} is not a valid IP for any of the subnets on network {network}.")))?;
    if subnet.gateway_ip.as_deref() == Some(&address.to_string()) {
        return Err(in_use(format!("IP address {address} is the gateway of subnet {}.", subnet.id)));
    }
    table::hold(conn, &subnet.id.to_string())?;
    match ports::holder_of_address(conn, &subnet.id.to_string(), &address.to_string())? {
        Some(holder) if holder != port.to_string() => {
            Err(in_use(format!("IP address {address} already allocated in subnet {}", subnet.id)))
        }
        _ => Ok(FixedIp { subnet_id: subnet.id, ip_address: address.to_string() }),
    }
}

/// Returns the next free address after the last assigned one, so that a released address is not reused at once.
fn next_free(conn: &mut Conn, subnet: &SubnetRecord) -> Result<Option<FixedIp>, TransactionError> {
    let id = subnet.id.to_string();
    let Some(held) = table::hold(conn, &id)? else { return Ok(None) };
    let block = Cidr::parse(&subnet.cidr).ok_or_else(|| DbError::unreadable("subnets.cidr", &subnet.cidr))?;
    let pools = subnets::read_pools(subnet)?;
    let Some(&(first, _)) = pools.first() else { return Ok(None) };
    let hint = held.next_address.and_then(|text| text.parse::<IpAddr>().ok()).map(number);
    let mut candidate = hint.filter(|n| pools.iter().any(|(start, end)| (start..=end).contains(&n))).unwrap_or(first);
    for _ in 0..TRIES {
        let text = block.address(candidate).to_string();
        if ports::holder_of_address(conn, &id, &text)?.is_none() {
            return Ok(Some(take(conn, subnet, &block, &pools, candidate)?));
        }
        candidate = following(&pools, candidate);
    }
    let used: BTreeSet<u128> =
        ports::addresses_of_subnet(conn, &id)?.iter().filter_map(|text| text.parse::<IpAddr>().ok()).map(number).collect();
    let free = pools.iter().find_map(|(start, end)| (*start..=*end).find(|n| !used.contains(n)));
    free.map(|n| take(conn, subnet, &block, &pools, n)).transpose().map_err(TransactionError::from)
}

fn take(conn: &mut Conn, subnet: &SubnetRecord, block: &Cidr, pools: &[(u128, u128)], chosen: u128) -> Result<FixedIp, DbError> {
    table::set_next_address(conn, &subnet.id.to_string(), &block.address(following(pools, chosen)).to_string())?;
    Ok(FixedIp { subnet_id: subnet.id, ip_address: block.address(chosen).to_string() })
}

/// Returns the address after `n` in the pools. After the last address comes the first.
fn following(pools: &[(u128, u128)], n: u128) -> u128 {
    let at = pools.iter().position(|(start, end)| (*start..=*end).contains(&n)).unwrap_or(0);
    if n < pools[at].1 { n + 1 } else { pools[(at + 1) % pools.len()].0 }
}
