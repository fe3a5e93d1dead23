//! The calls of sagas, hosts and the compute API on ports. Each effect carries its server's fence and may be repeated.

use std::collections::BTreeMap;

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use serde_json::json;
use uuid::Uuid;

use super::bindings::records as bound;
use super::floating_ips::records as floating_ips;
use super::networks::records::{self as networks, NetworkRow};
use super::ports::records::{self as ports, PortRow};
use super::ports::{Blank, blank_row};
use super::ports::{addresses, assemble, fixed_ips, new_ports};
use super::records::{AddressRequest, Scope};
use super::security_groups::records as security_groups;
use super::{EmbeddedNetwork, absent, bindings, in_use, quotas};
use super::{FixedIp, GROUPS_NEED_SECURITY, HostKey, Network, NetworkService, NewPort, Port, PortRefusal};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};

/// The device owner of a server's port. Nova appends the zone, which is not known yet when a port is bound.
const DEVICE_OWNER: &str = "compute:nova";

#[async_trait]
impl NetworkService for EmbeddedNetwork {
    async fn networks_for(&self, project_id: &str) -> Result<Vec<Network>, ServiceError> {
        let project = project_id.to_owned();
        self.read(move |conn| {
            let usable = networks::list(conn)?.into_iter().filter(|n| n.shared || n.project_id == project);
            Ok(usable.map(network).collect::<Result<_, DbError>>()?)
        })
        .await
    }

    async fn network(&self, id: Uuid) -> Result<Network, ServiceError> {
        self.read(move |conn| {
            let row = networks::find(conn, &id.to_string())?.ok_or_else(|| absent("Network", id))?;
            Ok(network(row)?)
        })
        .await
    }

    async fn port(&self, id: Uuid) -> Result<Port, ServiceError> {
        Ok(self.shown(self.read(move |conn| Ok(assemble::port(conn, id)?.port)).await?))
    }

    async fn ports_of(&self, server: Uuid) -> Result<Vec<Port>, ServiceError> {
        let records = self.read(move |conn| {
            let rows = ports::of_servers(conn, &[server.to_string()])?;
            Ok(plain(conn, rows)?)
        });
        Ok(records.await?.into_iter().map(|port| self.shown(port)).collect())
    }

    async fn holders(&self, ports: Vec<Uuid>) -> Result<BTreeMap<Uuid, Uuid>, ServiceError> {
        let ports: Vec<String> = ports.iter().map(Uuid::to_string).collect();
        self.read(move |conn| {
            let rows = ports::holders(conn, &ports)?.into_iter();
            let read = |(port, server): (String, String)| Ok((read_id("ports.id", &port)?, read_id("ports.server_id", &server)?));
            Ok(rows.map(read).collect::<Result<_, DbError>>()?)
        })
        .await
    }

    async fn security_group_names(&self, servers: Vec<Uuid>) -> Result<BTreeMap<Uuid, Vec<String>>, ServiceError> {
        let servers: Vec<String> = servers.iter().map(Uuid::to_string).collect();
        self.read(move |conn| {
            let names: BTreeMap<String, String> = security_groups::list(conn)?.into_iter().map(|row| (row.id, row.name)).collect();
            let mut by_server: BTreeMap<Uuid, Vec<String>> = BTreeMap::new();
            for row in ports::of_servers(conn, &servers)? {
                let of_server = by_server.entry(read_id("ports.server_id", row.server_id.as_deref().unwrap_or_default())?).or_default();
                let groups: Vec<String> = serde_json::from_str(&row.security_groups).map_err(DbError::from)?;
                for name in groups.iter().filter_map(|id| names.get(id)) {
                    if !of_server.contains(name) {
                        of_server.push(name.clone());
                    }
                }
            }
            Ok(by_server)
        })
        .await
    }

    async fn security_groups_for(&self, project_id: &str) -> Result<Vec<(Uuid, String)>, ServiceError> {
        let project = project_id.to_owned();
        self.read(move |conn| {
            let groups = security_groups::list(conn)?.into_iter().filter(|row| row.project_id == project);
            Ok(groups.map(|row| Ok((read_id("the id of a security group", &row.id)?, row.name))).collect::<Result<_, DbError>>()?)
        })
        .await
    }

    async fn floating_ips_of(&self, ports: Vec<Uuid>) -> Result<BTreeMap<Uuid, Vec<String>>, ServiceError> {
        let ports: Vec<String> = ports.iter().map(Uuid::to_string).collect();
        self.read(move |conn| {
            let mut addresses: BTreeMap<Uuid, Vec<String>> = BTreeMap::new();
            for row in floating_ips::of_ports(conn, Of::These(&ports))? {
                let port = read_id("floating_ips.port_id", row.port_id.as_deref().unwrap_or_default())?;
                addresses.entry(port).or_default().push(row.floating_ip_address);
            }
            Ok(addresses)
        })
        .await
    }

