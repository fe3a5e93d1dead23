//! How many addresses of each network's subnets there are for ports, and how many of them ports have.

pub(super) mod routes;

use std::collections::BTreeMap;

use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use uuid::Uuid;

use super::networks::records as networks;
use super::records::{IpAvailability, SubnetIps};
use super::subnets::records as table;
use super::{EmbeddedNetwork, subnets};
use crate::ServiceError;
use crate::transaction::Transactions;

impl EmbeddedNetwork {
    /// Returns the addresses of all networks, the oldest network first.
    pub async fn ip_availabilities(&self) -> Result<Vec<IpAvailability>, ServiceError> {
        self.read(|conn| Ok(all(conn)?)).await
    }
}

fn all(conn: &mut Conn) -> Result<Vec<IpAvailability>, DbError> {
    let used = table::addresses_by_subnet(conn)?;
    let mut by_network: BTreeMap<Uuid, Vec<SubnetIps>> = BTreeMap::new();
    for row in table::list(conn, Of::All)? {
        let used_ips = used.get(&row.id).copied().unwrap_or(0).unsigned_abs();
        let subnet = subnets::record(row)?;
        by_network.entry(subnet.network_id).or_default().push(SubnetIps {
            total_ips: subnets::size_of_pools(&subnet)?,
            used_ips,
            subnet_id: subnet.id,
            subnet_name: subnet.name,
            ip_version: subnet.ip_version,
            cidr: subnet.cidr,
        });
    }
    let networks = networks::list(conn)?.into_iter().map(|network| {
        let network_id = read_id("networks.id", &network.id)?;
        let subnets = by_network.remove(&network_id).unwrap_or_default();
        Ok(IpAvailability { network_id, network_name: network.name, project_id: network.project_id, subnets })
    });
    networks.collect()
}
