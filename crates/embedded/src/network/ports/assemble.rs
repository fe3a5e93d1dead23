//! Builds ports from their rows: addresses, bindings, the network's name, and the resource request of the QoS policy.

use std::collections::{BTreeMap, BTreeSet};

use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use serde_json::Value;
use uuid::Uuid;

use super::NORMAL;
use super::records::{self as ports, AddressRow, PortRow};
use super::{addresses, resource_request};
use crate::network::bindings::records::{self as bindings, ACTIVE, BindingRow};
use crate::network::networks::records::{self as networks, NetworkRow};
use crate::network::qos::records as policies;
use crate::network::records::{PortRecord, QosRule};
use crate::network::{Port, PortBinding};
use crate::network::{absent, qos};
use crate::transaction::TransactionError;

/// For more ports than this, their parts are read whole instead of by id.
const BY_ID_MAX: usize = 500;

/// Returns the port with this id.
pub(in crate::network) fn port(conn: &mut Conn, id: Uuid) -> Result<PortRecord, TransactionError> {
    let row = ports::find(conn, &id.to_string())?.ok_or_else(|| absent("Port", id))?;
    records(conn, vec![row])?.pop().ok_or_else(|| absent("Port", id))
}

/// Returns ports in the order of `rows`.
pub(in crate::network) fn records(conn: &mut Conn, rows: Vec<PortRow>) -> Result<Vec<PortRecord>, DbError> {
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let of = if ids.len() > BY_ID_MAX { Of::All } else { Of::These(&ids) };
    let mut parts = Parts::read(conn, &rows, of)?;
    rows.into_iter().map(|row| parts.assemble(row)).collect()
}

/// Returns what an ordinary port without a policy of its own asks for on this network.
pub(in crate::network) fn request_on(conn: &mut Conn, network: &NetworkRow) -> Result<Option<Value>, DbError> {
    let Some(policy) = &network.qos_policy_id else { return Ok(None) };
    let rules = policies::rules(conn, Of::These(std::slice::from_ref(policy)))?;
    let rules: Vec<QosRule> = rules.into_iter().map(qos::rule).collect::<Result<_, _>>()?;
    Ok(resource_request::in_groups(Uuid::nil(), NORMAL, network.physical_network.as_deref(), &rules))
}

struct Parts {
    addresses: BTreeMap<String, Vec<AddressRow>>,
    bindings: BTreeMap<String, Vec<BindingRow>>,
    networks: BTreeMap<String, NetworkRow>,
    rules: BTreeMap<Uuid, Vec<QosRule>>,
}

impl Parts {
    fn read(conn: &mut Conn, rows: &[PortRow], of: Of<'_>) -> Result<Parts, DbError> {
        let mut addresses: BTreeMap<String, Vec<AddressRow>> = BTreeMap::new();
        for row in ports::addresses(conn, of)? {
            addresses.entry(row.port_id.clone()).or_default().push(row);
        }
        let mut bound: BTreeMap<String, Vec<BindingRow>> = BTreeMap::new();
        for row in bindings::list(conn, of)? {
            bound.entry(row.port_id.clone()).or_default().push(row);
        }
        let ids: BTreeSet<&String> = rows.iter().map(|row| &row.network_id).collect();
        let ids: Vec<String> = ids.into_iter().cloned().collect();
        let networks: BTreeMap<String, NetworkRow> = networks::these(conn, &ids)?.into_iter().map(|row| (row.id.clone(), row)).collect();
        let used: BTreeSet<&String> = rows
            .iter()
            .filter_map(|row| row.qos_policy_id.as_ref())
            .chain(networks.values().filter_map(|n| n.qos_policy_id.as_ref()))
            .collect();
        let used: Vec<String> = used.into_iter().cloned().collect();
        let mut rules: BTreeMap<Uuid, Vec<QosRule>> = BTreeMap::new();
        if !used.is_empty() {
            for row in policies::rules(conn, Of::These(&used))? {
                let rule = qos::rule(row)?;
                rules.entry(rule.policy_id).or_default().push(rule);
            }
        }
        Ok(Parts { addresses, bindings: bound, networks, rules })
    }

    fn assemble(&mut self, row: PortRow) -> Result<PortRecord, DbError> {
        let id = read_id("ports.id", &row.id)?;
        let network = self.networks.get(&row.network_id);
        let policy = |text: &Option<String>| text.as_deref().map(|id| read_id("qos_policy_id", id)).transpose();
        let (own, of_network) = (policy(&row.qos_policy_id)?, network.map(|n| policy(&n.qos_policy_id)).transpose()?.flatten());
        let rules = own.or(of_network).and_then(|policy| self.rules.get(&policy));
        let physical = network.and_then(|network| network.physical_network.clone());
        let bindings: Vec<PortBinding> =
            self.bindings.remove(&row.id).unwrap_or_default().into_iter().map(binding).collect::<Result<_, _>>()?;
        let live = row.admin_state_up && bindings.iter().any(|binding| binding.status == ACTIVE && binding.plugged);
        let port = Port {
            id,
            name: row.name,
            project_id: row.project_id,
            network_id: read_id("ports.network_id", &row.network_id)?,
            network_name: network.map(|network| network.name.clone()).unwrap_or_default(),
            mac_address: row.mac_address,
            fixed_ips: addresses::fixed_ips(self.addresses.remove(&row.id).unwrap_or_default())?,
            device_id: row.device_id,
            device_owner: row.device_owner,
            server: row.server_id.as_deref().map(|id| read_id("ports.server_id", id)).transpose()?,
            status: if live || row.router_id.is_some() && row.admin_state_up { "ACTIVE" } else { "DOWN" }.to_owned(),
            admin_state_up: row.admin_state_up,
            security_groups: serde_json::from_str(&row.security_groups)?,
            bindings,
            vnic_type: row.vnic_type.clone(),
            physical_network: physical.clone(),
            resource_request: rules.and_then(|rules| resource_request::in_groups(id, &row.vnic_type, physical.as_deref(), rules)),
            tags: serde_json::from_str(&row.tags)?,
        };
        Ok(PortRecord {
            port,
            description: row.description,
            profile: serde_json::from_str(&row.profile)?,
            allowed_address_pairs: serde_json::from_str(&row.allowed_address_pairs)?,
            extra_dhcp_opts: serde_json::from_str(&row.extra_dhcp_opts)?,
            port_security_enabled: row.port_security_enabled,
            qos_policy_id: own,
            qos_network_policy_id: of_network,
            revision_number: row.revision_number,
            created_at: row.created_at.and_utc(),
            updated_at: row.updated_at.and_utc(),
        })
    }
}

/// Converts a row into a binding for callers.
pub(in crate::network) fn binding(row: BindingRow) -> Result<PortBinding, DbError> {
    Ok(PortBinding {
        host: row.host,
        status: row.status,
        vnic_type: row.vnic_type,
        vif_type: row.vif_type,
        profile: serde_json::from_str(&row.profile)?,
        plugged: row.plugged,
    })
}
