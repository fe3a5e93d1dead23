//! Tests of invalid values, of attributes reserved to others, of roles without the right, and of limits.

use serde_json::{Value, json};

use super::requests::{ADMIN, DEMO, api, get, id, send};
use crate::test_api::TestApi;

/// Makes a shared network of the administrator's with a subnet, and returns both ids.
async fn shared_network(api: &TestApi) -> (String, String) {
    let network = id(&send(api, "POST", ADMIN, "networks", json!({"network": {"shared": true}})).await.expect(201)["network"]);
    let subnet = json!({"subnet": {"network_id": network, "cidr": "10.1.0.0/24"}});
    let subnet = id(&send(api, "POST", ADMIN, "subnets", subnet).await.expect(201)["subnet"]);
    (network, subnet)
}

/// Lays `attributes` over `base`, as the body that makes a resource.
fn body(name: &str, base: &Value, attributes: &Value) -> Value {
    let mut merged = base.clone();
    merged.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    json!({ name: merged })
}

/// Checks that each of `wrong` is refused with 400 and the attribute's name, at creation and at change.
async fn refuses(api: &TestApi, (collection, name): (&str, &str), base: Value, wrong: &[Value]) {
    let sound = send(api, "POST", ADMIN, collection, json!({ name: base })).await.expect(201);
    let path = format!("{collection}/{}", id(&sound[name]));
    let before = get(api, ADMIN, &path).await.expect(200);
    for attributes in wrong {
        let attribute = attributes.as_object().unwrap().keys().next().unwrap();
        let made = send(api, "POST", ADMIN, collection, body(name, &base, attributes)).await;
        assert_eq!(made.status, 400, "{attributes}: {}", made.body);
        let message = made.body["NeutronError"]["message"].as_str().unwrap();
        assert!(message.contains(attribute.as_str()) && message.len() < 400, "{attribute}: {message}");
        if collection != "security-group-rules" {
            let changed = send(api, "PUT", ADMIN, &path, json!({ name: attributes })).await;
            assert_eq!(changed.status, 400, "{attributes}: {}", changed.body);
        }
    }
    assert_eq!(get(api, ADMIN, &path).await.expect(200), before);
}

#[actix_web::test]
async fn networks_and_subnets_refuse_values_that_make_no_sense() {
    let api = api();
    let long = "x".repeat(256);
    let tags: Vec<String> = (0..51).map(|n| n.to_string()).collect();
    let wrong = [
        json!({"name": long}),
        json!({"name": "  "}),
        json!({"name": null}),
        json!({"description": long}),
        json!({"admin_state_up": "maybe"}),
        json!({"shared": 2}),
        json!({"mtu": -1}),
        json!({"mtu": 67}),
        json!({"mtu": 9001}),
        json!({"mtu": 4_294_967_296_u64}),
        json!({"mtu": "big"}),
        json!({"tags": tags}),
        json!({"tags": ["x".repeat(61)]}),
        json!({"tags": ["a", "a"]}),
        json!({"tags": [""]}),
        json!({"tags": "a"}),
        json!({"qos_policy_id": "gold"}),
        json!({"provider:network_type": "carrier-pigeon"}),
        json!({"provider:segmentation_id": -1}),
        json!({"colour": "red"}),
        json!({"id": "00000000-0000-0000-0000-000000000001"}),
    ];
    refuses(&api, ("networks", "network"), json!({"name": "n"}), &wrong).await;
    let fine = json!({"network": {"name": "x".repeat(255), "mtu": 0, "shared": "true", "tags": ["a", "b"]}});
    let fine = send(&api, "POST", ADMIN, "networks", fine).await.expect(201);
    assert_eq!((&fine["network"]["mtu"], &fine["network"]["shared"]), (&json!(1450), &json!(true)));

    let network = id(&fine["network"]);
    let base = json!({"network_id": network, "cidr": "10.1.0.0/24"});
    let route = |destination: &str, nexthop: &str| json!({"host_routes": [{"destination": destination, "nexthop": nexthop}]});
    let servers: Vec<String> = (1..=6).map(|n| format!("10.0.0.{n}")).collect();
    let routes: Vec<Value> = (0..21).map(|n| json!({"destination": format!("10.{n}.0.0/16"), "nexthop": "10.1.0.9"})).collect();
    let pools: Vec<Value> = (0..101).map(|n| json!({"start": format!("10.1.0.{n}"), "end": format!("10.1.0.{n}")})).collect();
    let wrong = [
        route("10.0.0.1/8", "10.1.0.9"),
        route("10.0.0.0", "10.1.0.9"),
        route("10.0.0.0/8", "gateway"),
        route("fd00::/64", "10.1.0.9"),
        route("fd00::/64", "fd00::1"),
        json!({"host_routes": [{"destination": "10.0.0.0/8"}]}),
        json!({"host_routes": [{"destination": "10.0.0.0/8", "nexthop": "10.1.0.9", "metric": 1}]}),
        json!({"host_routes": "10.0.0.0/8"}),
        json!({"host_routes": routes}),
        json!({"dns_nameservers": ["dns.example"]}),
        json!({"dns_nameservers": ["10.0.0.1", "10.0.0.1"]}),
        json!({"dns_nameservers": servers}),
        json!({"dns_nameservers": {"first": "10.0.0.1"}}),
        json!({"gateway_ip": "router"}),
        json!({"allocation_pools": [{"start": "10.1.0.9"}]}),
        json!({"allocation_pools": pools}),
        json!({"enable_dhcp": "perhaps"}),
        json!({"ipv6_ra_mode": "slaac"}),
    ];
    refuses(&api, ("subnets", "subnet"), base, &wrong).await;
}

