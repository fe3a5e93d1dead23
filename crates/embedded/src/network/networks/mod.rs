//! Networks.

pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::reason;
use std::collections::BTreeMap;

use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use uuid::Uuid;

use super::DEFAULT_MTU;
use super::attributes::{NETWORK, checked};
use super::bindings::follow;
use super::change::Change;
use super::floating_ips::records as floating_ips;
use super::makings::{Making, creates};
use super::ports::records as ports;
use super::records::{Attributes, NetworkRecord, Scope, guard, patched, take_owner};
use super::routers::records as routers;
use super::subnets::records as subnets;
use super::{EmbeddedNetwork, absent, in_use, quotas};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::{self as table, NetworkRow};

const ADMIN_ONLY: &[&str] =
    &["shared", "router:external", "provider:network_type", "provider:physical_network", "provider:segmentation_id"];

impl EmbeddedNetwork {
    /// Returns the networks that the caller may use, oldest first.
    pub async fn networks(&self, scope: Scope) -> Result<Vec<NetworkRecord>, ServiceError> {
        self.read(move |conn| {
            let rows = table::list(conn)?;
            let all = records(conn, rows, Of::All)?;
            Ok(all.into_iter().filter(|n| scope.may_see(&n.project_id, n.shared || n.external)).collect())
        })
        .await
    }

    /// Returns a network that the caller may use.
    pub async fn network_record(&self, scope: Scope, id: Uuid) -> Result<NetworkRecord, ServiceError> {
        self.read(move |conn| visible(conn, &scope, id)).await
    }

    creates!(NetworkRecord: create_network, create_networks by new_network);

    fn new_network(&self, scope: Scope, mut attributes: Attributes) -> Result<Making<NetworkRecord>, ServiceError> {
        let project_id = take_owner(&scope, &mut attributes)?;
        let attributes = checked(NETWORK, attributes, true)?;
        let now = self.now();
        let blank = NetworkRecord {
            id: self.new_id(),
            project_id,
            admin_state_up: true,
            mtu: DEFAULT_MTU,
            port_security_enabled: true,
            created_at: now,
            updated_at: now,
            ..NetworkRecord::default()
        };
        let mut network = patched(&blank, &attributes)?;
        guard(&scope, &blank, &network, ADMIN_ONLY)?;
        let limits = self.limits.clone();
        Ok(Making::new(&network.project_id.clone(), move |conn| {
            let granted = quotas::take(conn, &limits, &network.project_id)?;
            super::qos::check_policy(conn, &scope, network.qos_policy_id)?;
            if network.qos_policy_id.is_none() {
                network.qos_policy_id = super::qos::default_of(conn, &network.project_id)?;
            }
            table::insert(conn, granted, &row(&network)?)?;
            Ok(network)
        }))
    }

    /// Changes a network.
    pub async fn update_network(&self, scope: Scope, id: Uuid, change: impl Into<Change>) -> Result<NetworkRecord, ServiceError> {
        let (now, change, format) = (self.now(), change.into().checked(NETWORK)?, self.request_format());
        self.write(None, move |conn| {
            table::hold(conn, &id.to_string())?;
            let before = changeable(conn, &scope, id)?;
            let mut after = patched(&before, &change.on(&before.tags)?)?;
            guard(&scope, &before, &after, ADMIN_ONLY)?;
            if before.external && !after.external && routers::gateways_on(conn, &id.to_string())? > 0 {
                let text = format!("External network {id} cannot be updated to be made non-external, since it has existing gateway ports.");
                return Err(in_use(text));
            }
            super::qos::check_policy(conn, &scope, after.qos_policy_id)?;
            after.updated_at = now;
            let changes_policy = after.qos_policy_id != before.qos_policy_id;
            let followers = if changes_policy { follow::followers(conn, format, id)? } else { Vec::new() };
            table::save(conn, &row(&after)?)?;
            follow::follow_all(conn, format, &followers)?;
            Ok(after)
        })
        .await
    }

