//! Hypervisors as clients see them at each microversion.

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::Hypervisor;
use crate::domain::compute_node::ComputeNode;
use crate::http::compute::catalog::Catalog;
use crate::http::microversion::ApiVersion;

/// Returns a hypervisor's entry in a brief list.
pub fn summary(api: &Catalog, hypervisor: &Hypervisor<'_>, version: ApiVersion) -> Value {
    json!({
        "id": hypervisor.id(version),
        "hypervisor_hostname": hypervisor.node.hypervisor_hostname,
        "state": if api.is_up(&hypervisor.service) { "up" } else { "down" },
        "status": if hypervisor.service.disabled { "disabled" } else { "enabled" },
    })
}

/// Returns the whole hypervisor without its servers.
pub fn detailed(api: &Catalog, hypervisor: &Hypervisor<'_>, version: ApiVersion) -> Value {
    let (node, service) = (&hypervisor.node, &hypervisor.service);
    let mut view = summary(api, hypervisor, version);
    view["hypervisor_type"] = json!(node.hypervisor_type);
    view["hypervisor_version"] = json!(node.hypervisor_version);
    view["host_ip"] = json!(node.host_ip);
    view["service"] = json!({
        "id": if version.at_least(53) { json!(service.uuid) } else { json!(service.id) },
        "host": node.host,
        "disabled_reason": service.disabled_reason,
    });
    if version.at_least(88) {
        view["uptime"] = json!(uptime(api, hypervisor));
        return view;
    }
    for (name, amount) in amounts(node) {
        view[name] = json!(amount);
    }
    view["cpu_info"] = match version.at_least(28) {
        true => serde_json::from_str(&node.cpu_info).unwrap_or_else(|_| json!({})),
        false => json!(node.cpu_info),
    };
    view
}

/// Returns the host's uptime as the command `uptime` writes it; none for a host that is down or does not answer. A simulated machine has no
/// users and no load of its own.
pub fn uptime(api: &Catalog, hypervisor: &Hypervisor<'_>) -> Option<String> {
    let since = hypervisor.up_since.filter(|_| api.is_up(&hypervisor.service))?;
    let now = api.env.now();
    Some(format!(" {} up {},  0 users,  load average: 0.00, 0.00, 0.00", now.format("%H:%M:%S"), lasting(now - since)))
}

/// Writes a duration as `uptime` does: `5 min`, `18:25` or `93 days, 18:25`.
fn lasting(lived: TimeDelta) -> String {
    let (days, hours, minutes) = (lived.num_days(), lived.num_hours() % 24, lived.num_minutes() % 60);
    let clock = if hours == 0 { format!("{minutes} min") } else { format!("{hours}:{minutes:02}") };
    match days {
        0 => clock,
        1 => format!("1 day, {clock}"),
        _ => format!("{days} days, {clock}"),
    }
}

/// Returns the total, used and free amounts of each resource.
fn amounts(node: &ComputeNode) -> [(&'static str, i64); 11] {
    let free_disk = i64::from(node.local_gb) - i64::from(node.local_gb_used);
    [
        ("vcpus", node.vcpus.into()),
        ("memory_mb", node.memory_mb.into()),
        ("local_gb", node.local_gb.into()),
        ("vcpus_used", node.vcpus_used.into()),
        ("memory_mb_used", node.memory_mb_used.into()),
        ("local_gb_used", node.local_gb_used.into()),
        ("free_ram_mb", i64::from(node.memory_mb) - i64::from(node.memory_mb_used)),
        ("free_disk_gb", free_disk),
        ("disk_available_least", free_disk),
        ("current_workload", node.current_workload.into()),
        ("running_vms", node.running_vms.into()),
    ]
}

/// Returns the sums of all amounts, and the number of hypervisors.
pub fn sums(hypervisors: &[Hypervisor<'_>]) -> Value {
    let mut sums = json!({"count": hypervisors.len()});
    for name in amount_names() {
        sums[name] = json!(0);
    }
    for hypervisor in hypervisors {
        for (name, amount) in amounts(&hypervisor.node) {
            sums[name] = json!(sums[name].as_i64().unwrap_or(0) + amount);
        }
    }
    sums
}

fn amount_names() -> [&'static str; 11] {
    [
        "vcpus",
        "memory_mb",
        "local_gb",
        "vcpus_used",
        "memory_mb_used",
        "local_gb_used",
        "free_ram_mb",
        "free_disk_gb",
        "disk_available_least",
        "current_workload",
        "running_vms",
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_as_the_command_uptime_does() {
        for (minutes, text) in [
            (0, "0 min"),
            (59, "59 min"),
            (60, "1:00"),
            (18 * 60 + 25, "18:25"),
            (24 * 60 + 3, "1 day, 3 min"),
            (93 * 24 * 60 + 18 * 60 + 5, "93 days, 18:05"),
        ] {
            assert_eq!(lasting(TimeDelta::minutes(minutes)), text);
        }
    }
}