#[actix_web::test]
async fn ports_and_bindings_refuse_values_that_make_no_sense() {
    let api = api();
    let (network, subnet) = shared_network(&api).await;
    let pair = |pair: Value| json!({"allowed_address_pairs": [pair]});
    let option = |option: Value| json!({"extra_dhcp_opts": [option]});
    let groups: Vec<String> = (0..101).map(|n| uuid::Uuid::from_u128(n).to_string()).collect();
    let addresses: Vec<Value> = (0..6).map(|_| json!({"subnet_id": subnet})).collect();
    let many: Vec<Value> = (0..1001).map(|_| json!({})).collect();
    let pairs: Vec<Value> = (1..12).map(|n| json!({"ip_address": format!("10.9.0.{n}")})).collect();
    let options: Vec<Value> = (0..51).map(|n| json!({"opt_name": n.to_string(), "opt_value": "x"})).collect();
    let wrong = [
        json!({"mac_address": "fa:16:3e:00:00"}),
        json!({"mac_address": "fa:16:3e:+1:00:00"}),
        json!({"mac_address": "00:00:00:00:00:00"}),
        json!({"fixed_ips": null}),
        json!({"fixed_ips": "10.1.0.9"}),
        json!({"fixed_ips": [{"ip_address": "10.1.0.300"}]}),
        json!({"fixed_ips": [{"ip_address": "10.1.0.9"}, {"ip_address": "10.1.0.9"}]}),
        json!({"fixed_ips": [{"subnet_id": "private"}]}),
        json!({"fixed_ips": [{"address": "10.1.0.9"}]}),
        json!({"fixed_ips": many}),
        json!({"security_groups": ["default"]}),
        json!({"security_groups": groups}),
        json!({"security_groups": [groups[1], groups[1]]}),
        json!({"allowed_address_pairs": pairs}),
        pair(json!({"mac_address": "fa:16:3e:00:00:01"})),
        pair(json!({"ip_address": "everything"})),
        pair(json!({"ip_address": "10.0.0.0/33"})),
        pair(json!({"ip_address": "224.0.0.1"})),
        pair(json!({"ip_address": "10.0.0.1", "mac_address": "mine"})),
        pair(json!({"ip_address": "10.0.0.1", "port": 1})),
        pair(json!("10.0.0.1")),
        option(json!({"opt_name": "tftp-server"})),
        option(json!({"opt_name": "", "opt_value": "x"})),
        option(json!({"opt_name": "tftp-server", "opt_value": ""})),
        option(json!({"opt_name": "tftp-server", "opt_value": "a\nb"})),
        option(json!({"opt_name": "tftp-server", "opt_value": "x".repeat(256)})),
        option(json!({"opt_name": "tftp-server", "opt_value": "x", "ip_version": 5})),
        json!({"extra_dhcp_opts": options}),
        json!({"binding:profile": "fast"}),
        json!({"binding:profile": {"x": "x".repeat(4096)}}),
        json!({"binding:vnic_type": "warp"}),
        json!({"binding:host_id": "x".repeat(256)}),
        json!({"device_id": "x".repeat(256)}),
        json!({"device_owner": 7}),
        json!({"port_security_enabled": "perhaps"}),
    ];
    refuses(&api, ("ports", "port"), json!({"network_id": network}), &wrong).await;
    let six = json!({"port": {"network_id": network, "fixed_ips": addresses}});
    let refused = send(&api, "POST", ADMIN, "ports", six).await.expect(400);
    assert!(refused["NeutronError"]["message"].as_str().unwrap().contains("maximum amount of fixed ips"), "{refused}");
    let five = json!({"port": {"network_id": network, "fixed_ips": addresses[..5]}});
    let port = send(&api, "POST", ADMIN, "ports", five).await.expect(201)["port"].clone();
    assert_eq!(port["fixed_ips"].as_array().unwrap().len(), 5);
    let bindings = format!("ports/{}/bindings", id(&port));
    for wrong in [json!({}), json!({"host": ""}), json!({"host": "h", "profile": []}), json!({"host": "h", "vnic_type": "warp"})] {
        send(&api, "POST", ADMIN, &bindings, json!({"binding": wrong})).await.expect(400);
    }
    send(&api, "POST", ADMIN, &bindings, json!({"binding": {"host": "h"}})).await.expect(201);
    send(&api, "PUT", ADMIN, &format!("{bindings}/h"), json!({"binding": {"host": "i"}})).await.expect(400);
}

