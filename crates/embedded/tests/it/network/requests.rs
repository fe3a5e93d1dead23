//! Tests of the requests that the SDK and the command-line client send for networks, ports and bindings.

use std::sync::Arc;

use actix_web::web;
use cellshift_embedded::MIGRATIONS;
use cellshift_embedded::network::EmbeddedNetwork;
use cellshift_embedded::network::routes::configure;
use cellshift_env::{Blocking, Env, RandomIds, SystemClock};
use cellshift_store::Db;
use serde_json::{Value, json};

use crate::test_api::{Answer, TestApi};

pub(crate) const ADMIN: &str = "ops:admin";
pub(crate) const DEMO: &str = "demo:member";

pub(crate) fn api() -> TestApi {
    let env = Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline);
    let service = web::Data::new(EmbeddedNetwork::new(Db::open("services", "", MIGRATIONS, &env).unwrap()));
    TestApi::new(Arc::new(move |cfg| {
        cfg.app_data(service.clone());
        configure(cfg);
    }))
}

pub(crate) async fn get(api: &TestApi, token: &str, path: &str) -> Answer {
    api.call("GET", &format!("/network/v2.0/{path}"), token, None, None).await
}

pub(crate) async fn send(api: &TestApi, method: &str, token: &str, path: &str, body: Value) -> Answer {
    api.call(method, &format!("/network/v2.0/{path}"), token, None, Some(body)).await
}

pub(crate) fn id(body: &Value) -> String {
    body["id"].as_str().unwrap().to_owned()
}

#[actix_web::test]
async fn a_network_is_found_by_name_and_gives_a_port_its_address() {
    let api = api();
    let private = json!({"network": {"name": "private", "shared": true, "provider:physical_network": "physnet1"}});
    let network = id(&send(&api, "POST", ADMIN, "networks", private).await.expect(201)["network"]);
    let subnet = json!({"subnet": {"network_id": network, "cidr": "10.1.0.0/24", "ip_version": 4, "name": "private-subnet"}});
    let subnet = send(&api, "POST", ADMIN, "subnets", subnet).await.expect(201);
    assert_eq!(subnet["subnet"]["allocation_pools"], json!([{"start": "10.1.0.2", "end": "10.1.0.254"}]));
    assert_eq!(subnet["subnet"]["gateway_ip"], "10.1.0.1");

    // Commands look up a name first as an id, then through the list.
    let missing = get(&api, DEMO, "networks/private").await;
    assert_eq!(missing.expect(404)["NeutronError"]["message"], "Network private could not be found.");
    let list = get(&api, DEMO, "networks?name=private").await.expect(200);
    assert_eq!(
        (list["networks"][0]["id"].as_str(), list["networks"][0]["subnets"][0].as_str()),
        (Some(network.as_str()), subnet["subnet"]["id"].as_str())
    );
    assert!(list["networks"][0].get("provider:physical_network").is_none(), "providers are for administrators");
    assert_eq!(get(&api, ADMIN, "networks?name=private").await.expect(200)["networks"][0]["provider:physical_network"], "physnet1");

    let port = send(&api, "POST", DEMO, "ports", json!({"port": {"network_id": network, "name": "p"}})).await.expect(201);
    assert_eq!(port["port"]["fixed_ips"][0]["ip_address"], "10.1.0.2");
    assert!(port["port"].get("binding:host_id").is_none());
    let path = format!("ports?network_id={network}&fixed_ips=ip_address%3D10.1.0.2&fields=id&fields=mac_address");
    let reduced = get(&api, DEMO, &path).await.expect(200);
    assert_eq!(reduced["ports"], json!([{"id": port["port"]["id"], "mac_address": port["port"]["mac_address"]}]));
    assert_eq!(get(&api, "other:member", "ports").await.expect(200), json!({"ports": []}));
    let busy = api.call("DELETE", &format!("/network/v2.0/networks/{network}"), ADMIN, None, None).await.expect(409);
    assert!(busy["NeutronError"]["message"].as_str().unwrap().contains("ports still in use"));
    api.call("DELETE", &format!("/network/v2.0/ports/{}", id(&port["port"])), DEMO, None, None).await.expect(204);
    api.call("DELETE", &format!("/network/v2.0/networks/{network}"), ADMIN, None, None).await.expect(204);
}