    async fn floating_ip_with(&self, scope: Scope, address: String) -> Result<Option<(Uuid, Option<Uuid>)>, ServiceError> {
        let floating_ip = self.floating_ips(scope).await?.into_iter().find(|floating| floating.floating_ip_address == address);
        Ok(floating_ip.map(|floating| (floating.id, floating.port_id)))
    }

    async fn lead_floating_ip(&self, scope: Scope, id: Uuid, to: Option<(Uuid, String)>) -> Result<(), ServiceError> {
        let change = match to {
            Some((port, address)) => json!({"port_id": port, "fixed_ip_address": address}),
            None => json!({"port_id": null}),
        };
        let change = change.as_object().cloned().unwrap_or_default();
        self.update_floating_ip(scope, id, change).await.map(|_| ())
    }

    async fn choose_fixed_ip(&self, port: Uuid, subnet: Uuid) -> Result<FixedIp, ServiceError> {
        let limits = self.limits.clone();
        self.write(None, move |conn| fixed_ips::choose(conn, &limits, port, subnet)).await
    }

    async fn add_fixed_ip(&self, fence: Fence, port: Uuid, fixed: FixedIp) -> Result<(), ServiceError> {
        let (now, limits) = (self.now(), self.limits.clone());
        self.write(Some(fence), move |conn| {
            let row = bindings::hold(conn, port)?;
            refuse_other_holder(&row, fence.server)?;
            fixed_ips::add(conn, &limits, (row, now), &fixed)
        })
        .await
    }

    async fn remove_fixed_ip(&self, fence: Fence, port: Uuid, fixed: FixedIp) -> Result<(), ServiceError> {
        let now = self.now();
        self.write(Some(fence), move |conn| match ports::hold(conn, &port.to_string())? {
            Some(row) if is_free_for(&row, fence.server) => fixed_ips::remove(conn, (row, now), &fixed),
            _ => Ok(()),
        })
        .await
    }

    async fn set_security_groups(&self, port: Uuid, groups: Vec<Uuid>) -> Result<(), ServiceError> {
        let now = self.now();
        self.write(None, move |conn| {
            let mut row = bindings::hold(conn, port)?;
            if !row.port_security_enabled && !groups.is_empty() {
                return Err(ServiceError::Invalid(GROUPS_NEED_SECURITY.into()).into());
            }
            row.security_groups = serde_json::to_string(&groups).map_err(DbError::from)?;
            row.updated_at = now.naive_utc();
            ports::save(conn, &row)?;
            Ok(())
        })
        .await
    }

    async fn room_for_ports(&self, project_id: &str) -> Result<Option<i64>, ServiceError> {
        self.port_room(project_id.to_owned()).await
    }

    async fn refusal_of_ports(&self, network: Uuid, addresses: Vec<Option<String>>) -> Result<Option<PortRefusal>, ServiceError> {
        let format = self.request_format();
        self.read(move |conn| new_ports::refusal(conn, format, network, &addresses)).await
    }

    async fn supports_extended_bindings(&self) -> Result<bool, ServiceError> {
        // Reads the database in any case, because a service that is down cannot say which extensions it has.
        let supported = self.extended_bindings;
        self.read(move |_| Ok(supported)).await
    }

    async fn create_port(&self, fence: Fence, port: NewPort) -> Result<Port, ServiceError> {
        let default = self.new_default(port.project_id.clone());
        let (now, limits) = (self.now(), self.limits.clone());
        self.make_turn(&port.project_id).await?;
        self.write(Some(fence), move |conn| {
            if let Some(row) = ports::find(conn, &port.id.to_string())? {
                refuse_other_holder(&row, fence.server)?;
                return Ok(assemble::port(conn, port.id)?.port);
            }
            let on = networks::find(conn, &port.network_id.to_string())?.ok_or_else(|| absent("Network", port.network_id))?;
            let granted = quotas::take(conn, &limits, &port.project_id)?;
            let mac_address = addresses::mac_address(conn, port.id)?;
            let blank = Blank { id: port.id, network: port.network_id, project_id: port.project_id, mac_address, now };
            let groups = match on.port_security_enabled {
                true if port.security_groups.is_empty() => vec![default.ensure(conn)?],
                true => port.security_groups,
                // A request that names groups was refused; the network's port security may have been switched off since.
                false => Vec::new(),
            };
            let mut row = blank_row(blank, &groups)?;
            row.port_security_enabled = on.port_security_enabled;
            give_to(&mut row, fence.server);
            ports::insert(conn, granted, &row)?;
            let addresses = port.fixed_ip.map(|address| vec![AddressRequest { subnet_id: None, ip_address: Some(address) }]);
            addresses::assign(conn, port.id, port.network_id, addresses.as_deref())?;
            Ok(assemble::port(conn, port.id)?.port)
        })
        .await
        .map(|port| self.shown(port))
    }