#[actix_web::test]
async fn rules_of_security_groups_go_together() {
    let api = api();
    let group = json!({"security_group": {"name": "web"}});
    let group = id(&send(&api, "POST", ADMIN, "security-groups", group).await.expect(201)["security_group"]);
    let base = json!({"security_group_id": group, "direction": "ingress"});
    let rule = |more: Value| send(&api, "POST", ADMIN, "security-group-rules", body("security_group_rule", &base, &more));
    let ports = |protocol: &str, low: Value, high: Value| json!({"protocol": protocol, "port_range_min": low, "port_range_max": high});
    let wrong = [
        json!({"direction": "sideways"}),
        json!({"protocol": "carrier-pigeon"}),
        json!({"protocol": 256}),
        json!({"protocol": "-7"}),
        json!({"protocol": "+6"}),
        json!({"ethertype": "IPX"}),
        json!({"ethertype": "IPv4", "remote_ip_prefix": "fd00::/64"}),
        json!({"ethertype": "IPv6", "remote_ip_prefix": "10.0.0.0/8"}),
        json!({"ethertype": "IPv4", "protocol": "ipv6-icmp"}),
        json!({"ethertype": "IPv4", "protocol": "58"}),
        json!({"remote_ip_prefix": "somewhere"}),
        json!({"remote_ip_prefix": "10.0.0.0/33"}),
        json!({"remote_group_id": group, "remote_ip_prefix": "10.0.0.0/8"}),
        json!({"port_range_min": 80, "port_range_max": 80}),
        ports("tcp", json!(81), json!(80)),
        ports("tcp", json!(0), json!(80)),
        ports("tcp", json!(80), Value::Null),
        ports("tcp", json!(80), json!(65_536)),
        ports("tcp", json!("http"), json!("http")),
        ports("gre", json!(80), json!(80)),
        ports("icmp", json!(256), Value::Null),
        ports("icmp", Value::Null, json!(0)),
        json!({"description": "x".repeat(256)}),
        json!({"remote_address_group_id": group}),
        json!({"colour": null}),
    ];
    for more in wrong {
        let answer = rule(more.clone()).await;
        assert_eq!(answer.status, 400, "{more}: {}", answer.body);
    }
    // Any text names a group, which may be missing.
    assert_eq!(rule(json!({"remote_group_id": "default"})).await.status, 404);
    let before = get(&api, ADMIN, &format!("security-groups/{group}")).await.expect(200);
    assert_eq!(before["security_group"]["security_group_rules"].as_array().unwrap().len(), 2, "only what a new group has");
    let fine = [
        (json!({"protocol": "ANY"}), Value::Null),
        (json!({"protocol": 6}), json!("6")),
        (json!({"protocol": "ICMP", "ethertype": "ipv6"}), json!("ipv6-icmp")),
        (ports("icmp", json!(8), json!(0)), json!("icmp")),
        (ports("udp", json!("53"), json!("53")), json!("udp")),
        (json!({"protocol": "vrrp", "remote_ip_prefix": "10.0.0.7"}), json!("vrrp")),
    ];
    for (more, protocol) in fine {
        assert_eq!(rule(more).await.expect(201)["security_group_rule"]["protocol"], protocol);
    }
    send(&api, "POST", ADMIN, "security-groups", json!({"security_group": {"name": "Default"}})).await.expect(409);
    send(&api, "PUT", ADMIN, &format!("security-groups/{group}"), json!({"security_group": {"name": "default"}})).await.expect(409);
}

