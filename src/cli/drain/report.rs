//! A drain in words: its beginning, its progress, and what it leaves.

use std::fmt::Write as _;

use serde_json::Value;

use crate::cli::output::{self, counted, examples, grouped, printable, text};

/// The width of the progress bar.
const BAR: usize = 30;

fn count(drain: &Value, state: &str) -> u64 {
    drain["servers"][state].as_u64().unwrap_or_default()
}

fn source(drain: &Value) -> String {
    let hosts: Vec<String> = output::entries(drain, "hosts").iter().filter_map(|host| host.as_str().map(str::to_owned)).collect();
    match drain["whole_cell"] == true {
        true => format!("cell {} ({})", text(drain, "cell"), examples(&hosts)),
        false => format!("host {}", examples(&hosts)),
    }
}

fn destination(drain: &Value) -> String {
    let cells: Vec<&str> = output::entries(drain, "to_cells").iter().filter_map(Value::as_str).collect();
    match cells.as_slice() {
        [] => format!("availability zone {}", text(drain, "to_zone")),
        [cell] => format!("cell {cell}"),
        cells => format!("the cells {}", cells.join(", ")),
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
        "done" | "undone" => true,
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

/// Returns the drain's state in words: a drain that has ended and left servers on its hosts is not done.
fn state(drain: &Value) -> String {
    match (text(drain, "state"), drain["stays"].as_u64().unwrap_or_default()) {
        ("done", 1..) => format!("ended, {} stayed", drain["stays"]),
        (state, _) => state.to_owned(),
    }
}

/// Returns a sentence's verb and the drain's state.
fn is_in_state(drain: &Value) -> String {
    match state(drain) {
        ended if ended.starts_with("ended") => format!("has {ended}"),
        state => format!("is {state}"),
    }
}

/// Says what has moved, and what could not move and why.
pub(super) fn summary(drain: &Value, servers: &[Value]) -> String {
    let mut summary = format!(
        "Drain {} of {} to {} {}: {} moved, {} gone, {} in flight, {} waiting, {} refused.\n",
        text(drain, "id"),
        source(drain),
        destination(drain),
        is_in_state(drain),
        count(drain, "moved"),
        count(drain, "gone"),
        count(drain, "moving"),
        count(drain, "pending"),
        count(drain, "refused")
    );
    let with_reason = servers.iter().filter(|server| server["reason"].is_string());
    let by_reason = with_reason.map(|server| ((state_in(drain, server), text(server, "reason")), name(server)));
    for ((state, reason), names) in grouped(by_reason) {
        summary += &group(state, reason, &names);
    }
    if drain["hosts_disabled"] == true {
        let drained = if drain["whole_cell"] == true { text(drain, "cell") } else { drain["hosts"][0].as_str().unwrap_or_default() };
        summary += &format!("The service stays disabled on what was drained; enable it with: cellshift drain {drained} --undo\n");
    }
    summary
}

/// Returns a server's name, or its id if nothing says the name.
fn name(server: &Value) -> String {
    printable(server["name"].as_str().unwrap_or_else(|| text(server, "server")))
}

/// Returns the state of a server in a drain's report: a drain that tries no server any more lets the waiting ones stay.
fn state_in<'a>(drain: &Value, server: &'a Value) -> &'a str {
    match (text(drain, "state"), text(server, "state")) {
        ("cancelled" | "undone", "pending") => "refused",
        (_, state) => state,
    }
}

/// Writes the line of servers in one state for one reason.
fn group(state: &str, reason: &str, names: &[String]) -> String {
    let verb = match (state, names.len()) {
        ("refused", 1) => "stays",
        ("refused", _) => "stay",
        ("pending", 1) => "still waits",
        ("pending", _) => "still wait",
        ("moving", 1) => "is moving",
        ("moving", _) => "are moving",
        (_, 1) => "has moved",
        _ => "have moved",
    };
    // The service speaks of each server by itself.
    let reason = if names.len() == 1 { reason.to_owned() } else { reason.replace("its move waits", "their moves wait") };
    format!("  {} {verb}: {reason} ({})\n", counted(names.len(), "server"), examples(names))
}

/// Says what a drain that was undone leaves: the servers that stay where they went, and the hosts that somebody else disabled.
pub(super) fn undone(drain: &Value, moved: &[Value], disabled: &[Value]) -> String {
    let mut undone = format!(
        "Drain {} of {} is {}: {}, {} did not move, {} gone.\n",
        text(drain, "id"),
        source(drain),
        state(drain),
        match count(drain, "moved") {
            1 => "1 has moved and stays there".to_owned(),
            moved => format!("{moved} have moved and stay there"),
        },
        drain["stays"],
        count(drain, "gone"),
    );
    for (target, names) in grouped(moved.iter().map(|server| (text(server, "target"), name(server)))) {
        undone += &format!("  {} on {target} ({})\n", counted(names.len(), "server"), examples(&names));
    }
    undone += match (disabled.len(), output::entries(drain, "hosts").len()) {
        (0, 1) => "Its host is enabled.\n",
        (0, _) => "Its hosts are enabled.\n",
        (_, 1) => "Its host stays disabled, because somebody else disabled it:\n",
        _ => "Its hosts are enabled, but for those that somebody else disabled:\n",
    };
    for host in disabled {
        undone += &format!("  {}: {}\n", text(host, "name"), host["disabled_reason"].as_str().unwrap_or("no reason is given"));
    }
    undone
}

/// Says where each server would go, and what that leads to.
pub(super) fn preview(drain: &Value) -> String {
    let mut preview = format!("A drain of {} to {} would begin these moves; nothing is started.\n", source(drain), destination(drain));
    for server in drain["servers"].as_array().into_iter().flatten() {
        let (name, host) = (name(server), text(server, "host"));
        preview += &match server["kind"].as_str() {
            Some(kind) => format!(
                "  {name}  {host}  {kind} to {} in {}, flavor {}\n",
                text(server, "target"),
                text(server, "cell"),
                text(server, "flavor")
            ),
            None if server["target"].is_string() => {
                format!("  {name}  {host}  is on {}, and holds its room here: {}\n", text(server, "target"), text(server, "reason"))
            }
            None => continue,
        };
    }
    let stays = output::entries(drain, "servers").iter().filter(|server| server["kind"].is_null() && server["target"].is_null());
    let by_reason = stays.map(|server| (text(server, "reason"), name(server)));
    preview += &grouped(by_reason).iter().map(|(reason, names)| group("refused", reason, names)).collect::<String>();
    if output::entries(drain, "servers").is_empty() {
        preview += "  There is no server to move.\n";
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
            Some(each) if kind["moves"] == 1 => measured.push(format!("the last {} move took {each} s", text(kind, "kind"))),
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

pub(super) const HEAD: [&str; 8] = ["DRAIN", "OF", "TO", "STATE", "MOVED", "IN FLIGHT", "WAITING", "REFUSED"];

/// Lists drains.
pub(super) fn table(body: &Value) -> String {
    output::table(HEAD, output::entries(body, "drains").iter().map(row))
}

/// Returns a drain's row.
pub(super) fn row(drain: &Value) -> [String; 8] {
    let [moved, moving, pending, refused] = ["moved", "moving", "pending", "refused"].map(|state| count(drain, state).to_string());
    [text(drain, "id").to_owned(), source(drain), destination(drain), state(drain), moved, moving, pending, refused]
}

#[cfg(test)]
mod tests;
