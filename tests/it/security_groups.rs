//! Security groups of servers: given at creation, shown, added and removed.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::id_of;
use crate::stage::{Stage, play_default};

async fn group(stage: &Stage, name: &str) -> Uuid {
    let made = stage.member.post("/network/v2.0/security-groups", json!({"security_group": {"name": name}})).await.expect(201);
    id_of(&made.body["security_group"])
}

async fn of_ports(stage: &Stage, server: Uuid) -> Vec<Vec<Uuid>> {
    stage.world().network.ports_of(server).await.expect("ports").into_iter().map(|port| port.security_groups).collect()
}

async fn shown(stage: &Stage, server: Uuid) -> Value {
    stage.member.show(server).await["security_groups"].clone()
}

#[test]
fn a_new_servers_ports_are_in_its_groups() {
    play_default(|stage| async move {
        let (web, db) = (group(&stage, "web").await, group(&stage, "db").await);
        let new = stage.server().with("security_groups", json!([{"name": "web"}, {"name": db}, {"name": web}]));
        let record = new.ask(&stage.member).await.expect(202).body["server"].clone();
        assert_eq!(record["security_groups"], json!([{"name": "web"}, {"name": db}, {"name": web}]), "as they were named");
        let server = id_of(&record);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(of_ports(&stage, server).await, [[web, db]]);
        assert_eq!(shown(&stage, server).await, json!([{"name": "web"}, {"name": "db"}]));
        let refused = stage.server().with("security_groups", json!([{"name": "none such"}])).ask(&stage.member).await.expect(400);
        assert!(refused.message().contains("none such"), "{}", refused.text);
        let plain = stage.create(stage.server()).await;
        assert_eq!(shown(&stage, plain).await, json!([{"name": "default"}]));
        group(&stage, "web").await;
        stage.server().with("security_groups", json!([{"name": "web"}])).ask(&stage.member).await.expect(409);
    });
}

#[test]
fn groups_are_added_and_removed_and_go_with_a_move() {
    play_default(|stage| async move {
        let web = group(&stage, "web").await;
        let server = stage.create(stage.server()).await;
        let default = of_ports(&stage, server).await[0][0];
        let answer = stage.member.act(server, json!({"addSecurityGroup": {"name": "web"}})).await.expect(202);
        assert_eq!(answer.text, "");
        assert_eq!(of_ports(&stage, server).await, [[default, web]]);
        assert_eq!(shown(&stage, server).await, json!([{"name": "default"}, {"name": "web"}]));
        stage.member.act(server, json!({"addSecurityGroup": {"name": web}})).await.expect(202);
        assert_eq!(of_ports(&stage, server).await, [[default, web]], "once is enough");

        stage.cross(server).await;
        assert_eq!(of_ports(&stage, server).await, [[default, web]]);
        stage.member.act(server, json!({"removeSecurityGroup": {"name": "default"}})).await.expect(202);
        assert_eq!(shown(&stage, server).await, json!([{"name": "web"}]));
        stage.revert(server).await;
        assert_eq!((of_ports(&stage, server).await, shown(&stage, server).await), (vec![vec![web]], json!([{"name": "web"}])));
        let listed = stage.member.get(&format!("/servers/{server}/os-security-groups")).await.expect(200);
        assert_eq!(listed.body["security_groups"][0]["id"], json!(web));

        stage.member.act(server, json!({"removeSecurityGroup": {"name": "default"}})).await.expect(404);
        stage.member.act(server, json!({"addSecurityGroup": {"name": "none such"}})).await.expect(404);
        for body in [json!({}), json!({"name": 7}), json!(null), json!({"name": "web", "more": 1})] {
            stage.member.act(server, json!({"addSecurityGroup": body})).await.expect(400);
        }
        let other = stage.user("eve", "elsewhere", "member").await;
        other.act(server, json!({"addSecurityGroup": {"name": "default"}})).await.expect(404);
    });
}