#[actix_web::test]
async fn on_a_shared_network_only_its_owner_decides_of_addresses() {
    let api = api();
    let (network, subnet) = shared_network(&api).await;
    let plain = json!({"network_id": network, "fixed_ips": [{"subnet_id": subnet}], "device_owner": "compute:nova"});
    let port = id(&send(&api, "POST", DEMO, "ports", json!({"port": plain})).await.expect(201)["port"]);
    let owners = [
        ("mac_address", json!({"mac_address": "fa:16:3e:00:00:01"})),
        ("fixed_ips", json!({"fixed_ips": [{"ip_address": "10.1.0.77"}]})),
        ("fixed_ips", json!({"fixed_ips": [{"subnet_id": subnet, "ip_address": "10.1.0.78"}]})),
        ("port_security_enabled", json!({"port_security_enabled": false})),
        ("allowed_address_pairs", json!({"allowed_address_pairs": [{"ip_address": "10.1.0.1"}]})),
        ("device_owner", json!({"device_owner": "network:dhcp"})),
    ];
    let path = format!("ports/{port}");
    let before = get(&api, DEMO, &path).await.expect(200);
    for (name, attributes) in &owners {
        let base = json!({"network_id": network});
        for answer in [
            send(&api, "POST", DEMO, "ports", body("port", &base, attributes)).await,
            send(&api, "PUT", DEMO, &path, json!({"port": attributes})).await,
        ] {
            let message = answer.expect(403)["NeutronError"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains(name) && message.ends_with("is disallowed by policy"), "{message}");
        }
    }
    assert_eq!(get(&api, DEMO, &path).await.expect(200), before);
    send(&api, "PUT", DEMO, &path, json!({"port": {"name": "mine", "device_owner": "compute:here"}})).await.expect(200);

    // All of it is allowed on the caller's own network; a new MAC address also needs the role manager.
    let own = id(&send(&api, "POST", DEMO, "networks", json!({"network": {}})).await.expect(201)["network"]);
    send(&api, "POST", DEMO, "subnets", json!({"subnet": {"network_id": own, "cidr": "10.1.0.0/24"}})).await.expect(201);
    let base = json!({"network_id": own});
    for (name, attributes) in owners.iter().filter(|(_, attributes)| attributes["fixed_ips"][0].get("subnet_id").is_none()) {
        let made = send(&api, "POST", DEMO, "ports", body("port", &base, attributes)).await.expect(201)["port"].clone();
        if *name != "mac_address" {
            send(&api, "PUT", DEMO, &format!("ports/{}", id(&made)), json!({"port": attributes})).await.expect(200);
        }
    }
    let mac = json!({"port": {"mac_address": "fa:16:3e:00:00:02"}});
    let made = format!("ports/{}", id(&send(&api, "POST", DEMO, "ports", json!({"port": base})).await.expect(201)["port"]));
    send(&api, "PUT", DEMO, &made, mac.clone()).await.expect(403);
    send(&api, "PUT", "demo:manager", &made, mac).await.expect(200);
    // The network is visible, but neither the caller's own nor shared.
    let external = id(&send(&api, "POST", ADMIN, "networks", json!({"network": {"router:external": true}})).await.expect(201)["network"]);
    get(&api, DEMO, &format!("networks/{external}")).await.expect(200);
    send(&api, "POST", DEMO, "ports", json!({"port": {"network_id": external}})).await.expect(403);
}

