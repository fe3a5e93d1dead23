//! Concurrent changes of one resource: each is kept.

use std::collections::BTreeSet;

use cellshift::config::Config;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::client::id_of;
use crate::stage::play;

fn with_workers(config: &mut Config) {
    config.http.workers = 4;
}

#[test]
fn tags_that_are_added_at_once_are_all_kept() {
    play(with_workers, |stage| async move {
        let member = &stage.member;
        let make =
            |path: &'static str, body: Value| async move { member.post(&format!("/network/v2.0/{path}"), body).await.expect(201).body };
        let network = id_of(&make("networks", json!({"network": {"name": "tagged"}})).await["network"]);
        let subnet = json!({"subnet": {"network_id": network, "cidr": "10.77.0.0/24", "ip_version": 4}});
        let subnet = id_of(&make("subnets", subnet).await["subnet"]);
        let port = id_of(&make("ports", json!({"port": {"network_id": network}})).await["port"]);
        let group = id_of(&make("security-groups", json!({"security_group": {"name": "tagged"}})).await["security_group"]);
        for (kind, id) in [("networks", network), ("subnets", subnet), ("ports", port), ("security-groups", group)] {
            let path = &format!("/network/v2.0/{kind}/{id}/tags");
            let tags: BTreeSet<String> = (0..12).map(|n| format!("t{n}")).collect();
            join_all(tags.iter().map(|tag| async move { member.put(&format!("{path}/{tag}"), Value::Null).await.expect(201) })).await;
            let held = member.get(path).await.expect(200).body;
            assert_eq!(serde_json::from_value::<BTreeSet<String>>(held["tags"].clone()).expect("tags"), tags, "{kind}");
            join_all(tags.iter().map(|tag| async move { member.delete(&format!("{path}/{tag}")).await.expect(204) })).await;
            assert_eq!(member.get(path).await.expect(200).body["tags"], json!([]), "{kind}");
            member.delete(&format!("{path}/t1")).await.expect(404);
        }
    });
}

#[test]
fn extra_specs_that_are_set_at_once_are_all_kept() {
    play(with_workers, |stage| async move {
        stage.make_flavor("wanted", 1, 64, 1).await;
        let path = "/flavors/wanted/os-extra_specs";
        let keys: Vec<String> = (0..12).map(|n| format!("k{n}")).collect();
        let set = |key: &String| {
            let body = json!({"extra_specs": {key: "v"}});
            let admin = &stage.admin;
            async move { admin.post(path, body).await.expect(200) }
        };
        join_all(keys.iter().map(set)).await;
        let held = stage.admin.get(path).await.expect(200).body;
        assert_eq!(held["extra_specs"].as_object().expect("specs").len(), keys.len(), "{held}");
    });
}
