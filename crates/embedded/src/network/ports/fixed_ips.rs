//! Adds an address to a port, or removes one: the part of `addFixedIp` and `removeFixedIp` of its server that the network does.

use cellshift_store::Conn;
use cellshift_store::columns::read_id;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::move_addresses;
use super::records::{self as ports, PortRow};
use super::{addresses, assemble};
use crate::network::FixedIp;
use crate::network::limits::Limits;
use crate::network::records::AddressRequest;
use crate::network::{bindings, floating_ips};
use crate::transaction::TransactionError;

/// Chooses a free address of the subnet for one more address of the port.
pub(in crate::network) fn choose(conn: &mut Conn, limits: &Limits, port: Uuid, subnet: Uuid) -> Result<FixedIp, TransactionError> {
    bindings::hold(conn, port)?;
    let port = assemble::port(conn, port)?.port;
    let one_more = AddressRequest { subnet_id: Some(subnet), ip_address: None };
    let requests: Vec<AddressRequest> = port.fixed_ips.iter().map(named).chain([one_more.clone()]).collect();
    addresses::check_count(limits, Some(&requests))?;
    addresses::choose(conn, port.id, port.network_id, &one_more)
}

/// Gives a held port an address, unless it has it.
pub(in crate::network) fn add(
    conn: &mut Conn,
    limits: &Limits,
    (row, now): (PortRow, DateTime<Utc>),
    fixed: &FixedIp,
) -> Result<(), TransactionError> {
    let present = assemble::port(conn, read_id("ports.id", &row.id)?)?.port.fixed_ips;
    if present.contains(fixed) {
        return Ok(());
    }
    let requests: Vec<AddressRequest> = present.iter().chain([fixed]).map(named).collect();
    addresses::check_count(limits, Some(&requests))?;
    set(conn, row, now, &requests)
}

/// Takes an address from a held port, unless the port has it no more.
pub(in crate::network) fn remove(conn: &mut Conn, (row, now): (PortRow, DateTime<Utc>), fixed: &FixedIp) -> Result<(), TransactionError> {
    let id = read_id("ports.id", &row.id)?;
    let present = assemble::port(conn, id)?.port.fixed_ips;
    if !present.contains(fixed) {
        return Ok(());
    }
    let requests: Vec<AddressRequest> = present.iter().filter(|held| *held != fixed).map(named).collect();
    floating_ips::refuse_lost_address(conn, id, &requests)?;
    set(conn, row, now, &requests)
}

fn set(conn: &mut Conn, mut row: PortRow, now: DateTime<Utc>, requests: &[AddressRequest]) -> Result<(), TransactionError> {
    let record = assemble::port(conn, read_id("ports.id", &row.id)?)?;
    move_addresses(conn, &record, requests)?;
    row.updated_at = now.naive_utc();
    Ok(ports::save(conn, &row)?)
}

fn named(fixed: &FixedIp) -> AddressRequest {
    AddressRequest { subnet_id: Some(fixed.subnet_id), ip_address: Some(fixed.ip_address.clone()) }
}
