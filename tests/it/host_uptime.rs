//! Since when a host has had power, as operators see it.

use serde_json::{Value, json};

use crate::stage::{Stage, play_default};

async fn uptime(stage: &Stage, host: &str) -> (Value, Value) {
    let list = stage.admin.get("/os-hypervisors").await.expect(200).body;
    let list = list["hypervisors"].as_array().expect("hypervisors");
    let hypervisor = list.iter().find(|one| one["hypervisor_hostname"] == host).expect("the hypervisor");
    let path = format!("/os-hypervisors/{}", hypervisor["id"].as_str().expect("an id"));
    let new = stage.admin.speaking("2.88").get(&path).await.expect(200).body["hypervisor"].clone();
    let old = stage.admin.speaking("2.87").get(&format!("{path}/uptime")).await.body["hypervisor"].clone();
    (new["uptime"].clone(), old)
}

#[test]
fn a_host_tells_since_when_it_has_had_power() {
    play_default(|stage| async move {
        let (new, old) = uptime(&stage, "cell1-host1").await;
        let mut keys: Vec<&String> = old.as_object().expect("an object").keys().collect();
        keys.sort();
        assert_eq!(keys, ["hypervisor_hostname", "id", "state", "status", "uptime"]);
        let text = new.as_str().expect("an uptime");
        let (clock, rest) = text.trim_start().split_once(" up ").expect("the form of the command uptime");
        assert_eq!((clock.len(), rest), (8, "0 min,  0 users,  load average: 0.00, 0.00, 0.00"));
        stage.power("cell1-host1", false).await;
        let (new, old) = uptime(&stage, "cell1-host1").await;
        assert_eq!((new, old), (json!(null), json!(null)), "nobody knows how long a machine without power has been up");
        stage.power("cell1-host1", true).await;
        stage
            .until("the host tells again", || async {
                let (new, old) = uptime(&stage, "cell1-host1").await;
                new.is_string() && old["uptime"].is_string()
            })
            .await;
    });
}