#[test]
fn a_group_given_by_its_id_is_found_by_it() {
    play_default(|stage| async move {
        let (first, second) = (group(&stage, "same").await, group(&stage, "same").await);
        // Its name is the id of another group.
        let impostor = group(&stage, &first.to_string()).await;
        let server = stage.create(stage.server().with("security_groups", json!([{"name": first}]))).await;
        assert_eq!(of_ports(&stage, server).await, [[first]]);
        let path = format!("/servers/{server}/os-security-groups");
        let listed = async || -> Vec<Uuid> {
            let body = stage.member.get(&path).await.expect(200).body;
            body["security_groups"].as_array().expect("groups").iter().map(id_of).collect()
        };
        assert_eq!(listed().await, [first]);

        let add = |name: Value| json!({"addSecurityGroup": {"name": name}});
        let remove = |name: Value| json!({"removeSecurityGroup": {"name": name}});
        stage.member.act(server, add(json!("same"))).await.expect(409);
        stage.member.act(server, remove(json!("same"))).await.expect(409);
        stage.member.act(server, add(json!(second))).await.expect(202);
        stage.member.act(server, add(json!(impostor))).await.expect(202);
        assert_eq!(of_ports(&stage, server).await, [[first, second, impostor]]);
        assert_eq!(listed().await, [first, second, impostor], "each group, also those of one name");
        stage.member.act(server, remove(json!(first))).await.expect(202);
        assert_eq!(listed().await, [second, impostor]);
        stage.member.act(server, remove(json!(first))).await.expect(404);
    });
}

#[test]
fn ports_that_merely_name_a_server_are_not_its_ports() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let networks = stage.member.get("/network/v2.0/networks").await.expect(200).body;
        let port = json!({"port": {"network_id": networks["networks"][0]["id"], "device_id": server, "device_owner": "compute:nova"}});
        let eve = stage.user("eve", "elsewhere", "member").await;
        let mut strangers = Vec::new();
        for user in [&eve, &stage.member] {
            let made = user.post("/network/v2.0/ports", port.clone()).await.expect(201).body["port"].clone();
            strangers.push((user.clone(), format!("/network/v2.0/ports/{}", id_of(&made)), made));
        }
        let web = group(&stage, "web").await;
        stage.member.act(server, json!({"addSecurityGroup": {"name": "web"}})).await.expect(202);
        assert_eq!(of_ports(&stage, server).await.len(), 1);
        assert_eq!(shown(&stage, server).await, json!([{"name": "default"}, {"name": "web"}]));
        stage.member.act(server, json!({"removeSecurityGroup": {"name": "default"}})).await.expect(202);
        let listed = stage.member.get(&format!("/servers/{server}/os-security-groups")).await.expect(200).body;
        assert_eq!((listed["security_groups"].as_array().map(Vec::len), &listed["security_groups"][0]["id"]), (Some(1), &json!(web)));
        assert_eq!(stage.member.show(server).await["addresses"]["private"].as_array().map(Vec::len), Some(1));

        stage.cross(server).await;
        stage.confirm(server).await;
        assert_eq!(stage.bindings(server).await.len(), 1);
        // The audit at the end sees unknown groups of a server that is gone, and of one that is there.
        let there = stage.create(stage.server()).await;
        let last = json!({"port": {"network_id": networks["networks"][0]["id"], "device_id": there, "device_owner": "compute:nova"}});
        eve.post("/network/v2.0/ports", last).await.expect(201);
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        for (user, path, before) in strangers {
            assert_eq!(user.get(&path).await.expect(200).body["port"], before, "nothing has touched it");
        }
    });
}

