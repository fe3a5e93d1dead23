//! Creation, change and deletion of ports through the API.

pub(super) mod addresses;
pub(super) mod assemble;
pub(super) mod fixed_ips;
pub(super) mod new_ports;
mod policy;
pub(super) mod records;
pub(super) mod resource_request;
pub(super) mod routes;

use std::collections::BTreeSet;

use cellshift_store::{Conn, DbError};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::FixedIp;
use super::attributes::{PORT, checked};
use super::bindings::follow;
use super::bindings::records::ACTIVE;
use super::change::Change;
use super::floating_ips::records::FLOATING;
use super::makings::Making;
use super::records::{AddressRequest, Attributes, NetworkRecord, PortRecord, Scope, guard, patched, take_id, take_owner};
use super::{EmbeddedNetwork, absent, bindings, floating_ips, in_use, networks, qos, quotas, security_groups, shown_in};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::{self as table, Filter, PortRow};

/// The attributes of a port that a request may set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Settable {
    name: String,
    description: String,
    admin_state_up: bool,
    device_id: String,
    device_owner: String,
    mac_address: Option<String>,
    fixed_ips: Option<Vec<AddressRequest>>,
    security_groups: Option<Vec<Uuid>>,
    allowed_address_pairs: Vec<Value>,
    extra_dhcp_opts: Option<Vec<Value>>,
    port_security_enabled: bool,
    qos_policy_id: Option<Uuid>,
    tags: Vec<String>,
    #[serde(rename = "binding:host_id")]
    host: Option<String>,
    #[serde(rename = "binding:vnic_type")]
    vnic_type: String,
    #[serde(rename = "binding:profile")]
    profile: Option<serde_json::Map<String, Value>>,
}

const ADMIN_ONLY: &[&str] = &["binding:host_id", "binding:profile"];
/// The VNIC type of a port that names none.
pub(super) const NORMAL: &str = "normal";

impl EmbeddedNetwork {
    /// Returns the ports that the caller may see, oldest first.
    pub async fn ports(&self, scope: Scope, filter: Filter) -> Result<Vec<PortRecord>, ServiceError> {
        let mut filter = filter;
        if !scope.admin {
            if filter.project_id.as_ref().is_some_and(|project| *project != scope.project_id) {
                return Ok(Vec::new());
            }
            filter.project_id = Some(scope.project_id);
        }
        let records = self.read(move |conn| {
            let rows = table::list(conn, &filter)?;
            Ok(assemble::records(conn, rows)?)
        });
        Ok(records.await?.into_iter().map(|record| self.shown_record(record)).collect())
    }

    /// Returns a port that the caller may see.
    pub async fn port_record(&self, scope: Scope, id: Uuid) -> Result<PortRecord, ServiceError> {
        Ok(self.shown_record(self.read(move |conn| visible(conn, &scope, id)).await?))
    }

    /// Makes a port on a network that the caller may use.
    pub async fn add_port(&self, scope: Scope, attributes: Attributes) -> Result<PortRecord, ServiceError> {
        let record = self.make(self.new_port(scope, attributes)?).await?;
        Ok(self.shown_record(record))
    }

    /// Makes ports: all of them, or none.
    pub async fn add_ports(&self, scope: Scope, all: Vec<Attributes>) -> Result<Vec<PortRecord>, ServiceError> {
        let records = self.make_all(all, |attributes| self.new_port(scope.clone(), attributes)).await?;
        Ok(records.into_iter().map(|record| self.shown_record(record)).collect())
    }

    fn new_port(&self, scope: Scope, mut attributes: Attributes) -> Result<Making<PortRecord>, ServiceError> {
        let project_id = take_owner(&scope, &mut attributes)?;
        let network = take_id(&mut attributes, "network_id")?;
        let attributes = checked(PORT, attributes, true)?;
        let blank = blank_settable();
        let fields = patched(&blank, &attributes)?;
        guard(&scope, &blank, &fields, ADMIN_ONLY)?;
        let limits = self.limits.clone();
        addresses::check_count(&limits, fields.fixed_ips.as_deref())?;
        let default = self.new_default(project_id.clone());
        let (id, now) = (self.new_id(), self.now());
        Ok(Making::new(&project_id.clone(), move |conn| {
            let on: NetworkRecord = networks::visible(conn, &scope, network)?;
            policy::may_create(&scope, &on, &attributes)?;
            let granted = quotas::take(conn, &limits, &project_id)?;
            qos::check_policy(conn, &scope, fields.qos_policy_id)?;
            let secured = fields.port_security_enabled && (on.port_security_enabled || attributes.contains_key("port_security_enabled"));
            let groups = match &fields.security_groups {
                Some(groups) => groups.clone(),
                None if secured => vec![default.ensure(conn)?],
                None => Vec::new(),
            };
            policy::check_port_security(secured, &groups, &fields.allowed_address_pairs)?;
            security_groups::check(conn, &scope, &groups)?;
            let mac_address = match &fields.mac_address {
                Some(mac) => free_mac(conn, mac)?,
                None => addresses::mac_address(conn, id)?,
            };
            let mut row = blank_row(Blank { id, network, project_id, mac_address, now }, &groups)?;
            write_attributes(&mut row, &fields, now)?;
            row.port_security_enabled = secured;
            table::insert(conn, granted, &row)?;
            addresses::assign(conn, id, network, fields.fixed_ips.as_deref())?;
            if let Some(host) = fields.host.as_deref().filter(|host| !host.is_empty()) {
                bindings::create(conn, &row, host, None, None)?;
            }
            assemble::port(conn, id)
        }))
    }