#[actix_web::test]
async fn bindings_follow_a_port_from_host_to_host() {
    let api = api();
    get(&api, ADMIN, "extensions/binding-extended").await.expect(200);
    get(&api, ADMIN, "extensions/trunk").await.expect(404);
    let network = id(&send(&api, "POST", ADMIN, "networks", json!({"network": {"shared": true}})).await.expect(201)["network"]);
    let port = id(&send(&api, "POST", DEMO, "ports", json!({"port": {"network_id": network}})).await.expect(201)["port"]);
    let bindings = format!("ports/{port}/bindings");
    let bind = send(&api, "PUT", ADMIN, &format!("ports/{port}"), json!({"port": {"binding:host_id": "host1"}})).await.expect(200);
    assert_eq!((&bind["port"]["binding:host_id"], &bind["port"]["binding:vif_type"]), (&json!("host1"), &json!("ovs")));
    let target = json!({"binding": {"host": "host2", "vnic_type": "normal", "profile": {"migrating_to": "host2"}}});
    let made = send(&api, "POST", ADMIN, &bindings, target.clone()).await.expect(201);
    assert_eq!((&made["binding"]["status"], &made["binding"]["profile"]), (&json!("INACTIVE"), &json!({"migrating_to": "host2"})));
    send(&api, "POST", ADMIN, &bindings, target).await.expect(409);
    get(&api, DEMO, &bindings).await.expect(403);
    let active = api.call("PUT", &format!("/network/v2.0/{bindings}/host2/activate"), ADMIN, None, None).await.expect(200);
    assert_eq!(active["binding"]["status"], "ACTIVE");
    api.call("PUT", &format!("/network/v2.0/{bindings}/host2/activate"), ADMIN, None, None).await.expect(409);
    let list = get(&api, ADMIN, &bindings).await.expect(200);
    let state = |n: usize| (list["bindings"][n]["host"].clone(), list["bindings"][n]["status"].clone());
    assert_eq!([state(0), state(1)], [(json!("host1"), json!("INACTIVE")), (json!("host2"), json!("ACTIVE"))]);
    assert_eq!(get(&api, ADMIN, &format!("ports/{port}")).await.expect(200)["port"]["binding:host_id"], "host2");
    api.call("DELETE", &format!("/network/v2.0/{bindings}/host1"), ADMIN, None, None).await.expect(204);
    api.call("DELETE", &format!("/network/v2.0/{bindings}/host1"), ADMIN, None, None).await.expect(404);
}