    async fn claim_port(&self, fence: Fence, port: Uuid) -> Result<Port, ServiceError> {
        let now = self.now();
        self.write(Some(fence), move |conn| {
            let mut row = bindings::hold(conn, port)?;
            refuse_other_holder(&row, fence.server)?;
            give_to(&mut row, fence.server);
            row.updated_at = now.naive_utc();
            ports::save(conn, &row)?;
            Ok(assemble::port(conn, port)?.port)
        })
        .await
        .map(|port| self.shown(port))
    }

    async fn release_port(&self, fence: Fence, port: Uuid) -> Result<(), ServiceError> {
        let now = self.now();
        self.write(Some(fence), move |conn| {
            // Another server's port was never this server's, or no longer is, so there is nothing to release.
            let held = ports::hold(conn, &port.to_string())?;
            let Some(mut row) = held.filter(|row| row.server_id == Some(fence.server.to_string())) else { return Ok(()) };
            bound::clear(conn, &row.id)?;
            row.server_id = None;
            row.device_id = String::new();
            row.device_owner = String::new();
            row.profile = json!({}).to_string();
            row.updated_at = now.naive_utc();
            ports::save(conn, &row)?;
            Ok(())
        })
        .await
    }

    async fn delete_port(&self, fence: Fence, port: Uuid) -> Result<(), ServiceError> {
        self.write(Some(fence), move |conn| {
            let held = ports::hold(conn, &port.to_string())?;
            if let Some(row) = held.filter(|row| is_free_for(row, fence.server)) {
                ports::delete(conn, &row.id)?;
            }
            Ok(())
        })
        .await
    }

    async fn create_binding(&self, fence: Fence, port: Uuid, host: &str, keys: HostKey) -> Result<(), ServiceError> {
        let host = host.to_owned();
        self.write(Some(fence), move |conn| {
            let row = bindings::hold(conn, port)?;
            refuse_other_holder(&row, fence.server)?;
            Ok(bindings::create_with(conn, &row, &host, keys)?)
        })
        .await
    }

    async fn activate_binding(&self, fence: Fence, port: Uuid, host: &str) -> Result<(), ServiceError> {
        let host = host.to_owned();
        self.write(Some(fence), move |conn| {
            let row = bindings::hold(conn, port)?;
            refuse_other_holder(&row, fence.server)?;
            if bound::find(conn, &row.id, &host)?.is_none() {
                return Err(absent("Binding", format!("for port {port} on host {host}")));
            }
            bound::activate(conn, &row.id, &host)?;
            Ok(())
        })
        .await
    }

    async fn delete_binding(&self, fence: Fence, port: Uuid, host: &str) -> Result<(), ServiceError> {
        let host = host.to_owned();
        self.write(Some(fence), move |conn| {
            // Another server or device may have taken the released port; then its binding must stay.
            let held = ports::hold(conn, &port.to_string())?;
            if let Some(row) = held.filter(|row| is_free_for(row, fence.server)) {
                bound::delete(conn, &row.id, &host)?;
                bindings::forget_host_keys(conn, row)?;
            }
            Ok(())
        })
        .await
    }

    async fn set_plugged(&self, port: Uuid, host: &str, plugged: bool) -> Result<(), ServiceError> {
        let host = host.to_owned();
        self.write(None, move |conn| {
            let is_bound = bound::set_plugged(conn, &port.to_string(), &host, plugged)?;
            // A missing binding counts as unplugged.
            if plugged && !is_bound {
                return Err(absent("Binding", format!("for port {port} on host {host}")));
            }
            Ok(())
        })
        .await
    }

    async fn ports_in_use(&self) -> Result<Vec<Port>, ServiceError> {
        let records = self.read(|conn| {
            let rows = ports::in_use(conn)?;
            Ok(plain(conn, rows)?)
        });
        Ok(records.await?.into_iter().map(|port| self.shown(port)).collect())
    }
}

fn network(row: NetworkRow) -> Result<Network, DbError> {
    let (id, external) = (read_id("networks.id", &row.id)?, row.external);
    let port_security_enabled = row.port_security_enabled;
    Ok(Network { id, name: row.name, project_id: row.project_id, shared: row.shared, external, port_security_enabled })
}

fn plain(conn: &mut Conn, rows: Vec<PortRow>) -> Result<Vec<Port>, DbError> {
    Ok(assemble::records(conn, rows)?.into_iter().map(|record| record.port).collect())
}

/// Gives the port to the server.
fn give_to(row: &mut PortRow, server: Uuid) {
    row.server_id = Some(server.to_string());
    row.device_id = server.to_string();
    row.device_owner = DEVICE_OWNER.to_owned();
}

/// True if no other server has the port, and its owner has not given it to another device.
fn is_free_for(row: &PortRow, server: Uuid) -> bool {
    let server = server.to_string();
    match &row.server_id {
        Some(holder) => *holder == server,
        None => row.device_id.is_empty() || row.device_id == server,
    }
}

fn refuse_other_holder(row: &PortRow, server: Uuid) -> Result<(), TransactionError> {
    if is_free_for(row, server) {
        return Ok(());
    }
    Err(in_use(format!("Port {} is still in use.", row.id)))
}
