//! Routers: their gateways, their interfaces and their routes, and who may do what with them.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{User, id_of};
use crate::stage::{Stage, play_default};

const ROUTERS: &str = "/network/v2.0/routers";

/// Makes a resource of the network API, and returns it.
pub async fn make(user: &User, collection: &str, name: &str, attributes: Value) -> Value {
    user.post(&format!("/network/v2.0/{collection}"), json!({name: attributes})).await.expect(201).body[name].clone()
}

/// Makes an external network with one subnet, 203.0.113.0/24, and returns the network's id.
pub async fn external(stage: &Stage) -> Uuid {
    let network = id_of(&make(&stage.admin, "networks", "network", json!({"name": "outside", "router:external": true})).await);
    make(&stage.admin, "subnets", "subnet", json!({"network_id": network, "cidr": "203.0.113.0/24", "ip_version": 4})).await;
    network
}

/// Makes a network of the user's with one subnet, and returns both ids.
pub async fn internal(user: &User, cidr: &str) -> (Uuid, Uuid) {
    let network = id_of(&make(user, "networks", "network", json!({"name": "inside"})).await);
    let version = if cidr.contains(':') { 6 } else { 4 };
    let subnet = make(user, "subnets", "subnet", json!({"network_id": network, "cidr": cidr, "ip_version": version})).await;
    (network, id_of(&subnet))
}

/// Adds a subnet to a router.
pub async fn link(user: &User, router: Uuid, subnet: Uuid) -> Value {
    user.put(&format!("{ROUTERS}/{router}/add_router_interface"), json!({"subnet_id": subnet})).await.expect(200).body
}

async fn unlink(user: &User, router: Uuid, what: Value, status: u16) -> Value {
    user.put(&format!("{ROUTERS}/{router}/remove_router_interface"), what).await.expect(status).body
}

async fn change(user: &User, router: Uuid, changes: Value, status: u16) -> Value {
    user.put(&format!("{ROUTERS}/{router}"), json!({"router": changes})).await.expect(status).body["router"].clone()
}

