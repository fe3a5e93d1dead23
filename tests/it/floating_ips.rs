//! Floating IPs: how they lead to servers' ports, what they need, and that servers show them wherever they run.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{User, id_of};
use crate::routers::{external, internal, link, make};
use crate::stage::{Stage, play_default};

const FLOATING: &str = "/network/v2.0/floatingips";

/// A project's network behind a router, with a server on it.
struct Site {
    outside: Uuid,
    router: Uuid,
    subnet: Uuid,
    server: Uuid,
    port: Uuid,
}

async fn site(stage: &Stage) -> Site {
    let user = &stage.member;
    let outside = external(stage).await;
    let (network, subnet) = internal(user, "10.8.0.0/24").await;
    let gateway = json!({"external_gateway_info": {"network_id": outside}});
    let router = id_of(&make(user, "routers", "router", gateway).await);
    link(user, router, subnet).await;
    let server = stage.create(stage.server().with("networks", json!([{"uuid": network}]))).await;
    let port = stage.world().network.ports_of(server).await.expect("ports")[0].id;
    Site { outside, router, subnet, server, port }
}

async fn floating(user: &User, attributes: Value) -> Value {
    make(user, "floatingips", "floatingip", attributes).await
}

async fn change(user: &User, floating: Uuid, changes: Value, status: u16) -> Value {
    let answer = user.put(&format!("{FLOATING}/{floating}"), json!({"floatingip": changes})).await.expect(status);
    if status == 200 { answer.body["floatingip"].clone() } else { json!(answer.message()) }
}

async fn addresses(user: &User, server: Uuid) -> Vec<(Value, Value)> {
    let shown = user.show(server).await["addresses"]["inside"].clone();
    let mac = shown[0]["OS-EXT-IPS-MAC:mac_addr"].clone();
    let entries = shown.as_array().cloned().unwrap_or_default();
    assert!(entries.iter().all(|entry| entry["OS-EXT-IPS-MAC:mac_addr"] == mac && entry["version"] == 4), "{shown}");
    entries.into_iter().map(|entry| (entry["addr"].clone(), entry["OS-EXT-IPS:type"].clone())).collect()
}

fn fixed_and(floating: &str) -> Vec<(Value, Value)> {
    vec![(json!("10.8.0.2"), json!("fixed")), (json!(floating), json!("floating"))]
}

#[test]
fn the_default_cloud_gives_its_users_floating_ips() {
    play_default(|stage| async move {
        let user = &stage.member;
        let networks = user.get("/network/v2.0/networks?router:external=true").await.expect(200).body;
        assert_eq!((networks["networks"].as_array().map(Vec::len), &networks["networks"][0]["name"]), (Some(1), &json!("public")));
        // Its subnet is not its users': openstacksdk would take it for one of their servers' networks.
        let subnets = user.get("/network/v2.0/subnets").await.expect(200).body["subnets"].as_array().expect("a list").clone();
        assert_eq!(subnets.iter().map(|subnet| subnet["name"].clone()).collect::<Vec<_>>(), ["private-subnet"]);
        let hidden = networks["networks"][0]["subnets"][0].as_str().expect("an id");
        user.get(&format!("/network/v2.0/subnets/{hidden}")).await.expect(404);
        stage.admin.get(&format!("/network/v2.0/subnets/{hidden}")).await.expect(200);
        let server = stage.create(stage.server()).await;
        let port = stage.world().network.ports_of(server).await.expect("ports")[0].id;
        let outside = id_of(&networks["networks"][0]);
        let made = floating(user, json!({"floating_network_id": outside, "port_id": port})).await;
        assert_eq!(made["status"], "ACTIVE");
        let shown = user.show(server).await["addresses"]["private"].clone();
        assert_eq!((&shown[1]["addr"], &shown[1]["OS-EXT-IPS:type"]), (&made["floating_ip_address"], &json!("floating")));
        // The router that joins the networks belongs to a project without users.
        assert_eq!(user.get("/network/v2.0/routers").await.expect(200).body, json!({"routers": []}));
    });
}