    /// Changes a port.
    pub async fn update_port(&self, scope: Scope, id: Uuid, change: impl Into<Change>) -> Result<PortRecord, ServiceError> {
        let (now, change, limits) = (self.now(), change.into().checked(PORT)?, self.limits.clone());
        let format = self.request_format();
        self.write(None, move |conn| {
            let mut row = bindings::hold(conn, id)?;
            let record = visible(conn, &scope, id)?;
            let owner = networks::owner(conn, record.port.network_id)?;
            let attributes = change.on(&record.port.tags)?;
            policy::may_update(&scope, &owner, &attributes)?;
            let before = settable(&record);
            let mut after = patched(&before, &attributes)?;
            after.fixed_ips = after.fixed_ips.map(|requests| keeping(&record.port.fixed_ips, requests));
            guard(&scope, &before, &after, ADMIN_ONLY)?;
            let of_service = (&after.device_id, &after.device_owner, &after.fixed_ips, &after.mac_address);
            if is_the_services(&row) && of_service != (&before.device_id, &before.device_owner, &before.fixed_ips, &before.mac_address) {
                return Err(in_use(format!("Port {id} has device owner {}: its device and addresses stay.", row.device_owner)));
            }
            addresses::check_count(&limits, after.fixed_ips.as_deref())?;
            if ["port_security_enabled", "security_groups", "allowed_address_pairs"].into_iter().any(|name| attributes.contains_key(name)) {
                let groups = after.security_groups.as_deref().unwrap_or_default();
                policy::check_port_security(after.port_security_enabled, groups, &after.allowed_address_pairs)?;
            }
            qos::check_policy(conn, &scope, after.qos_policy_id)?;
            if let Some(mac) = after.mac_address.as_ref().filter(|mac| **mac != row.mac_address) {
                row.mac_address = free_mac(conn, mac)?;
            }
            if after.security_groups != before.security_groups {
                let groups = after.security_groups.clone().unwrap_or_default();
                security_groups::check(conn, &scope, &groups)?;
                row.security_groups = serde_json::to_string(&groups).map_err(DbError::from)?;
            }
            write_attributes(&mut row, &after, now)?;
            table::save(conn, &row)?;
            if after.fixed_ips != before.fixed_ips {
                floating_ips::refuse_lost_address(conn, id, after.fixed_ips.as_deref().unwrap_or_default())?;
                move_addresses(conn, &record, after.fixed_ips.as_deref().unwrap_or_default())?;
            }
            if ["binding:host_id", "binding:profile", "binding:vnic_type"].into_iter().any(|name| attributes.contains_key(name)) {
                bindings::rebind(conn, &row, &after.host.unwrap_or_default())?;
            }
            if after.qos_policy_id != before.qos_policy_id {
                let changed = shown_in(format, assemble::port(conn, id)?.port);
                follow::follow(conn, &shown_in(format, record.port), &changed)?;
            }
            assemble::port(conn, id)
        })
        .await
        .map(|record| self.shown_record(record))
    }

    /// Deletes a port. Conflict if a router has it.
    pub async fn remove_port(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            visible(conn, &scope, id)?;
            let row = bindings::hold(conn, id)?;
            if is_the_services(&row) {
                let owner = row.device_owner;
                return Err(in_use(format!("Port {id} cannot be deleted directly via the port API: has device owner {owner}.")));
            }
            table::delete(conn, &id.to_string())?;
            Ok(())
        })
        .await
    }
}

/// True for a port that only the service itself gives to a device.
fn is_the_services(row: &PortRow) -> bool {
    row.router_id.is_some() || row.project_id.is_empty() && row.device_owner == FLOATING
}

/// The values that each new port needs.
pub(super) struct Blank {
    pub(super) id: Uuid,
    pub(super) network: Uuid,
    pub(super) project_id: String,
    pub(super) mac_address: String,
    pub(super) now: DateTime<Utc>,
}

/// Makes the row of an ordinary port without a device.
pub(super) fn blank_row(blank: Blank, security_groups: &[Uuid]) -> Result<PortRow, DbError> {
    let empty_list = json!([]).to_string();
    Ok(PortRow {
        id: blank.id.to_string(),
        network_id: blank.network.to_string(),
        name: String::new(),
        project_id: blank.project_id,
        description: String::new(),
        mac_address: blank.mac_address,
        admin_state_up: true,
        device_id: String::new(),
        device_owner: String::new(),
        vnic_type: NORMAL.to_owned(),
        profile: json!({}).to_string(),
        security_groups: serde_json::to_string(security_groups)?,
        allowed_address_pairs: empty_list.clone(),
        extra_dhcp_opts: empty_list.clone(),
        port_security_enabled: true,
        qos_policy_id: None,
        tags: empty_list,
        revision_number: 1,
        created_at: blank.now.naive_utc(),
        updated_at: blank.now.naive_utc(),
        server_id: None,
        router_id: None,
    })
}

