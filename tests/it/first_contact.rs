//! The first requests of clients: the table in docs/CLIENTS.md, request by request, and the network API's extensions, by which clients decide.

use std::path::Path;

use regex::Regex;
use serde_json::{Value, json};

use crate::stage::{Stage, play_default};

const PAGE: &str = "docs/CLIENTS.md";
const HEADING: &str = "## What they ask first";
/// The routes of the network API that are not built, each with the alias of its extension.
const NOT_BUILT: [(&str, &str); 10] = [
    ("address-scopes", "address-scope"),
    ("rbac-policies", "rbac-policies"),
    ("trunks", "trunk"),
    ("segments", "segment"),
    ("auto-allocated-topology/{project}", "auto-allocated-topology"),
    ("address-groups", "address-group"),
    ("default-security-group-rules", "security-groups-default-rules"),
    ("vpn/vpnservices", "vpnaas"),
    ("metering/metering-labels", "metering"),
    ("flavors", "flavors"),
];
/// The routes of the network API that an extension brings.
const BUILT: [(&str, &str); 9] = [
    ("agents", "agent"),
    ("network-ip-availabilities", "network-ip-availability"),
    ("subnetpools", "subnet_allocation"),
    ("qos/policies", "qos"),
    ("quotas/{project}", "quotas"),
    ("routers", "router"),
    ("floatingips", "router"),
    ("security-groups", "security-group"),
    ("service-providers", "service-type"),
];

/// A row of the table.
struct Row {
    caller: String,
    path: String,
    version: String,
    answer: String,
}

fn rows(client: &str) -> Vec<Row> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).expect("the page");
    let table = page.split_once(HEADING).expect("the heading").1;
    let lines = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.splitn(5, " |").map(str::trim).collect();
        let [name, caller, request, version, answer] = cells[..] else { return None };
        let path = request.strip_prefix("`GET ")?.strip_suffix('`')?;
        let of = |text: &str| text.to_owned();
        (name == client).then(|| Row { caller: of(caller), path: of(path), version: of(version), answer: of(answer) })
    });
    lines.collect()
}

/// Puts the ids of the cloud's things in the place of their names.
async fn filled(stage: &Stage, path: &str) -> String {
    if !path.contains('{') {
        return path.to_owned();
    }
    let project = stage.member.get("/identity/v3/auth/projects").await.expect(200).body["projects"][0]["id"].clone();
    let router = stage.admin.get("/network/v2.0/routers").await.expect(200).body["routers"][0]["id"].clone();
    let provider = stage.admin.get("/placement/resource_providers").await.expect(200).body["resource_providers"][0]["uuid"].clone();
    let id = |value: &Value| value.as_str().expect("an id").to_owned();
    path.replace("{project}", &id(&project)).replace("{router}", &id(&router)).replace("{provider}", &id(&provider))
}

/// Asks what a client asks, and compares the answers with the page.
fn ask(client: &'static str, least: usize) {
    play_default(move |stage| async move {
        let word = Regex::new(r"(with|without) `([a-z_-]+)`").expect("a pattern");
        let rows = rows(client);
        assert!(rows.len() >= least, "the page has {} requests of {client}", rows.len());
        for row in rows {
            let user = if row.caller == "admin" { &stage.admin } else { &stage.member };
            let user = if row.version.is_empty() { user.clone() } else { user.speaking(&row.version) };
            let answer = user.get(&filled(&stage, &row.path).await).await;
            let status: u16 = row.answer.get(..3).and_then(|text| text.parse().ok()).expect("a status");
            assert_eq!(answer.status, status, "{} {}: {}", row.path, row.version, answer.text);
            for field in word.captures_iter(&row.answer) {
                assert_eq!(answer.text.contains(&format!("\"{}\"", &field[2])), &field[1] == "with", "{}: {}", row.path, &field[0]);
            }
        }
    });
}

#[test]
fn the_exporter_is_answered_as_the_page_says() {
    ask("openstack-exporter", 30);
}

#[test]
fn terraforms_provider_is_answered_as_the_page_says() {
    ask("Terraform provider", 10);
}

#[test]
fn cluster_api_is_answered_as_the_page_says() {
    ask("Cluster API", 10);
}

#[test]
fn gardener_is_answered_as_the_page_says() {
    ask("Gardener", 8);
}

#[test]
fn the_network_lists_the_extensions_that_it_has() {
    play_default(|stage| async move {
        let listed = stage.member.get("/network/v2.0/extensions").await.expect(200).body["extensions"].clone();
        let has = |alias: &str| listed.as_array().expect("a list").iter().any(|one| one["alias"] == alias);
        let nothing = json!({"NeutronError": {"type": "HTTPNotFound", "message": "The resource could not be found.", "detail": ""}});
        for (path, alias) in NOT_BUILT {
            assert!(!has(alias), "{alias} is listed");
            stage.member.get(&format!("/network/v2.0/extensions/{alias}")).await.expect(404);
            let path = format!("/network/v2.0/{}", filled(&stage, path).await);
            assert_eq!(stage.member.get(&path).await.expect(404).body, nothing, "{path}");
            assert_eq!(stage.admin.post(&path, json!({})).await.expect(404).body, nothing, "{path}");
        }
        for (path, alias) in BUILT {
            assert!(has(alias), "{alias} is not listed");
            let path = format!("/network/v2.0/{}", filled(&stage, path).await);
            stage.admin.get(&path).await.expect(200);
        }
    });
}