#[test]
fn a_floating_ip_leads_to_a_server_until_it_is_freed() {
    play_default(|stage| async move {
        let user = &stage.member;
        let site = site(&stage).await;
        let made = floating(user, json!({"floating_network_id": site.outside, "description": "web"})).await;
        let id = id_of(&made);
        assert_eq!((&made["status"], &made["port_id"], &made["router_id"]), (&json!("DOWN"), &Value::Null, &Value::Null));
        assert_eq!((&made["floating_ip_address"], &made["port_details"]), (&json!("203.0.113.3"), &Value::Null));

        let led = change(user, id, json!({"port_id": site.port}), 200).await;
        assert_eq!(
            (&led["status"], &led["router_id"], &led["fixed_ip_address"]),
            (&json!("ACTIVE"), &json!(site.router), &json!("10.8.0.2"))
        );
        assert_eq!((&led["port_details"]["device_id"], &led["port_details"]["status"]), (&json!(site.server), &json!("ACTIVE")));
        assert_eq!(addresses(user, site.server).await, fixed_and("203.0.113.3"));
        let listed = user.get("/servers/detail").await.expect(200).body["servers"][0]["addresses"]["inside"].clone();
        assert_eq!((&listed[1]["addr"], &listed[1]["OS-EXT-IPS:type"]), (&json!("203.0.113.3"), &json!("floating")));
        let ips = user.get(&format!("/servers/{}/ips/inside", site.server)).await.expect(200).body;
        assert_eq!(ips["inside"], json!([{"version": 4, "addr": "10.8.0.2"}, {"version": 4, "addr": "203.0.113.3"}]));
        let list = user.get(&format!("{FLOATING}?port_id={}&status=ACTIVE&fields=id", site.port)).await.expect(200).body;
        assert_eq!(list["floatingips"], json!([{"id": id}]));

        // A change of something else leaves it where it is.
        let renamed = change(user, id, json!({"description": "blog"}), 200).await;
        assert_eq!((&renamed["port_id"], &renamed["description"]), (&json!(site.port), &json!("blog")));
        let freed = change(user, id, json!({"port_id": null}), 200).await;
        assert_eq!((&freed["status"], &freed["fixed_ip_address"], &freed["router_id"]), (&json!("DOWN"), &Value::Null, &Value::Null));
        assert_eq!(addresses(user, site.server).await.len(), 1);

        let direct = floating(user, json!({"floating_network_id": site.outside, "port_id": site.port})).await;
        assert_eq!(direct["status"], "ACTIVE");
        user.delete(&format!("/servers/{}", site.server)).await.expect(204);
        stage.gone(site.server).await;
        let left = user.get(&format!("{FLOATING}/{}", id_of(&direct))).await.expect(200).body["floatingip"].clone();
        assert_eq!((&left["status"], &left["port_id"], &left["fixed_ip_address"]), (&json!("DOWN"), &Value::Null, &Value::Null));
        user.delete(&format!("{FLOATING}/{id}")).await.expect(204);
        user.get(&format!("{FLOATING}/{id}")).await.expect(404);
    });
}

#[test]
fn a_floating_ip_follows_its_server_into_another_cell() {
    play_default(|stage| async move {
        let user = &stage.member;
        let site = site(&stage).await;
        floating(user, json!({"floating_network_id": site.outside, "port_id": site.port})).await;
        stage.cross(site.server).await;
        assert_eq!(addresses(user, site.server).await, fixed_and("203.0.113.3"));
        user.revert(site.server).await.expect(202);
        stage.at_rest(site.server, "ACTIVE").await;
        assert_eq!(addresses(user, site.server).await, fixed_and("203.0.113.3"));
        stage.cross(site.server).await;
        user.confirm(site.server).await.expect(204);
        stage.at_rest(site.server, "ACTIVE").await;
        assert_eq!(addresses(user, site.server).await, fixed_and("203.0.113.3"));
    });
}

