//! The operators' resources of a running cloud: cells and hosts, migrations with their journals, notifications.

use cellshift::virt::hypervisor::Operation;
use serde_json::{Value, json};

use crate::client::{PATIENCE, id_of};
use crate::stage::{Stage, play, play_default};

fn column(list: &Value, key: &str) -> Value {
    list.as_array().expect("a list").iter().map(|entry| entry[key].clone()).collect()
}

#[test]
fn cells_show_their_hosts_and_servers() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let host = stage.admin.show(server).await["OS-EXT-SRV-ATTR:host"].clone();
        let body = stage.admin.get("/ops/v1/cells").await.expect(200).body;
        let cells = &body["cells"];
        assert_eq!(column(cells, "name"), json!(["cell0", "cell1", "cell2"]));
        assert_eq!(column(cells, "health"), json!(["up", "up", "up"]));
        assert_eq!(cells[0]["hosts"], json!([]));
        assert_eq!(column(&cells[2]["hosts"], "name"), json!(["cell2-host1", "cell2-host2"]));
        let shown = cells[1]["hosts"].as_array().expect("hosts").iter().find(|shown| shown["name"] == host).expect("its host");
        let room = &shown["room"]["VCPU"];
        assert!(room["used"].as_i64() >= Some(1) && room["capacity"].as_i64() > room["used"].as_i64(), "{shown:#}");
        let mut shown = shown.clone();
        shown.as_object_mut().expect("a host").remove("room");
        let expected = json!({
            "name": host, "availability_zone": "cell1", "state": "up", "status": "enabled", "disabled_reason": null,
            "forced_down": false, "standing": {"state": "up"}, "discovered": false, "servers": 1,
        });
        assert_eq!(shown, expected);
        assert_eq!(cells[1]["host_counts"], json!({"total": 2, "up": 2, "down": 0, "unknown": 0, "disabled": 0, "forced_down": 0}));
        assert_eq!((&cells[1]["servers"], &cells[0]["servers"], &cells[0]["room"]), (&json!(1), &json!(0), &Value::Null));
        same_without_hosts(&stage).await;
        let hosts = cells[1]["hosts"].as_array().expect("hosts");
        let total: i64 = hosts.iter().filter_map(|host| host["room"]["VCPU"]["used"].as_i64()).sum();
        assert_eq!(cells[1]["room"]["VCPU"]["used"], total);
    });
}

/// Asserts that the cells without their hosts tell the same as those with them. Returns them.
async fn same_without_hosts(stage: &Stage) -> Vec<Value> {
    let mut whole = stage.admin.get("/ops/v1/cells").await.expect(200).body["cells"].as_array().expect("cells").clone();
    for cell in &mut whole {
        assert!(cell.as_object_mut().expect("a cell").remove("hosts").is_some());
    }
    let briefly = stage.admin.get("/ops/v1/cells?hosts=false").await.expect(200).body;
    assert_eq!(briefly["cells"].as_array(), Some(&whole), "the same, without the hosts");
    whole
}

#[test]
fn hosts_are_counted_as_they_are_listed() {
    play_default(|stage| async move {
        stage.create(stage.server()).await;
        let counts = |cells: Vec<Value>| cells[2]["host_counts"].clone();
        stage.force_down("cell2-host1", true).await;
        let forced = json!({"total": 2, "up": 1, "down": 1, "unknown": 0, "disabled": 0, "forced_down": 1});
        assert_eq!(counts(same_without_hosts(&stage).await), forced);
        // The host has reported lately, and takes no requests.
        stage.power("cell2-host2", false).await;
        let off = json!({"total": 2, "up": 0, "down": 2, "unknown": 0, "disabled": 0, "forced_down": 1});
        assert_eq!(counts(same_without_hosts(&stage).await), off);
        let services = stage.admin.get("/os-services?host=cell2-host1&binary=nova-compute").await.expect(200).body;
        let id = services["services"][0]["id"].as_str().expect("an id").to_owned();
        stage.admin.delete(&format!("/os-services/{id}")).await.expect(204);
        let gone = json!({"total": 1, "up": 0, "down": 1, "unknown": 0, "disabled": 0, "forced_down": 0});
        assert_eq!(counts(same_without_hosts(&stage).await), gone, "its directory still has the host");
        stage.power("cell2-host2", true).await;
        same_without_hosts(&stage).await;
    });
}