#[actix_web::test]
async fn reading_asks_for_reader_and_writing_for_member() {
    let api = api();
    let (network, _) = shared_network(&api).await;
    let path = format!("networks/{network}");
    let mut paths: Vec<String> =
        ["networks", "subnets", "ports", "security-groups", "security-group-rules", "qos/policies", "qos/rule-types"]
            .into_iter()
            .chain(["routers", "floatingips", "availability_zones", "quotas/demo", "quotas/demo/default", "quotas/demo/details"])
            .map(str::to_owned)
            .collect();
    paths.extend([path.clone(), format!("{path}/tags")]);
    for path in &paths {
        get(&api, "demo:custom", path).await.expect(403);
        get(&api, "demo:service", path).await.expect(403);
        get(&api, "demo:reader", path).await.expect(200);
    }
    for role in ["custom", "service", "reader"] {
        let token = format!("demo:{role}");
        send(&api, "POST", &token, "networks", json!({"network": {}})).await.expect(403);
        send(&api, "PUT", &token, &path, json!({"network": {"name": "mine"}})).await.expect(403);
        send(&api, "PUT", &token, "quotas/demo", json!({"quota": {"port": 1000}})).await.expect(403);
    }
}

#[actix_web::test]
async fn quotas_are_set_hold_and_are_shown() {
    let api = api();
    let quota = get(&api, DEMO, "quotas/demo").await.expect(200)["quota"].clone();
    let usual = json!({
        "network": 100, "subnet": 100, "port": 500, "security_group": 10, "security_group_rule": 100,
        "router": 10, "floatingip": 50, "rbac_policy": 10, "subnetpool": -1,
    });
    assert_eq!(quota, usual);
    assert_eq!(get(&api, ADMIN, "quotas").await.expect(200), json!({"quotas": []}));
    get(&api, DEMO, "quotas").await.expect(403);
    send(&api, "PUT", DEMO, "quotas/demo", json!({"quota": {"port": 1000}})).await.expect(403);
    for wrong in
        [json!({"port": -2}), json!({"port": "many"}), json!({"port": 2_147_483_648_u64}), json!({"colour": 1}), json!({"port": null})]
    {
        send(&api, "PUT", ADMIN, "quotas/demo", json!({"quota": wrong})).await.expect(400);
    }
    let changes = json!({"quota": {"network": 2, "subnet": "1", "port": 1, "security_group": 2, "security_group_rule": 9}});
    assert_eq!(send(&api, "PUT", ADMIN, "quotas/demo", changes).await.expect(200)["quota"]["subnet"], 1);

    let over = |answer: crate::test_api::Answer, resource: &str| {
        let refused = answer.expect(409)["NeutronError"].clone();
        assert_eq!(
            (&refused["type"], &refused["message"]),
            (&json!("OverQuota"), &json!(format!("Quota exceeded for resources: ['{resource}'].")))
        );
    };
    let network = id(&send(&api, "POST", DEMO, "networks", json!({"network": {}})).await.expect(201)["network"]);
    send(&api, "POST", DEMO, "networks", json!({"network": {}})).await.expect(201);
    over(send(&api, "POST", DEMO, "networks", json!({"network": {}})).await, "network");
    // Networks that an administrator makes for the project count for the project.
    over(send(&api, "POST", ADMIN, "networks", json!({"network": {"project_id": "demo"}})).await, "network");
    send(&api, "POST", ADMIN, "networks", json!({"network": {}})).await.expect(201);
    let subnet = |n: u8| json!({"subnet": {"network_id": network, "cidr": format!("10.{n}.0.0/24")}});
    send(&api, "POST", DEMO, "subnets", subnet(1)).await.expect(201);
    over(send(&api, "POST", DEMO, "subnets", subnet(2)).await, "subnet");
    let port = json!({"port": {"network_id": network}});
    let made = id(&send(&api, "POST", DEMO, "ports", port.clone()).await.expect(201)["port"]);
    over(send(&api, "POST", DEMO, "ports", port.clone()).await, "port");
    api.call("DELETE", &format!("/network/v2.0/ports/{made}"), DEMO, None, None).await.expect(204);
    send(&api, "POST", DEMO, "ports", port).await.expect(201);
    // The default group has 4 rules, and each other group has 2.
    let group = |name: &str| json!({"security_group": {"name": name}});
    let web = id(&send(&api, "POST", DEMO, "security-groups", group("web")).await.expect(201)["security_group"]);
    over(send(&api, "POST", DEMO, "security-groups", group("db")).await, "security_group");
    let rule = |port: u16| json!({"security_group_rule": {"security_group_id": web, "direction": "ingress", "protocol": "tcp", "port_range_min": port, "port_range_max": port}});
    for port in [80, 81, 82] {
        send(&api, "POST", DEMO, "security-group-rules", rule(port)).await.expect(201);
    }
    over(send(&api, "POST", DEMO, "security-group-rules", rule(83)).await, "security_group_rule");

    let details = get(&api, DEMO, "quotas/demo/details").await.expect(200)["quota"].clone();
    assert_eq!(
        (&details["port"], &details["router"]),
        (&json!({"limit": 1, "used": 1, "reserved": 0}), &json!({"limit": 10, "used": 0, "reserved": 0}))
    );
    assert_eq!(details["security_group_rule"], json!({"limit": 9, "used": 9, "reserved": 0}));
    let below = send(&api, "PUT", ADMIN, "quotas/demo", json!({"quota": {"network": 1}})).await.expect(400);
    assert!(below["NeutronError"]["message"].as_str().unwrap().contains("already used 2"), "{below}");
    send(&api, "PUT", ADMIN, "quotas/demo", json!({"quota": {"network": 1, "force": true}})).await.expect(200);
    let quotas = get(&api, ADMIN, "quotas").await.expect(200)["quotas"].clone();
    assert_eq!((&quotas[0]["project_id"], &quotas[0]["network"], &quotas[0]["router"]), (&json!("demo"), &json!(1), &json!(10)));
    assert_eq!(get(&api, DEMO, "quotas/demo/default").await.expect(200)["quota"], usual);
    api.call("DELETE", "/network/v2.0/quotas/demo", ADMIN, None, None).await.expect(204);
    assert_eq!(get(&api, DEMO, "quotas/demo").await.expect(200)["quota"], usual);
}

