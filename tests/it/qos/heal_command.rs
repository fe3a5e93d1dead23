//! `cellshift heal-allocations` over a running service.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, User, id_of};
use crate::command_reach::{run_with, users};
use crate::service::Service;

const POLICIES: &str = "/network/v2.0/qos/policies";

async fn policy(admin: &User) -> Value {
    let made = admin.post(POLICIES, json!({"policy": {"name": "minimum", "shared": true}})).await.expect(201).body;
    let policy = made["policy"]["id"].clone();
    let rule = json!({"minimum_bandwidth_rule": {"min_kbps": 1000, "direction": "egress"}});
    let rules = format!("{POLICIES}/{}/minimum_bandwidth_rules", policy.as_str().expect("an id"));
    admin.post(&rules, rule).await.expect(201);
    policy
}

/// Makes a server whose port gets the policy after it is bound, and so without a share of its host's network.
async fn server_from_before(admin: &User, name: &str, policy: &Value) -> Uuid {
    let networks = admin.get("/network/v2.0/networks?name=private").await.expect(200).body;
    let port = json!({"port": {"network_id": networks["networks"][0]["id"]}});
    let port = admin.post("/network/v2.0/ports", port).await.expect(201).body["port"]["id"].clone();
    let image = id_of(&admin.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
    let new = NewServer::of_image(image).flavor("m1.tiny").on_host("cell1-host1").named(name).with("networks", json!([{"port": port}]));
    let server = id_of(&new.ask(admin).await.expect(202).body["server"]);
    admin.notification("instance.create.end", Some(server)).await;
    let change = json!({"port": {"qos_policy_id": policy}});
    admin.put(&format!("/network/v2.0/ports/{}", port.as_str().expect("an id")), change).await.expect(200);
    server
}

#[test]
fn servers_from_before_are_tried_counted_and_healed() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().to_str().expect("a path");
    let service = Service::start(dir.path(), &[]);
    let run = |arguments: &[&str]| run_with(&[], &[&["heal-allocations"], arguments, &["--data-dir", data]].concat());
    assert_eq!(run(&[]).code, Some(4), "no server needs it");
    actix_rt::System::new().block_on(async {
        let admin = users(&service, dir.path()).await.admin;
        let policy = policy(&admin).await;
        for name in ["one", "two", "three"] {
            server_from_before(&admin, name, &policy).await;
        }
    });
    let tried = run(&["--dry-run"]);
    assert_eq!((tried.code, tried.stdout.lines().count()), (Some(4), 3), "{} {}", tried.stdout, tried.stderr);
    let change = "would change +1000 NET_BW_EGR_KILOBIT_PER_SEC of cell1-host1:Open vSwitch agent:br-physnet0, and the providers of 1 port";
    assert!(tried.stdout.lines().all(|line| line.contains(change)), "{}", tried.stdout);
    assert_eq!(run(&["--cell", "cell2"]).code, Some(4));
    let no_one = Uuid::nil().to_string();
    let unknown = format!("--server {no_one}");
    for (wrong, named) in [
        ("--cell cell9", "cell9"),
        ("--cell a&b", "a&b"),
        ("--server nobody", "nobody"),
        (unknown.as_str(), no_one.as_str()),
        ("--server two --cell cell1", "--cell"),
        ("--max-count 0", "--max-count"),
        ("--max-count many", "--max-count"),
        ("--no-such-option", "--no-such-option"),
    ] {
        let refused = run(&wrong.split(' ').collect::<Vec<_>>());
        assert!(refused.code == Some(127) && refused.stderr.contains(named), "{wrong}: {:?} {}", refused.code, refused.stderr);
    }
    assert_eq!(run(&["--help"]).code, Some(0));
    let nowhere = run_with(&[], &["heal-allocations", "--url", "http://127.0.0.1:9", "--token", "x"]);
    assert!(nowhere.code == Some(255) && nowhere.stderr.contains("no service answers"), "{:?} {}", nowhere.code, nowhere.stderr);
    let named = run(&["--server", "two"]);
    assert!(named.code == Some(0) && named.stdout.starts_with("two ("), "{} {}", named.stdout, named.stderr);
    assert_eq!(run(&["--server", "two"]).code, Some(4), "it is healed");
    let some = run(&["--max-count", "1"]);
    assert_eq!((some.code, some.stdout.lines().count()), (Some(1), 1), "{} {}", some.stdout, some.stderr);
    let rest = run(&["--output", "json"]);
    let output: Value = serde_json::from_str(&rest.stdout).expect("JSON");
    assert_eq!((rest.code, &output[0]["state"], output.as_array().map(Vec::len)), (Some(0), &json!("healed"), Some(1)), "{output}");
    let none = run(&["--dry-run", "--output", "json"]);
    assert_eq!((none.code, none.stdout.trim()), (Some(4), "[]"));
    let audited = run_with(&[], &["audit", "--data-dir", data]);
    assert_eq!(audited.code, Some(0), "{} {}", audited.stdout, audited.stderr);
    service.stop();
}
