//! A drain in words: its beginning, its progress, and what it leaves.

use std::fmt::Write as _;

use serde_json::Value;

use crate::cli::output::{self, text};

/// The width of the progress bar.
const BAR: usize = 30;

fn count(drain: &Value, state: &str) -> u64 {
    drain["servers"][state].as_u64().unwrap_or_default()
}

fn source(drain: &Value) -> String {
    let hosts: Vec<&str> = drain["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match drain["whole_cell"] == true {
        true => format!("cell {} ({})", text(drain, "cell"), hosts.join(", ")),
        false => format!("host {}", hosts.join(", ")),
    }
}

fn destination(drain: &Value) -> String {
    match drain["to_cell"].as_str() {
        Some(cell) => format!("cell {cell}"),
        None => format!("availability zone {}", text(drain, "to_zone")),
    }
}

/// Says what begins.
pub(super) fn beginning(drain: &Value) -> String {
    format!(
        "Drain {} moves all servers off {} to {}. The service is disabled there, and stays so after the drain.\n",
        text(drain, "id"),
        source(drain),
        destination(drain)
    )
}

/// True if nothing of the drain is in flight or will be.
pub(super) fn is_over(drain: &Value) -> bool {
    match text(drain, "state") {
        "done" => true,
        "cancelled" => count(drain, "moving") == 0,
        _ => false,
    }
}

/// Returns the progress on one line.
pub(super) fn progress(drain: &Value) -> String {
    let ended = count(drain, "moved") + count(drain, "gone") + count(drain, "refused");
    let all = ended + count(drain, "pending") + count(drain, "moving");
    let filled = usize::try_from(ended * BAR as u64 / all.max(1)).unwrap_or(BAR);
    let mut line = format!("[{}{}] {ended}/{all} servers", "#".repeat(filled), ".".repeat(BAR - filled));
    for (state, words) in [("moving", "in flight"), ("pending", "waiting"), ("refused", "refused")] {
        let count = count(drain, state);
        if count > 0 {
            // Writing to a String cannot fail.
            let _ = write!(line, ", {count} {words}");
        }
    }
    if let Some(seconds) = drain["time"]["seconds"].as_f64().filter(|seconds| *seconds > 0.0) {
        let _ = write!(line, ", {} s left at the rate of the last moves", seconds.ceil());
    }
    if text(drain, "state") != "running" {
        let _ = write!(line, ", {}", text(drain, "state"));
    }
    if let Some(reason) = drain["reason"].as_str() {
        let _ = write!(line, "; waits: {reason}");
    }
    line
}

/// Says what has moved, and what could not move and why.
pub(super) fn summary(drain: &Value, servers: &[Value]) -> String {
    let mut summary = format!(
        "Drain {} of {} to {} is {}: {} moved, {} gone, {} in flight, {} waiting, {} refused.\n",
        text(drain, "id"),
        source(drain),
        destination(drain),
        text(drain, "state"),
        count(drain, "moved"),
        count(drain, "gone"),
        count(drain, "moving"),
        count(drain, "pending"),
        count(drain, "refused")
    );
    for server in servers.iter().filter(|server| server["reason"].is_string()) {
        let (id, host) = (text(server, "server"), text(server, "host"));
        let said = match text(server, "state") {
            "refused" => format!("  {id} stays on {host}: {}", text(server, "reason")),
            "pending" => format!("  {id} is still on {host}: {}", text(server, "reason")),
            _ => format!("  {id} is on {}: {}", text(server, "target"), text(server, "reason")),
        };
        summary += &said;
        summary.push('\n');
    }
    if drain["hosts_disabled"] == true {
        summary +=
            "The service stays disabled on what was drained; enable it with: openstack compute service set --enable HOST nova-compute\n";
    }
    summary
}

/// Says where each server would go, and what that leads to.
pub(super) fn preview(drain: &Value) -> String {
    let mut preview = format!("A drain of {} to {} would begin these moves; nothing is started.\n", source(drain), destination(drain));
    for server in drain["servers"].as_array().into_iter().flatten() {
        let (id, name, host) = (text(server, "server"), text(server, "name"), text(server, "host"));
        preview += &match server["kind"].as_str() {
            Some(kind) => format!(
                "  {id}  {name}  {host}  {kind} to {} in {}, flavor {}\n",
                text(server, "target"),
                text(server, "cell"),
                text(server, "flavor")
            ),
            None if server["target"].is_string() => {
                format!("  {id}  {name}  {host}  is on {}, and holds its room here: {}\n", text(server, "target"), text(server, "reason"))
            }
            None => format!("  {id}  {name}  {host}  stays: {}\n", text(server, "reason")),
        };
    }
    preview + &outlook(drain)
}

