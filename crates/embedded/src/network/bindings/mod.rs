//! Bindings of ports to hosts: one state machine, which `effects` uses under fences and the API uses here.

pub(super) mod follow;
pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::host_network::takes_function;
use cellshift_domain::reason;
use cellshift_store::{Conn, DbError};
use serde_json::Value;
use uuid::Uuid;

use super::attributes::{BINDING, checked};
use super::ports::assemble;
use super::ports::records::{self as ports, PortRow};
use super::records::Attributes;
use super::{ALLOCATION, FunctionKeys, HostKey, HostKeys, PortBinding};
use super::{EmbeddedNetwork, absent};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::{self as table, ACTIVE, BindingRow, INACTIVE};

/// The type of virtual interface that hosts plug into their bridges.
const VIF_TYPE: &str = "ovs";
/// The type of a virtual function (SR-IOV).
const FUNCTION_VIF_TYPE: &str = "hw_veb";

impl EmbeddedNetwork {
    /// Returns the bindings of a port.
    pub async fn bindings(&self, port: Uuid) -> Result<Vec<PortBinding>, ServiceError> {
        self.read(move |conn| Ok(assemble::port(conn, port)?.port.bindings)).await
    }

    /// Adds a binding for an API caller, with the port's values for omitted attributes. Conflict if the host has a binding.
    pub async fn add_binding(&self, port: Uuid, attributes: Attributes) -> Result<PortBinding, ServiceError> {
        let binding = checked(BINDING, attributes, true)?;
        let host = text(&binding, "host").filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| ServiceError::Invalid("Failed to parse request. Required attribute 'host' not specified".into()))?;
        self.write(None, move |conn| {
            let row = hold(conn, port)?;
            if table::find(conn, &row.id, &host)?.is_some() {
                return Err(ServiceError::Conflict(reason!("Binding for port {port} on host {host} already exists.")).into());
            }
            create(conn, &row, &host, text(&binding, "vnic_type"), profile(&binding))?;
            one(conn, port, &host)
        })
        .await
    }

    /// Changes the VNIC type and profile of a binding.
    pub async fn update_binding(&self, port: Uuid, host: String, attributes: Attributes) -> Result<PortBinding, ServiceError> {
        let changes = checked(BINDING, attributes, false)?;
        self.write(None, move |conn| {
            hold(conn, port)?;
            let now = one(conn, port, &host)?;
            let profile = serde_json::to_string(&profile(&changes).unwrap_or(now.profile)).map_err(DbError::from)?;
            table::set_details(conn, &port.to_string(), &host, &text(&changes, "vnic_type").unwrap_or(now.vnic_type), &profile)?;
            one(conn, port, &host)
        })
        .await
    }

    /// Makes a binding active for an API caller. Conflict if it is active already.
    pub async fn switch_binding(&self, port: Uuid, host: String) -> Result<PortBinding, ServiceError> {
        self.write(None, move |conn| {
            let row = hold(conn, port)?;
            if one(conn, port, &host)?.status == ACTIVE {
                return Err(ServiceError::Conflict(reason!("Binding for port {port} on host {host} is already active.")).into());
            }
            table::activate(conn, &row.id, &host)?;
            one(conn, port, &host)
        })
        .await
    }

    /// Removes a binding for an API caller. NotFound if there is none.
    pub async fn remove_binding(&self, port: Uuid, host: String) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            hold(conn, port)?;
            one(conn, port, &host)?;
            table::delete(conn, &port.to_string(), &host)?;
            Ok(())
        })
        .await
    }
}

/// Locks the port's row until the transaction ends, and returns it.
pub(super) fn hold(conn: &mut Conn, port: Uuid) -> Result<PortRow, TransactionError> {
    ports::hold(conn, &port.to_string())?.ok_or_else(|| absent("Port", port))
}

/// Creates a binding on the host: INACTIVE if the port has an active one, else ACTIVE. Omitted values come from the active binding, else
/// from the port.
pub(super) fn create(
    conn: &mut Conn,
    port: &PortRow,
    host: &str,
    vnic_type: Option<String>,
    profile: Option<Value>,
) -> Result<(), DbError> {
    insert(conn, port, host, vnic_type, |like| match profile {
        Some(profile) => Ok(serde_json::to_string(&profile)?),
        // The other host's providers and functions are not this one's.
        None => with_keys(like, HostKeys::default()),
    })
}