#[test]
fn hosts_come_in_pages_and_by_filters() {
    play_default(|stage| async move {
        let all = stage.admin.get("/ops/v1/hosts").await.expect(200).body;
        assert_eq!(column(&all["hosts"], "name"), json!(["cell1-host1", "cell1-host2", "cell2-host1", "cell2-host2"]));
        assert_eq!(column(&all["hosts"], "cell"), json!(["cell1", "cell1", "cell2", "cell2"]));
        let (mut path, mut read) = ("/ops/v1/hosts?limit=3".to_owned(), Vec::new());
        loop {
            let page = stage.admin.get(&path).await.expect(200).body;
            read.extend(page["hosts"].as_array().expect("hosts").clone());
            let Some(next) = page["hosts_links"][0]["href"].as_str() else { break };
            path = next[next.find("/ops").expect("a path")..].to_owned();
        }
        assert_eq!(json!(read), all["hosts"], "each once, over two cells");

        let change = json!({"forced_down": true, "status": "disabled"});
        let service = stage.admin.get("/os-services?host=cell1-host2").await.expect(200).body["services"][0]["id"].clone();
        stage.admin.put(&format!("/os-services/{}", service.as_str().expect("an id")), change).await.expect(200);
        for (filter, names) in [
            ("cell=cell2", json!(["cell2-host1", "cell2-host2"])),
            ("name=HOST1&limit=1", json!(["cell1-host1"])),
            ("name=HOST1&limit=1&marker=cell1-host1", json!(["cell2-host1"])),
            ("cell=cell1&marker=cell1-host2", json!([])),
            ("cell=cell1&marker=cell2-host1", json!([])),
            ("state=down", json!(["cell1-host2"])),
            ("disabled=true&forced_down=true&state=down", json!(["cell1-host2"])),
            ("cell=cell1&disabled=false", json!(["cell1-host1"])),
            ("state=unknown", json!([])),
        ] {
            let list = stage.admin.get(&format!("/ops/v1/hosts?{filter}")).await.expect(200).body;
            assert_eq!(column(&list["hosts"], "name"), names, "{filter}");
        }
        let next = stage.admin.get("/ops/v1/hosts?name=HOST1&state=up&limit=1").await.expect(200).body;
        let next = next["hosts_links"][0]["href"].as_str().expect("a link");
        assert!(next.ends_with("/ops/v1/hosts?limit=1&marker=cell1-host1&name=HOST1&state=up"), "{next}");

        let one = stage.admin.get("/ops/v1/hosts/cell1-host1").await.expect(200).body;
        assert_eq!(one["host"], all["hosts"][0]);
        let counts = stage.admin.get("/ops/v1/cells?hosts=false").await.expect(200).body["cells"][1]["host_counts"].clone();
        assert_eq!(counts, json!({"total": 2, "up": 1, "down": 1, "unknown": 0, "disabled": 1, "forced_down": 1}));
    });
}

#[test]
fn a_migration_shows_its_journal_and_lists_come_in_pages() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        let path = format!("/ops/v1/migrations?server={server}");
        let all = stage.admin.get(&path).await.expect(200).body;
        assert_eq!(column(&all["migrations"], "saga"), json!(["resize", "create"]), "newest first");
        assert_eq!(column(&all["migrations"], "state"), json!(["done", "done"]));
        assert!(all["migrations"][0].get("steps").is_none());

        let first = stage.admin.get(&format!("{path}&limit=1")).await.expect(200).body;
        assert_eq!(first["migrations"][0]["uuid"], all["migrations"][0]["uuid"]);
        let next = first["migrations_links"][0]["href"].as_str().expect("a link");
        let second = stage.admin.get(&next[next.find("/ops").expect("a path")..]).await.expect(200).body;
        assert_eq!(second["migrations"][0]["uuid"], all["migrations"][1]["uuid"]);

        let moves = stage.admin.get(&format!("{path}&saga=resize,revert")).await.expect(200).body;
        assert_eq!(column(&moves["migrations"], "saga"), json!(["resize"]));
        let moved = &moves["migrations"][0];
        assert_eq!((&moved["flavor"], &moved["new_flavor"]), (&json!("gen1.small"), &json!("gen2.small")), "{moved:#}");
        assert_eq!(moved["server_name"], stage.admin.show(server).await["name"]);
        assert_eq!(stage.admin.get(&format!("{path}&owing=true")).await.expect(200).body["migrations"], json!([]));

        let id = all["migrations"][0]["uuid"].as_str().expect("an id");
        let one = stage.admin.get(&format!("/ops/v1/migrations/{id}")).await.expect(200).body;
        assert_eq!((&one["progress"], &one["debts"]), (&json!(100), &json!([])));
        let steps = one["steps"].as_array().expect("steps");
        assert!(steps.iter().any(|step| step["step"] == "take_ownership" && step["outcome"] == "ok"), "{one:#}");
        assert!(steps.iter().all(|step| step["side"] == "act" && step["ended_at"].is_string()), "{one:#}");
        assert_eq!(one["plan"], column(&one["steps"], "step"), "each step of its table was tried once");
        assert!(all["migrations"][0].get("plan").is_none());
    });
}