    /// Deletes a network, its subnets, and the floating IPs on it that lead nowhere. Conflict while it has ports.
    pub async fn delete_network(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            let network = changeable(conn, &scope, id)?;
            for unused in floating_ips::unused_on(conn, &id.to_string())? {
                super::floating_ips::remove(conn, &unused)?;
            }
            if ports::count_on_network(conn, &id.to_string())? > 0 {
                return Err(in_use(format!(
                    "Unable to complete operation on network {id}. There are one or more ports still in use on the network."
                )));
            }
            for subnet in network.subnets {
                subnets::delete(conn, &subnet.to_string())?;
            }
            table::delete(conn, &id.to_string())?;
            Ok(())
        })
        .await
    }
}

/// Returns a network that the caller may use.
pub(super) fn visible(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<NetworkRecord, TransactionError> {
    let rows: Vec<NetworkRow> = table::find(conn, &id.to_string())?.into_iter().collect();
    let network = records(conn, rows, Of::These(&[id.to_string()]))?.pop();
    network.filter(|n| scope.may_see(&n.project_id, n.shared || n.external)).ok_or_else(|| absent("Network", id))
}

/// Returns the project of a network without a check of rights.
pub(super) fn owner(conn: &mut Conn, id: Uuid) -> Result<String, TransactionError> {
    Ok(table::find(conn, &id.to_string())?.ok_or_else(|| absent("Network", id))?.project_id)
}

fn changeable(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<NetworkRecord, TransactionError> {
    let network = visible(conn, scope, id)?;
    if scope.may_change(&network.project_id) {
        return Ok(network);
    }
    Err(ServiceError::Forbidden(reason!("Changing network {id} is disallowed by policy")).into())
}

fn records(conn: &mut Conn, rows: Vec<NetworkRow>, of: Of<'_>) -> Result<Vec<NetworkRecord>, DbError> {
    let mut by_network: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
    for subnet in subnets::list(conn, of)? {
        by_network.entry(subnet.network_id).or_default().push(read_id("subnets.id", &subnet.id)?);
    }
    rows.into_iter()
        .map(|row| {
            let subnets = by_network.remove(&row.id).unwrap_or_default();
            record(row, subnets)
        })
        .collect()
}

fn record(row: NetworkRow, subnets: Vec<Uuid>) -> Result<NetworkRecord, DbError> {
    Ok(NetworkRecord {
        id: read_id("networks.id", &row.id)?,
        name: row.name,
        project_id: row.project_id,
        description: row.description,
        admin_state_up: row.admin_state_up,
        shared: row.shared,
        external: row.external,
        mtu: row.mtu,
        network_type: row.network_type,
        physical_network: row.physical_network,
        segmentation_id: row.segmentation_id,
        qos_policy_id: row.qos_policy_id.as_deref().map(|id| read_id("networks.qos_policy_id", id)).transpose()?,
        port_security_enabled: row.port_security_enabled,
        tags: serde_json::from_str(&row.tags)?,
        subnets,
        created_at: row.created_at.and_utc(),
        updated_at: row.updated_at.and_utc(),
    })
}

fn row(network: &NetworkRecord) -> Result<NetworkRow, DbError> {
    Ok(NetworkRow {
        id: network.id.to_string(),
        name: network.name.clone(),
        project_id: network.project_id.clone(),
        description: network.description.clone(),
        admin_state_up: network.admin_state_up,
        shared: network.shared,
        external: network.external,
        mtu: network.mtu,
        network_type: network.network_type.clone(),
        physical_network: network.physical_network.clone(),
        segmentation_id: network.segmentation_id,
        qos_policy_id: network.qos_policy_id.map(|id| id.to_string()),
        port_security_enabled: network.port_security_enabled,
        tags: serde_json::to_string(&network.tags)?,
        created_at: network.created_at.naive_utc(),
        updated_at: network.updated_at.naive_utc(),
    })
}