fn insert(
    conn: &mut Conn,
    port: &PortRow,
    host: &str,
    vnic_type: Option<String>,
    profile: impl FnOnce(&str) -> Result<String, DbError>,
) -> Result<(), DbError> {
    let active = table::active(conn, &port.id)?;
    let status = if active.is_some() { INACTIVE } else { ACTIVE };
    let (like_vnic, like_profile) = match active {
        Some(binding) => (binding.vnic_type, binding.profile),
        None => (port.vnic_type.clone(), port.profile.clone()),
    };
    let vnic_type = vnic_type.unwrap_or(like_vnic);
    let row = BindingRow {
        port_id: port.id.clone(),
        host: host.to_owned(),
        status: status.to_owned(),
        vif_type: if takes_function(&vnic_type) { FUNCTION_VIF_TYPE } else { VIF_TYPE }.to_owned(),
        vnic_type,
        profile: profile(&like_profile)?,
        plugged: false,
    };
    table::insert(conn, &row)
}

/// Makes sure that there is a binding to the host, and that it has the keys.
pub(super) fn create_with(conn: &mut Conn, port: &PortRow, host: &str, keys: HostKey) -> Result<(), DbError> {
    let Some(binding) = table::find(conn, &port.id, host)? else {
        let keys = match keys {
            HostKey::Kept { or: keys } | HostKey::Are(keys) => keys,
            HostKey::AllocationIs(allocation) => HostKeys { allocation, function: None },
        };
        return insert(conn, port, host, None, |like| with_keys(like, keys));
    };
    let profile = match keys {
        HostKey::Kept { .. } => return Ok(()),
        HostKey::Are(keys) => with_keys(&binding.profile, keys)?,
        HostKey::AllocationIs(allocation) => with(&binding.profile, vec![(ALLOCATION, allocation)])?,
    };
    table::set_details(conn, &port.id, host, &binding.vnic_type, &profile)
}

/// Removes the keys of a host from what an unbound port keeps of its profile: it has no host any more.
pub(super) fn forget_host_keys(conn: &mut Conn, mut port: PortRow) -> Result<(), DbError> {
    let kept = with_keys(&port.profile, HostKeys::default())?;
    if kept == port.profile || table::active(conn, &port.id)?.is_some() {
        return Ok(());
    }
    port.profile = kept;
    ports::save(conn, &port)
}

/// Returns a profile with these keys of its host, and with its other keys. A `physical_network` goes with the function that it belongs to: an
/// operator may have written it for a port without one.
fn with_keys(profile: &str, keys: HostKeys) -> Result<String, DbError> {
    let had_function = serde_json::from_str::<FunctionKeys>(profile).is_ok();
    let mut changes = vec![(ALLOCATION, keys.allocation)];
    if had_function || keys.function.is_some() {
        let of_function = |part: fn(FunctionKeys) -> String| keys.function.clone().map(part).map(Value::String);
        changes.push(("pci_slot", of_function(|keys| keys.pci_slot)));
        changes.push(("pci_vendor_info", of_function(|keys| keys.pci_vendor_info)));
        changes.push(("physical_network", of_function(|keys| keys.physical_network)));
    }
    with(profile, changes)
}

/// Returns a profile with these keys set or removed, and with its other keys. The text of a profile that does not change stays.
fn with(profile: &str, changes: Vec<(&str, Option<Value>)>) -> Result<String, DbError> {
    let mut value: Value = serde_json::from_str(profile)?;
    if changes.iter().all(|(key, change)| value.get(key) == change.as_ref()) {
        return Ok(profile.to_owned());
    }
    if !value.is_object() {
        value = Value::Object(Attributes::new());
    }
    if let Some(keys) = value.as_object_mut() {
        for (key, change) in changes {
            match change {
                Some(change) => drop(keys.insert(key.to_owned(), change)),
                None => drop(keys.remove(key)),
            }
        }
    }
    Ok(value.to_string())
}

/// Binds the port to this host, or to none: the meaning of a port's `binding:host_id`. Inactive bindings of other hosts stay.
pub(super) fn rebind(conn: &mut Conn, port: &PortRow, host: &str) -> Result<(), DbError> {
    if let Some(active) = table::active(conn, &port.id)? {
        if active.host == host {
            return table::set_details(conn, &port.id, host, &port.vnic_type, &port.profile);
        }
        table::delete(conn, &port.id, &active.host)?;
    }
    if host.is_empty() {
        return Ok(());
    }
    if table::find(conn, &port.id, host)?.is_some() {
        table::activate(conn, &port.id, host)?;
        return table::set_details(conn, &port.id, host, &port.vnic_type, &port.profile);
    }
    create(conn, port, host, None, None)
}

fn one(conn: &mut Conn, port: Uuid, host: &str) -> Result<PortBinding, TransactionError> {
    let row = table::find(conn, &port.to_string(), host)?.ok_or_else(|| absent("Binding", format!("for port {port} on host {host}")))?;
    Ok(assemble::binding(row)?)
}

fn text(attributes: &Attributes, name: &str) -> Option<String> {
    attributes.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn profile(attributes: &Attributes) -> Option<Value> {
    attributes.get("profile").filter(|profile| !profile.is_null()).cloned()
}