#[test]
fn older_clients_keep_groups_by_the_compute_api() {
    play_default(|stage| async move {
        let user = stage.member.speaking("2.35");
        let of_user = json!({"security_group": {"name": "web", "description": "for the web"}});
        let made = user.post("/os-security-groups", of_user).await.expect(200).body["security_group"].clone();
        let id = id_of(&made);
        assert_eq!((&made["name"], &made["description"], &made["rules"]), (&json!("web"), &json!("for the web"), &json!([])));
        let rule = |more: Value| {
            let mut rule = json!({"parent_group_id": id, "ip_protocol": "tcp", "from_port": 80, "to_port": 80});
            rule.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            json!({"security_group_rule": rule})
        };
        let added = user.post("/os-security-group-rules", rule(json!({"cidr": "10.0.0.0/8"}))).await.expect(200).body;
        let added = &added["security_group_rule"];
        assert_eq!((&added["ip_range"], &added["group"], &added["from_port"]), (&json!({"cidr": "10.0.0.0/8"}), &json!({}), &json!(80)));
        let of_group = rule(json!({"group_id": id, "from_port": null, "to_port": null}));
        let of_group = user.post("/os-security-group-rules", of_group).await.expect(200).body["security_group_rule"].clone();
        assert_eq!((&of_group["group"]["name"], &of_group["ip_range"]), (&json!("web"), &json!({})));
        assert_eq!((&of_group["from_port"], &of_group["to_port"]), (&json!(1), &json!(65_535)));
        for (more, why) in [
            (json!({"cidr": "10.0.0.0/8"}), "already exists"),
            (json!({"to_port": 79}), "Former value cannot be greater than the later"),
            (json!({"from_port": 0}), "between 1-65535"),
            (json!({"from_port": "x"}), "must be integers"),
            (json!({"ip_protocol": "ah"}), "Invalid IP protocol ah"),
            (json!({"ip_protocol": null}), "Not enough parameters"),
            (json!({"cidr": "10.0.0.0/99"}), "not a valid CIDR"),
            (json!({"ip_protocol": "icmp", "to_port": 256}), "type:code must be valid"),
        ] {
            let refused = user.post("/os-security-group-rules", rule(more)).await.expect(400);
            assert!(refused.message().contains(why), "{}", refused.text);
        }
        // The network API shows the same group; the compute API leaves rules for outgoing traffic out.
        let real = stage.member.get(&format!("/network/v2.0/security-groups/{id}")).await.expect(200).body["security_group"].clone();
        assert_eq!((&real["name"], real["security_group_rules"].as_array().map(Vec::len)), (&json!("web"), Some(4)));
        let shown = user.get(&format!("/os-security-groups/{id}")).await.expect(200).body["security_group"].clone();
        assert_eq!(shown["rules"], json!([added, of_group]));
        let listed = user.get("/os-security-groups").await.expect(200).body["security_groups"].clone();
        assert_eq!((&listed[0]["name"], &listed[1]), (&json!("default"), &shown));
        let page = user.get("/os-security-groups?limit=1&offset=1").await.expect(200).body["security_groups"].clone();
        assert_eq!(page, json!([shown]));

        let server = stage.create(stage.server().with("security_groups", json!([{"name": "web"}]))).await;
        let in_use = user.delete(&format!("/os-security-groups/{id}")).await.expect(400);
        assert!(in_use.message().contains("in use"), "{}", in_use.text);
        user.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        user.delete(&format!("/os-security-group-rules/{}", id_of(added))).await.expect(202);
        user.delete(&format!("/os-security-group-rules/{}", id_of(added))).await.expect(404);
        let renamed = json!({"security_group": {"name": "web2", "description": ""}});
        let renamed = user.put(&format!("/os-security-groups/{id}"), renamed).await.expect(200).body;
        assert_eq!(renamed["security_group"]["name"], "web2");
        let eve = stage.user("eve", "elsewhere", "member").await.speaking("2.35");
        eve.get(&format!("/os-security-groups/{id}")).await.expect(404);
        eve.post("/os-security-group-rules", rule(json!({}))).await.expect(404);
        eve.delete(&format!("/os-security-group-rules/{}", id_of(&of_group))).await.expect(404);
        user.get("/os-security-groups/web").await.expect(400);
        user.delete(&format!("/os-security-groups/{id}")).await.expect(202);
        stage.member.speaking("2.36").get("/os-security-groups").await.expect(404);
    });
}

#[test]
fn rules_name_ports_and_groups_that_there_are() {
    play_default(|stage| async move {
        let group = group(&stage, "web").await;
        let rule = |more: Value| {
            let mut rule = json!({"security_group_id": group, "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp"});
            rule.as_object_mut().expect("a rule").extend(more.as_object().cloned().expect("fields"));
            json!({"security_group_rule": rule})
        };
        for (low, high, why) in [
            (json!(-16), json!(80), "Invalid value for port -16"),
            (json!(80), json!("65536"), "Invalid value for port 65536"),
            (json!(80), json!(79), "port_range_min must be <= port_range_max"),
            (json!(80), json!("x"), "'x'"),
        ] {
            let request = rule(json!({"port_range_min": low, "port_range_max": high}));
            let refused = stage.member.post("/network/v2.0/security-group-rules", request).await.expect(400);
            assert!(refused.message().contains(why), "{}", refused.text);
        }
        for missing in ["bad_group_id".to_owned(), Uuid::nil().to_string()] {
            let refused = stage.member.post("/network/v2.0/security-group-rules", rule(json!({"remote_group_id": missing}))).await;
            assert!(refused.expect(404).message().contains(&missing), "the group is named");
        }
        let providers = stage.member.get("/network/v2.0/service-providers").await.expect(200).body;
        assert_eq!(providers, json!({"service_providers": []}));
        stage.member.get("/network/v2.0/extensions/service-type").await.expect(200);
    });
}