#[actix_web::test]
async fn security_groups_policies_and_tags() {
    let api = api();
    let default = get(&api, DEMO, "security-groups?project_id=demo&name=default").await.expect(200);
    assert_eq!(default["security_groups"].as_array().unwrap().len(), 1);
    let web = send(&api, "POST", DEMO, "security-groups", json!({"security_group": {"name": "web"}})).await.expect(201);
    let group = id(&web["security_group"]);
    let rule = json!({"security_group_rule": {
        "security_group_id": group, "direction": "ingress", "protocol": "tcp", "port_range_min": 80, "port_range_max": 80,
        "ethertype": "IPv4", "remote_ip_prefix": "0.0.0.0/0",
    }});
    let made = id(&send(&api, "POST", DEMO, "security-group-rules", rule.clone()).await.expect(201)["security_group_rule"]);
    send(&api, "POST", DEMO, "security-group-rules", rule).await.expect(409);
    let shown = get(&api, DEMO, &format!("security-groups/{group}")).await.expect(200);
    assert_eq!(shown["security_group"]["security_group_rules"][2]["id"], made.as_str());
    api.call("DELETE", &format!("/network/v2.0/security-group-rules/{made}"), DEMO, None, None).await.expect(204);
    assert_eq!(
        send(&api, "PUT", DEMO, &format!("security-groups/{group}/tags"), json!({"tags": ["a", "b"]})).await.expect(200),
        json!({"tags": ["a", "b"]})
    );
    assert_eq!(get(&api, DEMO, "security-groups?tags=a,b").await.expect(200)["security_groups"][0]["id"], group.as_str());

    let policy = json!({"policy": {"name": "gold", "shared": true}});
    send(&api, "POST", DEMO, "qos/policies", policy.clone()).await.expect(403);
    let policy = id(&send(&api, "POST", ADMIN, "qos/policies", policy).await.expect(201)["policy"]);
    let tagged = format!("qos/policies/{policy}/tags/paid");
    api.call("PUT", &format!("/network/v2.0/{tagged}"), ADMIN, None, None).await.expect(201);
    get(&api, DEMO, &tagged).await.expect(204);
    let rules = format!("qos/policies/{policy}/minimum_bandwidth_rules");
    let made = send(&api, "POST", ADMIN, &rules, json!({"minimum_bandwidth_rule": {"min_kbps": 1000}})).await.expect(201);
    assert_eq!(made["minimum_bandwidth_rule"]["direction"], "egress");
    let shown = get(&api, DEMO, &format!("qos/policies/{policy}")).await.expect(200);
    assert_eq!(
        (&shown["policy"]["rules"][0]["type"], &shown["policy"]["rules"][0]["min_kbps"]),
        (&json!("minimum_bandwidth"), &json!(1000))
    );
    let network = id(&send(&api, "POST", ADMIN, "networks", json!({"network": {"shared": true}})).await.expect(201)["network"]);
    let port = json!({"port": {"network_id": network, "qos_policy_id": policy}});
    let port = id(&send(&api, "POST", DEMO, "ports", port).await.expect(201)["port"]);
    let shown = get(&api, ADMIN, &format!("ports/{port}")).await.expect(200);
    assert_eq!(shown["port"]["resource_request"]["request_groups"][0]["resources"], json!({"NET_BW_EGR_KILOBIT_PER_SEC": 1000}));
}

#[actix_web::test]
async fn absent_resources_are_named_and_pages_follow_each_other() {
    let api = api();
    assert_eq!(api.call("GET", "/network", "", None, None).await.expect(200)["versions"][0]["id"], "v2.0");
    assert_eq!(get(&api, DEMO, "quotas/demo").await.expect(200)["quota"]["port"], 500);
    get(&api, DEMO, "quotas/other").await.expect(403);
    send(&api, "POST", "demo:reader", "networks", json!({"network": {}})).await.expect(403);
    send(&api, "POST", DEMO, "networks", json!({"net": {}})).await.expect(400);
    let wrong = send(&api, "POST", DEMO, "networks", json!({"network": {"name": 7}})).await.expect(400);
    assert!(wrong["NeutronError"]["message"].as_str().unwrap().contains("name"));
    for n in 0..5 {
        send(&api, "POST", DEMO, "networks", json!({"network": {"name": format!("n{n}")}})).await.expect(201);
    }
    get(&api, DEMO, "networks?colour=red").await.expect(400);
    let mut path = "networks?limit=2&sort_key=name&sort_dir=desc&fields=name&fields=id".to_owned();
    let mut names = Vec::new();
    loop {
        let page = get(&api, DEMO, &path).await.expect(200);
        names.extend(page["networks"].as_array().unwrap().iter().map(|n| n["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["networks_links"][0]["href"].as_str() else { break };
        path = next.split_once("/v2.0/").unwrap().1.to_owned();
    }
    assert_eq!(names, ["n4", "n3", "n2", "n1", "n0"]);
}