/// Says how many servers of a plan stay, how full it makes the hosts, and how long it takes.
pub(super) fn outlook(plan: &Value) -> String {
    let mut outlook = match plan["stays"].as_u64() {
        None | Some(0) => String::new(),
        Some(1) => "One server stays where it is.\n".to_owned(),
        Some(stays) => format!("{stays} servers stay where they are.\n"),
    };
    let targets = plan["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    if targets.is_empty() {
        return outlook;
    }
    outlook += "After the moves these hosts have in use:\n";
    for target in targets {
        let of = |amount: &str| format!("{} of {}", target[amount]["after"], target[amount]["total"]);
        let more = match target["moves"].as_u64() {
            Some(1) => "one more server".to_owned(),
            _ => format!("{} more servers", target["moves"]),
        };
        outlook += &format!(
            "  {} in {}: {} vCPUs, {} MiB of memory, {} GiB of disk; {more}\n",
            text(target, "host"),
            text(target, "cell"),
            of("vcpus"),
            of("memory_mb"),
            of("disk_gb")
        );
    }
    outlook + &time(&plan["time"])
}

/// Says how long the moves of a plan take.
fn time(time: &Value) -> String {
    let (mut measured, mut unmeasured) = (Vec::new(), Vec::new());
    for kind in time["measured"].as_array().into_iter().flatten() {
        match kind["seconds_each"].as_f64() {
            Some(each) => measured.push(format!("the last {} {} moves took {each} s each", kind["moves"], text(kind, "kind"))),
            None => unmeasured.push(format!("no {} move has ended", text(kind, "kind"))),
        }
    }
    match time["seconds"].as_f64() {
        Some(seconds) => format!("The moves take about {}: {}.\n", span(seconds), measured.join(", and ")),
        None => format!("How long the moves take is not measured yet: {}.\n", unmeasured.join(", and ")),
    }
}

fn span(seconds: f64) -> String {
    match seconds {
        ..60.0 => format!("{seconds:.1} s"),
        ..3600.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// Lists drains.
pub(super) fn table(body: &Value) -> String {
    let row = |drain: &Value| {
        let [moved, moving, pending, refused] = ["moved", "moving", "pending", "refused"].map(|state| count(drain, state).to_string());
        [text(drain, "id").to_owned(), source(drain), destination(drain), text(drain, "state").to_owned(), moved, moving, pending, refused]
    };
    let head = ["DRAIN", "OF", "TO", "STATE", "MOVED", "IN FLIGHT", "WAITING", "REFUSED"];
    output::table(head, output::entries(body, "drains").iter().map(row))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drain(state: &str, moving: u64) -> Value {
        json!({
            "id": "d", "state": state, "cell": "cell1", "hosts": ["h1"], "whole_cell": false, "to_cell": null, "to_zone": "east",
            "hosts_disabled": true, "reason": null,
            "servers": {"moved": 5, "gone": 0, "refused": 1, "pending": 3, "moving": moving},
        })
    }

    #[test]
    fn the_bar_counts_servers_that_have_ended() {
        assert_eq!(progress(&drain("running", 1)), "[##################............] 6/10 servers, 1 in flight, 3 waiting, 1 refused");
        assert!(progress(&drain("paused", 0)).ends_with(", 3 waiting, 1 refused, paused"));
        assert!(!is_over(&drain("paused", 0)) && !is_over(&drain("cancelled", 1)) && is_over(&drain("cancelled", 0)));
    }

    #[test]
    fn the_outlook_has_the_room_of_hosts_and_the_time() {
        let target = json!({
            "cell": "cell1", "host": "h2", "moves": 3, "vcpus": {"now": 1, "after": 4, "total": 64},
            "memory_mb": {"now": 512, "after": 2048, "total": 32768}, "disk_gb": {"now": 1, "after": 4, "total": 200},
        });
        let plan = |seconds: Value, measured: Value| {
            outlook(&json!({"stays": 1, "targets": [target], "time": {"seconds": seconds, "measured": measured}}))
        };
        let live = json!({"kind": "live", "moves": 50, "seconds_each": 0.5});
        let hosts = "One server stays where it is.\nAfter the moves these hosts have in use:\n  \
                     h2 in cell1: 4 of 64 vCPUs, 2048 of 32768 MiB of memory, 4 of 200 GiB of disk; 3 more servers\n";
        let timed_plan = plan(json!(120), json!([live]));
        assert_eq!(timed_plan, format!("{hosts}The moves take about 2 min: the last 50 live moves took 0.5 s each.\n"));
        let unknown = plan(Value::Null, json!([live, {"kind": "cold", "moves": 0, "seconds_each": null}]));
        assert_eq!(unknown, format!("{hosts}How long the moves take is not measured yet: no cold move has ended.\n"));
        assert_eq!(outlook(&json!({"stays": 0, "targets": [], "time": {"seconds": 0, "measured": []}})), "");
    }

    #[test]
    fn the_report_says_who_stays_and_why() {
        let servers = [
            json!({"server": "a", "host": "h1", "state": "refused", "reason": "the server is locked"}),
            json!({"server": "b", "host": "h1", "state": "moved", "target": "h9", "reason": "its move waits for confirm or revert"}),
            json!({"server": "c", "host": "h1", "state": "moved", "target": "h9", "reason": null}),
        ];
        let told = summary(&drain("done", 0), &servers);
        let wanted = "Drain d of host h1 to availability zone east is done: 5 moved, 0 gone, 0 in flight, 3 waiting, 1 refused.\n  \
                      a stays on h1: the server is locked\n  b is on h9: its move waits for confirm or revert\nThe service stays disabled";
        assert!(told.starts_with(wanted), "{told}");
    }
}