#[actix_web::test]
async fn tags_are_bounded_and_may_hold_any_character() {
    let api = api();
    let network = id(&send(&api, "POST", DEMO, "networks", json!({"network": {}})).await.expect(201)["network"]);
    let path = format!("networks/{network}/tags");
    let numbers = |count: usize| json!({"tags": (0..count).map(|n| n.to_string()).collect::<Vec<_>>()});
    // As many tags as fit into a body: duplicates are found in one pass.
    for wrong in [numbers(12_000), numbers(51), json!({"tags": ["a", "a"]}), json!({"tags": ["x".repeat(61)]}), json!({"tags": [7]})] {
        send(&api, "PUT", DEMO, &path, wrong).await.expect(400);
    }
    assert_eq!(get(&api, DEMO, &path).await.expect(200), json!({"tags": []}));
    send(&api, "PUT", DEMO, &path, numbers(49)).await.expect(200);
    for tag in ["caf%C3%A9", "caf%C3%A9"] {
        api.call("PUT", &format!("/network/v2.0/{path}/{tag}"), DEMO, None, None).await.expect(201);
    }
    get(&api, DEMO, &format!("{path}/caf%C3%A9")).await.expect(204);
    api.call("PUT", &format!("/network/v2.0/{path}/more"), DEMO, None, None).await.expect(400);
    assert_eq!(get(&api, DEMO, &path).await.expect(200)["tags"].as_array().unwrap().len(), 50);
}

#[actix_web::test]
async fn filters_refuse_values_that_nothing_can_have() {
    let api = api();
    let (network, _) = shared_network(&api).await;
    for wrong in ["admin_state_up=maybe", "mtu=big", "shared=", "sort_key=name&sort_dir=up", "limit=-1"] {
        get(&api, ADMIN, &format!("networks?{wrong}")).await.expect(400);
    }
    let keys = "&sort_key=name".repeat(33);
    get(&api, ADMIN, &format!("networks?{keys}")).await.expect(400);
    let addresses: String = (0..101).map(|n| format!("&fixed_ips=ip_address%3D10.0.0.{n}")).collect();
    get(&api, ADMIN, &format!("ports?{addresses}")).await.expect(400);
    let list = get(&api, ADMIN, "networks?admin_state_up=True&mtu=1450&mtu=1500&shared=1&status=ACTIVE").await.expect(200);
    assert_eq!(list["networks"][0]["id"], network.as_str());
}