async fn ports_of(user: &User, device: Uuid) -> Vec<Value> {
    let list = user.get(&format!("/network/v2.0/ports?device_id={device}")).await.expect(200).body;
    list["ports"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_router_joins_an_external_network_and_leaves_it() {
    play_default(|stage| async move {
        let outside = external(&stage).await;
        let request = json!({"name": "edge", "external_gateway_info": {"network_id": outside}, "admin_state_up": true});
        let made = make(&stage.member, "routers", "router", request).await;
        let router = id_of(&made);
        let info = &made["external_gateway_info"];
        assert_eq!((&info["network_id"], &info["enable_snat"]), (&json!(outside), &json!(true)));
        assert_eq!(info["external_fixed_ips"][0]["ip_address"], "203.0.113.2");
        assert_eq!((&made["status"], &made["routes"], &made["tenant_id"]), (&json!("ACTIVE"), &json!([]), &made["project_id"]));
        assert!(made.get("ha").is_none(), "only administrators see how a router is built");

        // Its port belongs to no project.
        assert_eq!(ports_of(&stage.member, router).await, Vec::<Value>::new());
        let gateway = ports_of(&stage.admin, router).await.remove(0);
        assert_eq!((&gateway["device_owner"], &gateway["project_id"]), (&json!("network:router_gateway"), &json!("")));
        assert_eq!(gateway["status"], "ACTIVE");
        let direct = stage.admin.delete(&format!("/network/v2.0/ports/{}", id_of(&gateway))).await.expect(409);
        assert!(direct.message().contains("has device owner network:router_gateway"), "{}", direct.text);

        let closed = stage.admin.put(&format!("/network/v2.0/networks/{outside}"), json!({"network": {"router:external": false}})).await;
        assert!(closed.expect(409).message().contains("existing gateway ports"));
        stage.admin.delete(&format!("/network/v2.0/networks/{outside}")).await.expect(409);

        let chosen = json!({"external_gateway_info": {
            "network_id": outside, "enable_snat": false, "external_fixed_ips": [{"ip_address": "203.0.113.77"}]}});
        change(&stage.member, router, chosen.clone(), 403).await;
        let changed = change(&stage.admin, router, chosen, 200).await;
        assert_eq!(changed["external_gateway_info"]["external_fixed_ips"][0]["ip_address"], "203.0.113.77");
        assert_eq!((&changed["external_gateway_info"]["enable_snat"], &changed["ha"]), (&json!(false), &json!(false)));
        assert!(changed["revision_number"].as_i64() > made["revision_number"].as_i64());

        let left = change(&stage.member, router, json!({"external_gateway_info": {}}), 200).await;
        assert_eq!((left["external_gateway_info"].clone(), ports_of(&stage.admin, router).await), (Value::Null, vec![]));
        stage.admin.delete(&format!("/network/v2.0/networks/{outside}")).await.expect(204);
    });
}

#[test]
fn a_gateway_outside_its_subnet_is_no_routers_address() {
    play_default(|stage| async move {
        let (_, subnet) = internal(&stage.member, "10.78.0.0/24").await;
        let path = format!("/network/v2.0/subnets/{subnet}");
        stage.member.put(&path, json!({"subnet": {"gateway_ip": "2001:db8::1"}})).await.expect(400);
        let changed = stage.member.put(&path, json!({"subnet": {"gateway_ip": "10.79.0.1"}})).await.expect(200);
        assert_eq!(changed.body["subnet"]["gateway_ip"], "10.79.0.1");
        let router = id_of(&make(&stage.member, "routers", "router", json!({})).await);
        let added = stage.member.put(&format!("{ROUTERS}/{router}/add_router_interface"), json!({"subnet_id": subnet})).await.expect(400);
        assert!(added.message().contains("10.79.0.1 is not a valid IP"), "{}", added.text);
        assert_eq!(ports_of(&stage.member, router).await, Vec::<Value>::new());
    });
}

#[test]
fn only_external_networks_are_gateways() {
    play_default(|stage| async move {
        let (inside, _) = internal(&stage.member, "10.8.0.0/24").await;
        let router = id_of(&make(&stage.member, "routers", "router", json!({})).await);
        let internal = json!({"router": {"external_gateway_info": {"network_id": inside}}});
        let refused = stage.member.put(&format!("{ROUTERS}/{router}"), internal).await.expect(400);
        assert_eq!(refused.message(), format!("Bad router request: Network {inside} is not an external network."));
        for info in [json!({"network_id": Uuid::nil()}), json!({"enable_snat": true}), json!("x"), json!({"network_id": 7})] {
            let status = if info["network_id"].is_string() { 404 } else { 400 };
            change(&stage.member, router, json!({"external_gateway_info": info}), status).await;
        }
        let outside = external(&stage).await;
        let request = json!({"external_gateway_info": {"network_id": outside, "external_fixed_ips": [{"ip_address": "203.0.113.1"}]}});
        change(&stage.admin, router, request, 400).await;
        assert_eq!(change(&stage.member, router, json!({}), 200).await["external_gateway_info"], Value::Null);
        // Ordinary users put no ports of their own on it.
        stage.member.post("/network/v2.0/ports", json!({"port": {"network_id": outside}})).await.expect(403);
    });
}

#[test]
fn an_interface_has_the_gateway_address_of_its_subnet() {
    play_default(|stage| async move {
        let user = &stage.member;
        let (network, subnet) = internal(user, "10.8.0.0/24").await;
        let router = id_of(&make(user, "routers", "router", json!({"name": "r"})).await);
        let added = link(user, router, subnet).await;
        assert_eq!((&added["id"], &added["subnet_ids"], &added["network_id"]), (&json!(router), &json!([subnet]), &json!(network)));
        let port = ports_of(user, router).await.remove(0);
        assert_eq!((&port["id"], &port["device_owner"]), (&added["port_id"], &json!("network:router_interface")));
        assert_eq!((&port["fixed_ips"][0]["ip_address"], &port["security_groups"]), (&json!("10.8.0.1"), &json!([])));

        let again = user.put(&format!("{ROUTERS}/{router}/add_router_interface"), json!({"subnet_id": subnet})).await.expect(400);
        assert!(again.message().contains("Router already has a port on subnet"), "{}", again.text);
        let (_, overlapping) = internal(user, "10.8.0.128/25").await;
        let overlap = user.put(&format!("{ROUTERS}/{router}/add_router_interface"), json!({"subnet_id": overlapping})).await.expect(400);
        assert!(overlap.message().contains("overlaps with cidr 10.8.0.0/24"), "{}", overlap.text);
        let other = id_of(&make(user, "routers", "router", json!({})).await);
        user.put(&format!("{ROUTERS}/{other}/add_router_interface"), json!({"subnet_id": subnet})).await.expect(409);

        let in_use = user.delete(&format!("{ROUTERS}/{router}")).await.expect(409);
        assert!(in_use.message().contains("has ports still attached"), "{}", in_use.text);
        let path = format!("/network/v2.0/ports/{}", id_of(&port));
        user.delete(&path).await.expect(409);
        user.put(&path, json!({"port": {"device_id": ""}})).await.expect(409);
        user.put(&path, json!({"port": {"name": "inner side"}})).await.expect(200);
        user.put(&format!("/network/v2.0/subnets/{subnet}"), json!({"subnet": {"gateway_ip": null}})).await.expect(409);
        user.delete(&format!("/network/v2.0/subnets/{subnet}")).await.expect(409);

        let elsewhere = unlink(user, router, json!({"subnet_id": overlapping}), 404).await;
        assert!(elsewhere["NeutronError"]["message"].as_str().unwrap().contains("has no interface on subnet"));
        unlink(user, router, json!({"port_id": other}), 404).await;
        unlink(user, router, json!({"port_id": port["id"], "subnet_id": overlapping}), 400).await;
        unlink(user, router, json!({}), 400).await;
        let removed = unlink(user, router, json!({"subnet_id": subnet}), 200).await;
        assert_eq!(removed["port_id"], port["id"]);
        user.get(&path).await.expect(404);
        user.delete(&format!("{ROUTERS}/{router}")).await.expect(204);
        user.get(&format!("{ROUTERS}/{router}")).await.expect(404);
    });
}

#[test]
fn a_port_becomes_an_interface_and_goes_with_it() {
    play_default(|stage| async move {
        let user = &stage.member;
        let (network, subnet) = internal(user, "10.8.0.0/24").await;
        let router = id_of(&make(user, "routers", "router", json!({})).await);
        let port = id_of(&make(user, "ports", "port", json!({"network_id": network})).await);
        let path = format!("{ROUTERS}/{router}/add_router_interface");
        user.put(&path, json!({"subnet_id": subnet, "port_id": port})).await.expect(400);
        let added = user.put(&path, json!({"port_id": port})).await.expect(200).body;
        assert_eq!((&added["port_id"], &added["subnet_id"]), (&json!(port), &json!(subnet)));
        let own = format!("/network/v2.0/ports/{port}");
        let kept = user.put(&own, json!({"port": {"fixed_ips": [{"subnet_id": subnet}]}})).await.expect(200).body;
        assert_eq!(kept["port"]["fixed_ips"][0]["subnet_id"], json!(subnet), "its address stays");
        user.put(&own, json!({"port": {"fixed_ips": [{"subnet_id": subnet, "ip_address": "10.8.0.77"}]}})).await.expect(409);
        let twice = user.put(&path, json!({"port_id": port})).await.expect(409);
        assert!(twice.message().contains("already has an attached device"), "{}", twice.text);
        let of_server = user.post("/compute/v2.1/servers", stage.server().with("networks", json!([{"port": port}])).body()).await;
        assert!([400, 409].contains(&of_server.status), "{}", of_server.text);
        unlink(user, router, json!({"port_id": port}), 200).await;
        user.get(&format!("/network/v2.0/ports/{port}")).await.expect(404);

        let server = stage.create(stage.server().with("networks", json!([{"uuid": network}]))).await;
        let held = id_of(&ports_of(user, server).await[0]);
        user.put(&path, json!({"port_id": held})).await.expect(409);
        let eve = stage.user("eve", "elsewhere", "member").await;
        let hers = id_of(&make(&eve, "routers", "router", json!({})).await);
        eve.put(&format!("{ROUTERS}/{hers}/add_router_interface"), json!({"subnet_id": subnet})).await.expect(404);
        eve.put(&format!("{ROUTERS}/{hers}/add_router_interface"), json!({"port_id": held})).await.expect(404);
        let shared = user.get("/network/v2.0/networks?shared=true").await.expect(200).body["networks"][0]["subnets"][0].clone();
        let foreign = eve.put(&format!("{ROUTERS}/{hers}/add_router_interface"), json!({"subnet_id": shared})).await.expect(400);
        assert!(foreign.message().contains("not owned by project making the request"), "{}", foreign.text);
        eve.get(&format!("{ROUTERS}/{router}")).await.expect(404);
        assert_eq!(eve.get(ROUTERS).await.expect(200).body["routers"].as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn subnets_of_ipv6_share_a_routers_port() {
    play_default(|stage| async move {
        let user = &stage.member;
        let (network, first) = internal(user, "fd00:1::/64").await;
        let second = json!({"network_id": network, "cidr": "fd00:2::/64", "ip_version": 6});
        let second = id_of(&make(user, "subnets", "subnet", second).await);
        let router = id_of(&make(user, "routers", "router", json!({})).await);
        let ports = [link(user, router, first).await["port_id"].clone(), link(user, router, second).await["port_id"].clone()];
        assert_eq!(ports[0], ports[1]);
        unlink(user, router, json!({"subnet_id": first}), 200).await;
        let left = ports_of(user, router).await.remove(0);
        assert_eq!(left["fixed_ips"], json!([{"subnet_id": second, "ip_address": "fd00:2::1"}]));
        unlink(user, router, json!({"subnet_id": second}), 200).await;
        assert_eq!(ports_of(user, router).await, Vec::<Value>::new());
    });
}

#[test]
fn a_routers_routes_lead_through_its_subnets() {
    play_default(|stage| async move {
        let user = &stage.member;
        let (_, subnet) = internal(user, "10.8.0.0/24").await;
        user.post(ROUTERS, json!({"router": {"routes": []}})).await.expect(400);
        let router = id_of(&make(user, "routers", "router", json!({})).await);
        link(user, router, subnet).await;
        let route = |n: u8, hop: &str| json!({"destination": format!("10.9.{n}.0/24"), "nexthop": hop});
        for (hop, why) in [("10.7.0.1", "not connected"), ("10.8.0.1", "used by router")] {
            let refused = user.put(&format!("{ROUTERS}/{router}"), json!({"router": {"routes": [route(0, hop)]}})).await.expect(400);
            assert!(refused.message().contains(why), "{}", refused.text);
        }
        let set = change(user, router, json!({"routes": [route(0, "10.8.0.9")]}), 200).await;
        assert_eq!(set["routes"], json!([route(0, "10.8.0.9")]));
        let extra = json!({"router": {"routes": [route(0, "10.8.0.9"), route(1, "10.8.0.9")]}});
        let added = user.put(&format!("{ROUTERS}/{router}/add_extraroutes"), extra).await.expect(200).body;
        assert_eq!(added["router"]["routes"], json!([route(0, "10.8.0.9"), route(1, "10.8.0.9")]));
        let needed = unlink(user, router, json!({"subnet_id": subnet}), 409).await;
        assert!(needed["NeutronError"]["message"].as_str().unwrap().contains("one or more routes"));
        let many: Vec<Value> = (0..30).map(|n| route(100 + n, "10.8.0.9")).collect();
        user.put(&format!("{ROUTERS}/{router}/add_extraroutes"), json!({"router": {"routes": many}})).await.expect(400);
        let gone = json!({"router": {"routes": [route(0, "10.8.0.9"), route(1, "10.8.0.9"), route(2, "10.8.0.9")]}});
        let removed = user.put(&format!("{ROUTERS}/{router}/remove_extraroutes"), gone).await.expect(200).body;
        assert_eq!(removed["router"]["routes"], json!([]));
        unlink(user, router, json!({"subnet_id": subnet}), 200).await;
    });
}

#[test]
fn routers_and_their_ports_count_against_the_quota() {
    play_default(|stage| async move {
        let user = &stage.member;
        let (network, subnet) = internal(user, "10.8.0.0/24").await;
        let made = make(user, "routers", "router", json!({})).await;
        let project = made["project_id"].as_str().unwrap().to_owned();
        let quota = format!("/network/v2.0/quotas/{project}");
        let details = user.get(&format!("{quota}/details")).await.expect(200).body["quota"].clone();
        assert_eq!(details["router"], json!({"limit": 10, "used": 1, "reserved": 0}));
        let ports = details["port"]["used"].clone();
        stage.admin.put(&quota, json!({"quota": {"router": 1, "port": ports}})).await.expect(200);
        let refused = user.post(ROUTERS, json!({"router": {}})).await.expect(409);
        assert_eq!(refused.body["NeutronError"]["type"], "OverQuota", "{}", refused.text);
        let path = format!("{ROUTERS}/{}/add_router_interface", id_of(&made));
        let no_port = user.put(&path, json!({"subnet_id": subnet})).await.expect(409);
        assert_eq!(no_port.body["NeutronError"]["type"], "OverQuota", "{}", no_port.text);
        stage.admin.put(&quota, json!({"quota": {"port": ports.as_i64().unwrap() + 1}})).await.expect(200);
        link(user, id_of(&made), subnet).await;
        user.post("/network/v2.0/ports", json!({"port": {"network_id": network}})).await.expect(409);
    });
}

#[test]
fn a_subnet_has_one_router_when_two_ask_at_once() {
    play_default(|stage| async move {
        let user = &stage.member;
        let (_, subnet) = internal(user, "10.8.0.0/24").await;
        let mut requests = Vec::new();
        for _ in 0..2 {
            let router = id_of(&make(user, "routers", "router", json!({})).await);
            let (user, path) = (user.clone(), format!("{ROUTERS}/{router}/add_router_interface"));
            requests.push(async move { user.put(&path, json!({"subnet_id": subnet})).await.status });
        }
        let mut statuses = futures::future::join_all(requests).await;
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
    });
}