fn visible(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<PortRecord, TransactionError> {
    let record = assemble::port(conn, id)?;
    if scope.may_see(&record.port.project_id, false) {
        return Ok(record);
    }
    Err(absent("Port", id))
}

fn blank_settable() -> Settable {
    Settable {
        name: String::new(),
        description: String::new(),
        admin_state_up: true,
        device_id: String::new(),
        device_owner: String::new(),
        mac_address: None,
        fixed_ips: None,
        security_groups: None,
        allowed_address_pairs: Vec::new(),
        extra_dhcp_opts: None,
        port_security_enabled: true,
        qos_policy_id: None,
        tags: Vec::new(),
        host: None,
        vnic_type: NORMAL.to_owned(),
        profile: None,
    }
}

fn settable(record: &PortRecord) -> Settable {
    let port = &record.port;
    let active = port.bindings.iter().find(|binding| binding.status == ACTIVE);
    let request = |fixed: &FixedIp| AddressRequest { subnet_id: Some(fixed.subnet_id), ip_address: Some(fixed.ip_address.clone()) };
    Settable {
        name: port.name.clone(),
        description: record.description.clone(),
        admin_state_up: port.admin_state_up,
        device_id: port.device_id.clone(),
        device_owner: port.device_owner.clone(),
        mac_address: Some(port.mac_address.clone()),
        fixed_ips: Some(port.fixed_ips.iter().map(request).collect()),
        security_groups: Some(port.security_groups.clone()),
        allowed_address_pairs: record.allowed_address_pairs.clone(),
        extra_dhcp_opts: Some(record.extra_dhcp_opts.clone()),
        port_security_enabled: record.port_security_enabled,
        qos_policy_id: record.qos_policy_id,
        tags: port.tags.clone(),
        host: active.map(|binding| binding.host.clone()),
        vnic_type: active.map_or_else(|| port.vnic_type.clone(), |binding| binding.vnic_type.clone()),
        profile: active.map_or(&record.profile, |binding| &binding.profile).as_object().cloned(),
    }
}

fn write_attributes(row: &mut PortRow, fields: &Settable, now: DateTime<Utc>) -> Result<(), DbError> {
    row.name.clone_from(&fields.name);
    row.description.clone_from(&fields.description);
    row.admin_state_up = fields.admin_state_up;
    row.device_id.clone_from(&fields.device_id);
    row.device_owner.clone_from(&fields.device_owner);
    row.vnic_type.clone_from(&fields.vnic_type);
    row.profile = serde_json::to_string(&fields.profile.clone().unwrap_or_default())?;
    row.allowed_address_pairs = serde_json::to_string(&fields.allowed_address_pairs)?;
    row.extra_dhcp_opts = serde_json::to_string(&fields.extra_dhcp_opts.clone().unwrap_or_default())?;
    row.port_security_enabled = fields.port_security_enabled;
    row.qos_policy_id = fields.qos_policy_id.map(|id| id.to_string());
    row.tags = serde_json::to_string(&fields.tags)?;
    row.updated_at = now.naive_utc();
    Ok(())
}

/// Names an address for each entry that names a subnet alone: a present one in that subnet that no entry names, if there is one.
fn keeping(present: &[FixedIp], requests: Vec<AddressRequest>) -> Vec<AddressRequest> {
    let mut addresses: BTreeSet<String> = requests.iter().filter_map(|address| address.ip_address.clone()).collect();
    let keep = |address: AddressRequest| match (&address.ip_address, address.subnet_id) {
        (None, Some(subnet)) => {
            let mut here = present.iter().filter(|fixed| fixed.subnet_id == subnet).map(|fixed| fixed.ip_address.clone());
            AddressRequest { subnet_id: Some(subnet), ip_address: here.find(|held| addresses.insert(held.clone())) }
        }
        _ => address,
    };
    requests.into_iter().map(keep).collect()
}

/// Replaces a port's addresses.
pub(super) fn move_addresses(conn: &mut Conn, record: &PortRecord, requests: &[AddressRequest]) -> Result<(), TransactionError> {
    let port = &record.port;
    table::clear_addresses(conn, &port.id.to_string())?;
    addresses::assign(conn, port.id, port.network_id, Some(requests))?;
    Ok(())
}

fn free_mac(conn: &mut Conn, mac: &str) -> Result<String, TransactionError> {
    if table::mac_is_used(conn, mac)? {
        return Err(in_use(format!("Unable to complete operation. The mac address {mac} is in use.")));
    }
    Ok(mac.to_owned())
}
