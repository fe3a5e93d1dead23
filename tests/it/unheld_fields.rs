//! Fields of identity, network and block storage that were accepted and not held: they are held now, or refused.

use serde_json::{Value, json};

use crate::client::id_of;
use crate::routers::{internal, make};
use crate::stage::play_default;

const V3: &str = "/identity/v3";
const PORTS: &str = "/network/v2.0/ports";

#[test]
fn options_of_accounts_are_refused() {
    play_default(|stage| async move {
        let admin = &stage.admin;
        let accounts = [("users", "user"), ("projects", "project"), ("domains", "domain"), ("roles", "role")];
        for (collection, kind) in accounts {
            let path = format!("{V3}/{collection}");
            let with = |options: Value| json!({ kind: {"name": format!("a {kind}"), "options": options} });
            let refused = admin.post(&path, with(json!({"immutable": true}))).await.expect(400);
            assert!(refused.message().contains("immutable"), "{}", refused.text);
            // Terraform's provider sends the options that are off.
            let made = admin.post(&path, with(json!({"immutable": false, "multi_factor_auth_rules": []}))).await.expect(201);
            let id = made.body[kind]["id"].as_str().expect("an id").to_owned();
            assert_eq!(made.body[kind]["options"], json!({}));
            let path = format!("{path}/{id}");
            admin.patch(&path, json!({ kind: {"options": {"ignore_password_expiry": true}} })).await.expect(400);
            admin.patch(&path, json!({ kind: {"options": {}} })).await.expect(200);
        }
    });
}

#[test]
fn a_project_stays_where_it_is() {
    play_default(|stage| async move {
        let projects = format!("{V3}/projects");
        let [parent, child] = ["above", "below"].map(|name| json!({"project": {"name": name}}));
        let parent = stage.admin.post(&projects, parent).await.expect(201).body["project"]["id"].clone();
        let made = stage.admin.post(&projects, child).await.expect(201).body["project"].clone();
        let path = format!("{projects}/{}", made["id"].as_str().expect("an id"));
        let change = |change: Value| stage.admin.patch(&path, json!({"project": change}));
        change(json!({"parent_id": parent})).await.expect(403);
        change(json!({"is_domain": true})).await.expect(400);
        let kept = change(json!({"parent_id": made["parent_id"], "is_domain": false})).await.expect(200).body["project"].clone();
        assert_eq!((&kept["parent_id"], &kept["is_domain"]), (&made["parent_id"], &json!(false)));
    });
}

#[test]
fn a_region_keeps_its_id() {
    play_default(|stage| async move {
        let regions = format!("{V3}/regions");
        stage.admin.post(&regions, json!({"region": {"id": "north"}})).await.expect(201);
        let path = format!("{regions}/north");
        stage.admin.patch(&path, json!({"region": {"id": "south", "description": "cold"}})).await.expect(400);
        let shown = stage.admin.get(&path).await.expect(200).body["region"].clone();
        assert_ne!(shown["description"], json!("cold"), "{shown}");
        stage.admin.patch(&path, json!({"region": {"id": "north", "description": "cold"}})).await.expect(200);
    });
}

#[test]
fn groups_and_pairs_need_port_security() {
    play_default(|stage| async move {
        let member = &stage.member;
        let (network, _) = internal(member, "10.9.0.0/24").await;
        let group = make(member, "security-groups", "security_group", json!({"name": "web"})).await["id"].clone();
        let (groups, pairs) = (json!([group]), json!([{"ip_address": "10.9.0.77"}]));
        let new = |more: Value| {
            let mut port = json!({"network_id": network, "port_security_enabled": false});
            port.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            json!({ "port": port })
        };
        member.post(PORTS, new(json!({"security_groups": groups}))).await.expect(400);
        member.post(PORTS, new(json!({"allowed_address_pairs": pairs}))).await.expect(409);
        let port = member.post(PORTS, new(json!({}))).await.expect(201).body["port"].clone();
        assert_eq!((&port["port_security_enabled"], &port["security_groups"]), (&json!(false), &json!([])));

        let path = format!("{PORTS}/{}", id_of(&port));
        let change = |change: Value| member.put(&path, json!({"port": change}));
        change(json!({"security_groups": groups})).await.expect(400);
        change(json!({"allowed_address_pairs": pairs})).await.expect(409);
        change(json!({"name": "open"})).await.expect(200);
        change(json!({"port_security_enabled": true, "security_groups": groups})).await.expect(200);
        change(json!({"port_security_enabled": false})).await.expect(400);
        let open = change(json!({"port_security_enabled": false, "security_groups": []})).await.expect(200).body["port"].clone();
        assert_eq!((&open["port_security_enabled"], &open["security_groups"]), (&json!(false), &json!([])));
    });
}

#[test]
fn a_network_without_port_security_gives_no_groups() {
    play_default(|stage| async move {
        let member = &stage.member;
        let (network, _) = internal(member, "10.9.0.0/24").await;
        let open = json!({"network": {"port_security_enabled": false}});
        member.put(&format!("/network/v2.0/networks/{network}"), open).await.expect(200);
        make(member, "security-groups", "security_group", json!({"name": "web"})).await;
        let on_network = || stage.server().with("networks", json!([{"uuid": network}]));
        let refused = on_network().with("security_groups", json!([{"name": "web"}])).ask(member).await.expect(400);
        assert!(refused.message().contains("port_security_enabled"), "{}", refused.text);

        let server = stage.create(on_network().with("security_groups", json!([{"name": "default"}]))).await;
        let ports = member.get(&format!("{PORTS}?device_id={server}")).await.expect(200).body["ports"].clone();
        assert_eq!((&ports[0]["port_security_enabled"], &ports[0]["security_groups"]), (&json!(false), &json!([])), "{ports}");
        let refused = member.act(server, json!({"addSecurityGroup": {"name": "web"}})).await.expect(400);
        assert!(refused.message().contains("port_security_enabled"), "{}", refused.text);
    });
}

#[test]
fn a_volume_has_no_group_and_no_other_host() {
    play_default(|stage| async move {
        let (member, volumes) = (&stage.member, "/volume/v3/volumes");
        let first = member.make_volume().await;
        for field in ["group_id", "consistencygroup_id"] {
            let refused = member.post(volumes, json!({"volume": {"size": 1, field: first}})).await.expect(400);
            assert!(refused.message().contains("group"), "{}", refused.text);
        }
        for key in ["OS-SCH-HNT:scheduler_hints", "scheduler_hints"] {
            let hinting = |hints: Value| json!({"volume": {"size": 1}, key: hints});
            member.post(volumes, hinting(json!({"different_host": [first]}))).await.expect(400);
            member.post(volumes, hinting(json!({"same_host": [first], "different_host": []}))).await.expect(202);
        }
        let listed = member.get(volumes).await.expect(200).body;
        assert_eq!(listed["volumes"].as_array().map(Vec::len), Some(3), "{listed}");
    });
}

#[test]
fn a_volume_is_retyped_by_a_policy_that_cinder_knows() {
    play_default(|stage| async move {
        let volume = stage.member.make_volume().await;
        let path = format!("/volume/v3/volumes/{volume}/action");
        let retype = |policy: &str| json!({"os-retype": {"new_type": "local-multiattach", "migration_policy": policy}});
        stage.member.post(&path, retype("sometimes")).await.expect(400);
        stage.member.post(&path, retype("on-demand")).await.expect(202);
    });
}