#[test]
fn a_floating_ip_needs_a_router_between_both_networks() {
    play_default(|stage| async move {
        let user = &stage.member;
        let site = site(&stage).await;
        let (lonely, _) = internal(user, "10.9.0.0/24").await;
        let unreachable = id_of(&make(user, "ports", "port", json!({"network_id": lonely})).await);
        let id = id_of(&floating(user, json!({"floating_network_id": site.outside})).await);
        let why = change(user, id, json!({"port_id": unreachable}), 404).await;
        assert!(why.as_str().unwrap().contains(&format!("External network {} is not reachable from subnet", site.outside)), "{why}");
        let inside = user.post(FLOATING, json!({"floatingip": {"floating_network_id": lonely}})).await.expect(400);
        assert!(inside.message().contains("is not a valid external network"), "{}", inside.text);
        let leading = json!({"floating_network_id": lonely, "port_id": unreachable});
        let inside = user.post(FLOATING, json!({"floatingip": leading})).await.expect(400);
        assert!(inside.message().contains("is not a valid external network"), "{}", inside.text);
        for (changes, status, why) in [
            (json!({"fixed_ip_address": "10.8.0.2"}), 400, "without a port_id"),
            (json!({"port_id": site.port, "fixed_ip_address": "10.8.0.99"}), 400, "does not have fixed ip"),
            (json!({"port_id": Uuid::nil()}), 404, "could not be found"),
            (json!({"port_id": "x"}), 400, "not a valid UUID"),
            (json!({"floating_ip_address": "203.0.113.9"}), 400, "read-only"),
        ] {
            let message = change(user, id, changes, status).await;
            assert!(message.as_str().unwrap().contains(why), "{message}");
        }
        let gateway = user.get(&format!("/network/v2.0/ports?device_id={}", site.router)).await.expect(200).body["ports"][0]["id"].clone();
        let of_router = change(user, id, json!({"port_id": gateway}), 400).await;
        assert!(of_router.as_str().unwrap().contains("unable to be assigned"), "{of_router}");
        user.post(FLOATING, json!({"floatingip": {}})).await.expect(400);
        user.post(FLOATING, json!({"floatingip": {"floating_network_id": Uuid::nil()}})).await.expect(404);

        // While it leads somewhere, nothing on its way can go.
        change(user, id, json!({"port_id": site.port}), 200).await;
        let router = format!("/network/v2.0/routers/{}", site.router);
        let unlink = user.put(&format!("{router}/remove_router_interface"), json!({"subnet_id": site.subnet})).await.expect(409);
        assert!(unlink.message().contains("required by one or more floating IPs"), "{}", unlink.text);
        let leave = user.put(&router, json!({"router": {"external_gateway_info": null}})).await.expect(409);
        assert!(leave.message().contains("required by one or more floating IPs"), "{}", leave.text);
        let moved = json!({"port": {"fixed_ips": [{"ip_address": "10.8.0.50"}]}});
        let readdressed = user.put(&format!("/network/v2.0/ports/{}", site.port), moved).await.expect(400);
        assert!(readdressed.message().contains("associated to a floating ip"), "{}", readdressed.text);
        stage.admin.delete(&format!("/network/v2.0/networks/{}", site.outside)).await.expect(409);
        change(user, id, json!({"port_id": null}), 200).await;
        user.put(&router, json!({"router": {"external_gateway_info": null}})).await.expect(200);
        stage.admin.delete(&format!("/network/v2.0/networks/{}", site.outside)).await.expect(204);
        user.get(&format!("{FLOATING}/{id}")).await.expect(404);
    });
}

