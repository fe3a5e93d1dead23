//! A server in words.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::cli::explain;
use crate::cli::migrations::{HEAD, row};
use crate::cli::output::{entries, printable, table, text};
use crate::cli::words::{ago, date, mebibytes};

/// Writes all about a server: its facts, its volumes and ports, its operations, and where it could go.
pub(super) fn whole(answer: &Value, now: DateTime<Utc>) -> String {
    let parts = [
        facts(answer, now),
        volumes(&answer["volumes"], &answer["names"]),
        ports(&answer["ports"], &answer["names"]),
        operations(&answer["operations"], now),
        destinations(&answer["destinations"]),
    ];
    parts.join("\n")
}

fn line(name: &str, value: &str) -> String {
    format!("{name:<12} {}\n", printable(value))
}

/// Returns the reason why a part is missing.
fn refusal(part: &Value) -> Option<String> {
    part["refused"].as_str().map(|why| format!("not known: {}\n", printable(why)))
}

fn facts(answer: &Value, now: DateTime<Utc>) -> String {
    let (server, entry) = (&answer["server"], &answer["entry"]);
    let field = |object: &Value, key: &str| text_or_dash(object, key);
    let mut facts = line("server", &format!("{}, {}", field(server, "name"), field(server, "id")));
    facts += &line("state", &state(server));
    facts += &line("place", &format!("host {} in {}", field(entry, "host"), field(entry, "cell")));
    facts += &line("flavor", &flavor(&server["flavor"]));
    facts += &line("image", &image(answer));
    let project = entry["project"].as_str().map(|name| format!("{name}, {}", field(entry, "project_id")));
    facts += &line("project", &project.unwrap_or_else(|| field(entry, "project_id")));
    facts += &line("user", &with_name(&field(server, "user_id"), &answer["names"]));
    facts += &line("created", &format!("{}, {}", date(&server["created"]), ago(&server["created"], now)));
    facts += &line("addresses", &networks(server));
    if let Some(fault) = server["fault"]["message"].as_str() {
        facts += &line("fault", fault);
    }
    if server["locked"] == true {
        facts += &line("locked", server["locked_reason"].as_str().unwrap_or("yes"));
    }
    if let Some(holder) = answer["record"]["held_by"].as_str() {
        facts += &line("in flight", &format!("operation {holder}: cellshift migration {holder}"));
    }
    facts
}

fn text_or_dash(object: &Value, key: &str) -> String {
    object[key].as_str().filter(|value| !value.is_empty()).unwrap_or("-").to_owned()
}

fn state(server: &Value) -> String {
    let power = match server["OS-EXT-STS:power_state"].as_u64() {
        Some(1) => "runs",
        Some(3) => "paused",
        Some(4) => "off",
        Some(7) => "suspended",
        _ => "power unknown",
    };
    let task = server["OS-EXT-STS:task_state"].as_str().map(|task| format!(", {task}")).unwrap_or_default();
    format!("{}, {power}{task}", text_or_dash(server, "status"))
}

fn flavor(flavor: &Value) -> String {
    let number = |key: &str| flavor[key].as_u64().unwrap_or_default();
    let name = text_or_dash(flavor, "original_name");
    format!("{name}: {} vCPU, {} of memory, {} GB of disk", number("vcpus"), mebibytes(number("ram")), number("disk"))
}

/// Returns a name with its id, or the id alone if the name is not known.
fn with_name(id: &str, names: &Value) -> String {
    names[id].as_str().map_or_else(|| id.to_owned(), |name| format!("{name}, {id}"))
}

fn image(answer: &Value) -> String {
    let id = answer["server"]["image"]["id"].as_str();
    id.map_or_else(|| "none: it boots from a volume".to_owned(), |id| with_name(id, &answer["names"]))
}

/// Returns the addresses by their networks.
fn networks(server: &Value) -> String {
    let of_network = |(network, addresses): (&String, &Value)| {
        let addresses: Vec<&str> = addresses.as_array().into_iter().flatten().map(|address| text(address, "addr")).collect();
        format!("{network} {}", addresses.join(", "))
    };
    let networks: Vec<String> = server["addresses"].as_object().into_iter().flatten().map(of_network).collect();
    if networks.is_empty() { "none".to_owned() } else { networks.join("; ") }
}