#[test]
fn a_request_id_leads_to_the_operation_it_began() {
    play_default(|stage| async move {
        let (server, _) = (stage.create(stage.server()).await, stage.create(stage.server()).await);
        let stop = stage.admin.act(server, json!({"os-stop": null})).await.expect(202);
        stage.ended(server).await;
        let request = stop.headers["x-openstack-request-id"].to_str().expect("an id").to_owned();
        for (filter, sagas) in [
            (format!("request={request}"), json!(["stop"])),
            (format!("request={request}&saga=create"), json!([])),
            (format!("request={request}&status=needs_operator"), json!([])),
            ("request=req-00000000-0000-0000-0000-000000000001".to_owned(), json!([])),
        ] {
            let begun = stage.admin.get(&format!("/ops/v1/migrations?{filter}")).await.expect(200).body;
            assert_eq!(column(&begun["migrations"], "saga"), sagas, "{filter}");
        }
    });
}

#[test]
fn wrong_requests_are_refused_in_computes_form() {
    play_default(|stage| async move {
        for (path, status, part) in [
            ("/ops/v1/migrations/00000000-0000-0000-0000-000000000001", 404, "could not be found"),
            ("/ops/v1/migrations/nonsense", 404, "could not be found"),
            ("/ops/v1/migrations?status=lost", 400, "needs_operator"),
            ("/ops/v1/migrations?colour=red", 400, "colour"),
            ("/ops/v1/migrations?saga=resize,walk", 400, "\"walk\" is no kind of operation"),
            ("/ops/v1/migrations?owing=often", 400, "`true` or `false`"),
            ("/ops/v1/migrations?request=req-1", 400, "is no request's id"),
            ("/ops/v1/migrations?marker=00000000-0000-0000-0000-000000000001", 400, "marker"),
            ("/ops/v1/notifications?follow=often", 400, "`true` or `false`"),
            ("/ops/v1/notifications?follow=false&operations=true", 400, "they need follow=true"),
            ("/ops/v1/hosts?cell=cell9", 400, "Cell cell9 could not be found."),
            ("/ops/v1/hosts?marker=nowhere", 400, "The marker is not a host."),
            ("/ops/v1/hosts?state=lost", 400, "`up`, `down`, `unknown`"),
            ("/ops/v1/hosts?colour=red", 400, "colour"),
            ("/ops/v1/hosts/nowhere", 404, "Host nowhere could not be found."),
            ("/ops/v1/cells?hosts=often", 400, "`true` or `false`"),
            ("/ops/v1/nothing", 404, "could not be found"),
        ] {
            let answer = stage.admin.get(path).await.expect(status);
            assert!(answer.message().contains(part), "{path}: {}", answer.text);
        }
        for path in ["/ops/v1/cells", "/ops/v1/hosts", "/ops/v1/audit", "/ops/v1/migrations", "/ops/v1/notifications"] {
            stage.member.get(path).await.expect(403);
        }
        let document = stage.admin.get("/ops/v1/openapi.json").await.expect(200).body;
        assert_eq!(document["openapi"], "3.1.0");
    });
}

#[test]
fn a_disabled_cell_gets_no_new_servers_and_keeps_its_own() {
    play_default(|stage| async move {
        let server = stage.create(stage.server().flavor("gen2.small")).await;
        let put = async |cell: &str, body: Value, status: u16| stage.admin.put(&format!("/ops/v1/cells/{cell}"), body).await.expect(status);
        let answer = put("cell2", json!({"disabled": true}), 200).await.body;
        assert_eq!((&answer["cell"]["name"], &answer["cell"]["disabled"]), (&json!("cell2"), &json!(true)));
        let shown = stage.admin.get("/ops/v1/cells").await.expect(200).body;
        assert_eq!(column(&shown["cells"], "disabled"), json!([false, false, true]));
        let refused = id_of(&stage.server().flavor("gen2.small").ask(&stage.member).await.expect(202).body["server"]);
        let refused = stage.at_rest(refused, "ERROR").await;
        assert!(refused["fault"]["message"].as_str().is_some_and(|why| why.starts_with("No valid host was found.")), "{refused:#}");
        assert_eq!(stage.admin.show(server).await["status"], "ACTIVE");

        put("cell2", json!({"disabled": false}), 200).await;
        stage.create(stage.server().flavor("gen2.small")).await;
        for (cell, body, status) in [
            ("cell9", json!({"disabled": true}), 404),
            ("cell0", json!({"disabled": true}), 400),
            ("cell2", json!({"disabled": "often"}), 400),
            ("cell2", json!({"disabled": true, "name": "x"}), 400),
            ("cell2", json!({}), 400),
        ] {
            put(cell, body, status).await;
        }
        stage.member.put("/ops/v1/cells/cell2", json!({"disabled": true})).await.expect(403);
    });
}

