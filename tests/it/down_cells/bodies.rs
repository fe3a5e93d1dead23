//! Answers about a cell that is down do not depend on the kind of failure: compares bodies while all cells fail with an error, and while
//! they are silent.

use serde_json::{Value, json};

use super::{entries, keys, listed, quick, set};
use crate::client::id_of;
use crate::stage::{Stage, play};
use cellshift::chaos::borders::Outage;

const CELLS: [&str; 3] = ["cell0", "cell1", "cell2"];

/// Returns the bodies of all requests with partial entries, in several microversions.
async fn bodies(stage: &Stage, server: &str) -> Vec<(String, Value)> {
    let mut answers = Vec::new();
    for version in ["2.69", "2.71", "2.98"] {
        let (member, admin) = (stage.member.speaking(version), stage.admin.speaking(version));
        for path in ["/servers", "/servers/detail", "/servers?limit=5", "/servers/detail?status=ACTIVE", &format!("/servers/{server}")] {
            answers.push((format!("{version} {path}"), member.get(path).await.expect(200).body));
        }
        for path in ["/servers?all_tenants=1", "/os-services", "/os-services?host=cell1-host1", "/os-services?binary=nova-compute"] {
            answers.push((format!("{version} {path}"), admin.get(path).await.expect(200).body));
        }
    }
    for path in ["/servers", "/servers/detail"] {
        answers.push((format!("2.68 {path}"), stage.member.speaking("2.68").get(path).await.expect(200).body));
    }
    answers
}

#[test]
fn with_every_cell_down_time_outs_and_errors_look_alike() {
    play(quick, |stage| async move {
        let group = json!({"server_group": {"name": "apart", "policy": "anti-affinity"}});
        let group = id_of(&stage.member.post("/os-server-groups", group).await.expect(200).body["server_group"]);
        let server = stage.create(stage.server().in_group(group)).await.to_string();
        stage.create(stage.server().flavor("gen2.small")).await;
        let before = listed(&stage.member, "/servers").await;
        let mut answers = Vec::new();
        for outage in [Outage::Refuses, Outage::Hangs] {
            for cell in CELLS {
                set(&stage, cell, outage).await;
            }
            answers.push(bodies(&stage, &server).await);
            for cell in CELLS {
                set(&stage, cell, Outage::None).await;
            }
            assert_eq!(listed(&stage.member, "/servers").await, before, "the next request is complete");
        }
        assert_eq!(answers[0], answers[1]);

        let of = |key: &str| answers[0].iter().find(|(path, _)| path == key).map(|(_, body)| body).expect("a body");
        assert!(entries(of("2.69 /servers/detail")).iter().all(|(_, status)| status == "UNKNOWN"));
        assert_eq!(of("2.69 /servers")["servers"].as_array().map(Vec::len), Some(2));
        for partial in of("2.69 /servers")["servers"].as_array().expect("servers") {
            assert_eq!(keys(partial), ["id", "links", "status"]);
        }
        for empty in ["2.68 /servers", "2.68 /servers/detail", "2.69 /servers?limit=5", "2.98 /servers/detail?status=ACTIVE"] {
            assert_eq!(*of(empty), json!({"servers": []}), "{empty}");
        }
        assert!(of(&format!("2.69 /servers/{server}"))["server"].get("server_groups").is_none());
        assert_eq!(of(&format!("2.71 /servers/{server}"))["server"]["server_groups"], json!([group]));
        let services = of("2.69 /os-services")["services"].as_array().expect("services");
        let mut hosts: Vec<&str> = services.iter().map(|service| service["host"].as_str().unwrap_or_default()).collect();
        hosts.sort_unstable();
        assert_eq!(hosts, ["cell1-host1", "cell1-host2", "cell2-host1", "cell2-host2"]);
        for service in services {
            assert_eq!((keys(service), &service["status"]), (vec!["binary", "host", "status"], &json!("UNKNOWN")));
        }
        assert_eq!(
            of("2.69 /os-services?host=cell1-host1")["services"],
            json!([{"binary": "nova-compute", "host": "cell1-host1", "status": "UNKNOWN"}])
        );
    });
}