fn volumes(part: &Value, names: &Value) -> String {
    let rows = part.as_array().into_iter().flatten();
    let row = |volume: &Value| [text(names, text(volume, "volumeId")), text(volume, "volumeId"), text(volume, "device")].map(str::to_owned);
    format!("Volumes:\n{}", refusal(part).unwrap_or_else(|| table(["VOLUME", "ID", "DEVICE"], rows.map(row))))
}

fn ports(part: &Value, names: &Value) -> String {
    let rows = part.as_array().into_iter().flatten();
    let row = |port: &Value| {
        let addresses: Vec<&str> = entries(port, "fixed_ips").iter().map(|address| text(address, "ip_address")).collect();
        [
            text(port, "port_id").to_owned(),
            addresses.join(", "),
            text(port, "mac_addr").to_owned(),
            names[text(port, "net_id")].as_str().unwrap_or_else(|| text(port, "net_id")).to_owned(),
            text(port, "port_state").to_owned(),
        ]
    };
    format!("Ports:\n{}", refusal(part).unwrap_or_else(|| table(["PORT", "ADDRESSES", "MAC", "NETWORK", "STATE"], rows.map(row))))
}

fn operations(part: &Value, now: DateTime<Utc>) -> String {
    let rows = part.as_array().into_iter().flatten();
    format!("Operations, newest first:\n{}", refusal(part).unwrap_or_else(|| table(HEAD, rows.map(|migration| row(migration, now)))))
}

fn destinations(part: &Value) -> String {
    format!("Where it could go with its flavor:\n{}", refusal(part).unwrap_or_else(|| explain::text(part, false)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::words::moment;

    #[test]
    fn the_report_has_each_part_or_why_it_is_missing() {
        let now = moment(&json!("2026-11-27T10:00:00Z")).unwrap();
        let answer = json!({
            "entry": {"host": "h1", "cell": "c1", "project": "demo", "project_id": "p"},
            "server": {"id": "s", "name": "web", "status": "ACTIVE", "OS-EXT-STS:power_state": 1, "user_id": "u", "created": "2026-11-27T08:00:00Z",
                "flavor": {"original_name": "small", "vcpus": 1, "ram": 512, "disk": 1}, "image": {"id": "i"}, "locked": true, "locked_reason": "mine",
                "addresses": {"private": [{"addr": "10.0.0.3"}, {"addr": "172.24.4.2"}]}},
            "names": {"i": "tiny", "u": "ann", "v": "data", "n": "private"}, "record": {"held_by": null},
            "volumes": [{"volumeId": "v", "device": "/dev/vdb", "id": "a"}],
            "ports": [{"port_id": "p1", "fixed_ips": [{"ip_address": "10.0.0.3"}], "mac_addr": "fa:16", "net_id": "n", "port_state": "ACTIVE"}],
            "operations": [], "destinations": {"refused": "Instance s has no host."},
        });
        let report = whole(&answer, now);
        let lines: Vec<&str> = report.lines().collect();
        let facts = [
            "server       web, s",
            "state        ACTIVE, runs",
            "place        host h1 in c1",
            "flavor       small: 1 vCPU, 512 MiB of memory, 1 GB of disk",
            "image        tiny, i",
            "project      demo, p",
            "user         ann, u",
            "created      2026-11-27 08:00:00Z, 2 h ago",
            "addresses    private 10.0.0.3, 172.24.4.2",
            "locked       mine",
        ];
        assert_eq!(lines[..facts.len()], facts, "{report}");
        for part in ["Volumes:\nVOLUME  ID  DEVICE\ndata    v   /dev/vdb\n", "p1    10.0.0.3   fa:16  private  ACTIVE\n", "WHY\n(none)\n"] {
            assert!(report.contains(part), "{part:?} in\n{report}");
        }
        assert!(report.ends_with("Where it could go with its flavor:\nnot known: Instance s has no host.\n"), "{report}");
    }
}
