//! `GET /servers/{id}/diagnostics`: what the host and the records know of a running guest. A simulated guest counts nothing, so the counters
//! are null.

use actix_web::web;
use serde_json::{Value, json};

use super::{ComputeApi, access};
use crate::cell_registry::ServerRecord;
use crate::domain::host_protocol::GuestReport;
use crate::domain::server::{PowerState, VmState};
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, conflict, ok};
use crate::http::compute::query::Query;
use crate::http::error::ApiError;

/// The counters of an interface and of a disk.
const NIC_COUNTERS: [&str; 10] =
    ["rx_octets", "rx_errors", "rx_drop", "rx_packets", "rx_rate", "tx_octets", "tx_errors", "tx_drop", "tx_packets", "tx_rate"];
const DISK_COUNTERS: [&str; 5] = ["read_bytes", "read_requests", "write_bytes", "write_requests", "errors_count"];

/// Answers `GET /servers/{id}/diagnostics`.
pub async fn show(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>) -> Answer {
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    let server = api.load(&caller, &id, "os_compute_api:os-server-diagnostics").await?;
    if server.instance.host.is_none() {
        return Err(conflict(format!("Instance {id} is not ready")));
    }
    if server.instance.vm_state != VmState::Active {
        return Err(access::wrong_state(&server.instance, "get_diagnostics", "vm_state", server.instance.vm_state.as_str()));
    }
    if !version.at_least(48) {
        return ok(&free_form(&server));
    }
    let guest = guest_of(&api, &server).await?;
    ok(&standard_form(&server, &guest))
}

async fn guest_of(api: &ComputeApi, server: &ServerRecord) -> Result<GuestReport, ApiError> {
    let absent = || conflict(format!("Instance {} is not ready", server.instance.uuid));
    let located = api.registry.find_server(server.instance.uuid).await?;
    let (Some(cell), Some(host)) = (&located.cell, &located.instance.host) else { return Err(absent()) };
    let guest = api.operations.guest(cell, host, server.instance.uuid).await.map_err(access::refused)?;
    guest.filter(|guest| guest.defined).ok_or_else(absent)
}

/// Returns the form before 2.48, in which each driver chooses its fields.
fn free_form(server: &ServerRecord) -> Value {
    let flavor = &server.instance.flavor;
    json!({"memory": i64::from(flavor.memory_mb) * 1024, "vcpus": flavor.vcpus, "vnics": server.network.0.len()})
}

/// Returns the form from 2.48 on. Its `driver` is one of Nova's, and the simulated one behaves as `libvirt` does.
fn standard_form(server: &ServerRecord, guest: &GuestReport) -> Value {
    let (instance, flavor) = (&server.instance, &server.instance.flavor);
    let (disks, nics) = (guest.disks.iter().filter(|disk| disk.is_disk()).count(), &server.network.0);
    let processor = |id: i32| json!({"id": id, "time": null, "utilisation": null});
    let nic_details: Vec<Value> = nics.iter().map(|vif| counted(&NIC_COUNTERS, json!({"mac_address": vif.mac_address}))).collect();
    json!({
        "state": state(guest.power_state),
        "driver": "libvirt",
        "hypervisor": "simulated",
        "hypervisor_os": null,
        "uptime": null,
        "config_drive": instance.config_drive,
        "num_cpus": flavor.vcpus,
        "num_nics": nics.len(),
        "num_disks": disks,
        "memory_details": {"maximum": flavor.memory_mb, "used": null},
        "cpu_details": (0..flavor.vcpus).map(processor).collect::<Vec<_>>(),
        "nic_details": nic_details,
        "disk_details": vec![counted(&DISK_COUNTERS, json!({})); disks],
    })
}

/// Adds counters that nobody counts.
fn counted(names: &[&str], mut entry: Value) -> Value {
    for name in names {
        entry[*name] = Value::Null;
    }
    entry
}

fn state(power: PowerState) -> &'static str {
    match power {
        PowerState::NoState => "pending",
        PowerState::Running => "running",
        PowerState::Paused => "paused",
        PowerState::Shutdown => "shutdown",
        PowerState::Suspended => "suspended",
    }
}