#[test]
fn a_reader_of_notifications_resumes_after_the_last_it_saw() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        let seen = stage.admin.events("/ops/v1/notifications", 0, 3).await;
        let ids: Vec<u64> = seen.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [1, 2, 3]);
        for (_, event) in &seen {
            let kind = event["event_type"].as_str().expect("a type");
            assert!(kind.starts_with("instance.") || kind.starts_with("scheduler.select_destinations."), "{event}");
        }
        assert_eq!(stage.admin.events("/ops/v1/notifications", 1, 2).await, seen[1..]);
        let kept = stage.admin.get("/ops/v1/notifications?follow=false").await.expect(200).text;
        let numbers: Vec<u64> = kept.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect();
        assert!(numbers.len() > 3 && numbers.iter().copied().eq(1..=numbers.len() as u64), "all that are kept, and an end: {numbers:?}");
    });
}

/// Reads the operations that a stream tells, until one of them is as wanted.
async fn operations_until(stream: &mut reqwest::Response, condition: impl Fn(&Value) -> bool) -> Vec<Value> {
    let (mut text, mut operations): (String, Vec<Value>) = (String::new(), Vec::new());
    while !operations.last().is_some_and(&condition) {
        let chunk = tokio::time::timeout(PATIENCE, stream.chunk()).await.expect("an event in time").expect("a chunk");
        text.push_str(std::str::from_utf8(&chunk.expect("more events")).expect("text"));
        while let Some((event, rest)) = text.split_once("\n\n") {
            let operation = event.strip_prefix("event: operation\ndata: ").map(|data| serde_json::from_str(data).expect("JSON"));
            operations.extend(operation);
            text = rest.to_owned();
        }
    }
    operations
}

#[test]
fn a_stream_tells_each_step_of_operations() {
    let slow = |config: &mut cellshift::config::Config| {
        for operation in [Operation::GuestShutdown, Operation::CopyDisks, Operation::Define, Operation::Start] {
            config.compute.latency_ms.insert(operation, 500);
        }
    };
    play(slow, |stage| async move {
        let mut streams = Vec::new();
        for _ in 0..2 {
            streams.push(stage.admin.stream("/ops/v1/notifications?operations=true").await);
        }
        let mut plain = stage.admin.stream("/ops/v1/notifications").await;
        let server = stage.create(stage.server()).await;
        stage.member.resize(server, "gen2.small").await.expect(202);
        let mut seen = Vec::new();
        for stream in &mut streams {
            let operations = operations_until(stream, |one| one["saga"] == "resize" && one["state"] == "done").await;
            assert!(operations.iter().all(|one| one["server"] == json!(server) && one.get("steps").is_none()), "{operations:#?}");
            let steps: std::collections::BTreeSet<&str> =
                operations.iter().filter(|one| one["saga"] == "resize").filter_map(|one| one["step"].as_str()).collect();
            assert!(steps.len() > 3, "{steps:?}");
            assert!(operations.iter().any(|one| one["saga"] == "create" && one["state"] == "done"), "{operations:#?}");
            seen.push(operations.last().expect("the end").clone());
        }
        let listed = stage.admin.get(&format!("/ops/v1/migrations?server={server}&saga=resize")).await.expect(200).body;
        assert_eq!((&seen[0], &seen[1]), (&listed["migrations"][0], &listed["migrations"][0]));
        let first = plain.chunk().await.expect("a chunk").expect("an event");
        assert!(first.starts_with(b"id: "), "without the wish no operation is told");
        // A stream that comes after others have gone is told, too.
        drop(streams);
        let mut later = stage.admin.stream("/ops/v1/notifications?operations=true").await;
        stage.member.confirm(server).await.expect(204);
        operations_until(&mut later, |one| one["saga"] == "confirm" && one["state"] == "done").await;
    });
}

#[test]
fn operations_are_told_to_those_who_may_list_them() {
    let open = |config: &mut cellshift::config::Config| {
        std::fs::write(config.policy_file(), "\"ops:notifications\": \"rule:project_member_or_admin\"\n").expect("a policy");
    };
    play(open, |stage| async move {
        stage.member.stream("/ops/v1/notifications").await;
        stage.member.get("/ops/v1/notifications?operations=true").await.expect(403);
    });
}