#[test]
fn a_fixed_address_has_one_floating_ip_of_a_network() {
    play_default(|stage| async move {
        let user = &stage.member;
        let site = site(&stage).await;
        let first = id_of(&floating(user, json!({"floating_network_id": site.outside, "port_id": site.port})).await);
        let second = id_of(&floating(user, json!({"floating_network_id": site.outside})).await);
        let why = change(user, second, json!({"port_id": site.port}), 409).await;
        assert!(why.as_str().unwrap().contains("already has a floating IP on external network"), "{why}");
        change(user, first, json!({"port_id": site.port}), 200).await;
        change(user, first, json!({"port_id": null}), 200).await;

        // Two that want the same address at once: one gets it.
        let (one, other) = (format!("{FLOATING}/{first}"), format!("{FLOATING}/{second}"));
        let request = json!({"floatingip": {"port_id": site.port}});
        let answers = futures::join!(user.put(&one, request.clone()), user.put(&other, request.clone()));
        let mut statuses = [answers.0.status, answers.1.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
    });
}

#[test]
fn addresses_are_chosen_by_administrators_and_counted() {
    play_default(|stage| async move {
        let user = &stage.member;
        let site = site(&stage).await;
        let chosen = json!({"floatingip": {"floating_network_id": site.outside, "floating_ip_address": "203.0.113.200"}});
        user.post(FLOATING, chosen.clone()).await.expect(403);
        let made = stage.admin.post(FLOATING, chosen.clone()).await.expect(201).body["floatingip"].clone();
        assert_eq!(made["floating_ip_address"], "203.0.113.200");
        stage.admin.post(FLOATING, chosen).await.expect(409);
        // The address has a port, which only goes with it.
        let holders = format!("/network/v2.0/ports?device_id={}", id_of(&made));
        assert_eq!(user.get(&holders).await.expect(200).body["ports"], json!([]));
        let port = stage.admin.get(&holders).await.expect(200).body["ports"][0].clone();
        assert_eq!(port["device_owner"], "network:floatingip");
        stage.admin.delete(&format!("/network/v2.0/ports/{}", id_of(&port))).await.expect(409);

        let mine = floating(user, json!({"floating_network_id": site.outside})).await;
        let quota = format!("/network/v2.0/quotas/{}", mine["project_id"].as_str().unwrap());
        stage.admin.put(&quota, json!({"quota": {"floatingip": 1}})).await.expect(200);
        let refused = user.post(FLOATING, json!({"floatingip": {"floating_network_id": site.outside}})).await.expect(409);
        assert_eq!(refused.body["NeutronError"]["type"], "OverQuota", "{}", refused.text);
        let details = user.get(&format!("{quota}/details")).await.expect(200).body["quota"]["floatingip"].clone();
        assert_eq!(details, json!({"limit": 1, "used": 1, "reserved": 0}));

        let eve = stage.user("eve", "elsewhere", "member").await;
        let path = format!("{FLOATING}/{}", id_of(&mine));
        eve.get(&path).await.expect(404);
        eve.put(&path, json!({"floatingip": {"port_id": null}})).await.expect(404);
        eve.delete(&path).await.expect(404);
        let hers = id_of(&floating(&eve, json!({"floating_network_id": site.outside})).await);
        change(&eve, hers, json!({"port_id": site.port}), 404).await;
        assert_eq!(eve.get(FLOATING).await.expect(200).body["floatingips"].as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn older_clients_manage_floating_ips_by_the_compute_api() {
    play_default(|stage| async move {
        let site = site(&stage).await;
        let user = stage.member.speaking("2.35");
        let pools = user.get("/os-floating-ip-pools").await.expect(200).body;
        assert_eq!(pools, json!({"floating_ip_pools": [{"name": "public"}, {"name": "outside"}]}));
        let made = user.post("/os-floating-ips", json!({"pool": "outside"})).await.expect(200).body["floating_ip"].clone();
        let (id, address) = (id_of(&made), made["ip"].clone());
        let free = json!({"id": id, "ip": "203.0.113.3", "fixed_ip": null, "instance_id": null, "pool": "outside"});
        assert_eq!(made, free);
        let answer = user.act(site.server, json!({"addFloatingIp": {"address": address}})).await.expect(202);
        assert_eq!(answer.text, "");
        assert_eq!(addresses(&stage.member, site.server).await, fixed_and("203.0.113.3"));
        let shown = user.get(&format!("/os-floating-ips/{id}")).await.expect(200).body["floating_ip"].clone();
        assert_eq!((&shown["fixed_ip"], &shown["instance_id"]), (&json!("10.8.0.2"), &json!(site.server)));
        assert_eq!(user.get("/os-floating-ips").await.expect(200).body["floating_ips"], json!([shown]));

        let at = json!({"addFloatingIp": {"address": address, "fixed_address": "10.8.0.9"}});
        assert_eq!(user.act(site.server, at).await.expect(400).message(), "Specified fixed address not assigned to instance");
        let unknown = user.act(site.server, json!({"addFloatingIp": {"address": "203.0.113.250"}})).await.expect(404);
        assert_eq!(unknown.message(), "floating IP not found");
        user.act(site.server, json!({"removeFloatingIp": {"address": address}})).await.expect(202);
        assert_eq!(addresses(&stage.member, site.server).await.len(), 1);
        let twice = user.act(site.server, json!({"removeFloatingIp": {"address": address}})).await.expect(409);
        assert!(twice.message().contains("is not associated with instance"), "{}", twice.text);
        let other = user.post("/os-floating-ips", json!({"pool": "outside"})).await.expect(200).body["floating_ip"]["ip"].clone();
        user.act(site.server, json!({"addFloatingIp": {"address": address}})).await.expect(202);
        let refusal = user.act(site.server, json!({"addFloatingIp": {"address": other}})).await.expect(400);
        assert!(refusal.message().contains("association has failed"), "{}", refusal.text);
        let eve = stage.user("eve", "elsewhere", "member").await.speaking("2.35");
        eve.act(site.server, json!({"removeFloatingIp": {"address": address}})).await.expect(404);
        eve.get(&format!("/os-floating-ips/{id}")).await.expect(404);
        user.delete(&format!("/os-floating-ips/{id}")).await.expect(202);
        user.get(&format!("/os-floating-ips/{id}")).await.expect(404);
        user.post("/os-floating-ips", json!({})).await.expect(404);
        user.post("/os-floating-ips", json!({"pool": 7})).await.expect(400);

        // Clients of today find none of it.
        let newer = stage.member.speaking("2.44");
        newer.act(site.server, json!({"addFloatingIp": {"address": address}})).await.expect(404);
        newer.act(site.server, json!({"removeFloatingIp": {"address": address}})).await.expect(404);
        let newer = stage.member.speaking("2.36");
        for path in ["os-floating-ips", "os-floating-ip-pools", "os-networks", "os-tenant-networks"] {
            newer.get(&format!("/{path}")).await.expect(404);
        }
        newer.act(site.server, json!({"addFloatingIp": {"address": other}})).await.expect(202);
    });
}

#[test]
fn older_clients_list_networks_by_the_compute_api() {
    play_default(|stage| async move {
        let (network, _) = internal(&stage.member, "10.8.0.0/24").await;
        let user = stage.member.speaking("2.1");
        let shown = user.get(&format!("/os-networks/{network}")).await.expect(200).body["network"].clone();
        assert_eq!(
            (&shown["label"], &shown["cidr"], shown.as_object().map(serde_json::Map::len)),
            (&json!("inside"), &Value::Null, Some(11))
        );
        let listed = user.get("/os-networks").await.expect(200).body["networks"].clone();
        assert!(listed.as_array().unwrap().contains(&shown), "{listed}");
        let of_admin = stage.admin.speaking("2.1").get(&format!("/os-networks/{network}")).await.expect(200).body["network"].clone();
        assert_eq!(of_admin.as_object().map(serde_json::Map::len), Some(32));
        let tenant = user.get(&format!("/os-tenant-networks/{network}")).await.expect(200).body["network"].clone();
        assert_eq!(tenant, json!({"id": network, "cidr": "None", "label": "inside"}));
        let eve = stage.user("eve", "elsewhere", "member").await.speaking("2.1");
        for path in ["os-networks", "os-tenant-networks"] {
            assert_eq!(eve.get(&format!("/{path}/{network}")).await.expect(404).message(), "Network not found");
            let seen = eve.get(&format!("/{path}")).await.expect(200).body["networks"].clone();
            assert!(seen.as_array().unwrap().iter().all(|seen| seen["id"] != json!(network)), "{seen}");
        }
    });
}
