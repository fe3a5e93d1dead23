//! The requests of Terraform's OpenStack provider, which is built on gophercloud, in the order of one `apply`, one changed plan and one
//! `destroy`: the provider itself is a program that cannot be had everywhere. Each resource is made, read until it is ready, and read again.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{User, id_of};
use crate::stage::{Stage, play_default};

const NETWORK: &str = "/network/v2.0";
const VOLUMES: &str = "/volume/v3/volumes";

/// Makes a resource of the network API, and reads it as the provider does after each creation.
async fn made(user: &User, collection: &str, name: &str, attributes: Value) -> Value {
    let made = user.post(&format!("{NETWORK}/{collection}"), json!({name: attributes})).await.expect(201).body[name].clone();
    let path = format!("{NETWORK}/{collection}/{}", id_of(&made));
    user.get(&path).await.expect(200).body[name].clone()
}

/// The provider asks for the oldest microversion unless a resource needs a newer one.
fn provider(stage: &Stage) -> User {
    stage.member.speaking("2.1")
}

/// Deletes a resource and reads it until it is gone.
async fn destroyed(stage: &Stage, path: &str) {
    let user = &provider(stage);
    let deleted = user.delete(path).await;
    assert!([202, 204].contains(&deleted.status), "{path}: {}", deleted.text);
    stage.until(&format!("{path} is gone"), || async { user.get(path).await.status == 404 }).await;
}

/// Returns the only entry of a list.
async fn only(user: &User, path: &str, collection: &str) -> Value {
    let listed = user.get(path).await.expect(200).body[collection].as_array().expect("a list").clone();
    assert_eq!(listed.len(), 1, "{path}");
    listed[0].clone()
}

/// The resources of a plan.
struct Plan {
    network: Uuid,
    subnet: Uuid,
    router: Uuid,
    group: Uuid,
    port: Uuid,
    volume: Uuid,
    server: Uuid,
    floating_ip: Uuid,
}

/// `openstack_networking_network_v2`, `_subnet_v2`, `_router_v2` and `_router_interface_v2`.
async fn apply_network(stage: &Stage) -> (Uuid, Uuid, Uuid) {
    let user = &provider(stage);
    let network = made(user, "networks", "network", json!({"name": "web", "admin_state_up": true})).await;
    assert_eq!(network["status"], "ACTIVE");
    let network = id_of(&network);
    let request = json!({"name": "web", "network_id": network, "cidr": "10.9.0.0/24", "ip_version": 4, "enable_dhcp": true,
        "dns_nameservers": ["192.0.2.53"], "allocation_pools": [{"start": "10.9.0.10", "end": "10.9.0.99"}]});
    let subnet = id_of(&made(user, "subnets", "subnet", request).await);
    let public = only(user, &format!("{NETWORK}/networks?name=public&router%3Aexternal=true"), "networks").await;
    let gateway = json!({"name": "web", "admin_state_up": true, "external_gateway_info": {"network_id": public["id"]}});
    let router = made(user, "routers", "router", gateway).await;
    assert_eq!(router["status"], "ACTIVE");
    let router = id_of(&router);
    let linked = user.put(&format!("{NETWORK}/routers/{router}/add_router_interface"), json!({"subnet_id": subnet})).await.expect(200);
    let port = linked.body["port_id"].as_str().expect("an id").to_owned();
    assert_eq!(user.get(&format!("{NETWORK}/ports/{port}")).await.expect(200).body["port"]["status"], "ACTIVE");
    (network, subnet, router)
}

/// `openstack_networking_secgroup_v2` and `_secgroup_rule_v2`.
async fn apply_group(user: &User) -> Uuid {
    let group = id_of(&made(user, "security-groups", "security_group", json!({"name": "web", "description": "for the web"})).await);
    let rule = json!({"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 443, "port_range_max": 443,
        "remote_ip_prefix": "0.0.0.0/0", "security_group_id": group, "description": ""});
    let rule = made(user, "security-group-rules", "security_group_rule", rule).await;
    assert_eq!((&rule["port_range_min"], &rule["security_group_id"]), (&json!(443), &json!(group)));
    group
}

/// `openstack_compute_instance_v2` with a `block_device`, a port and a key pair.
async fn apply_server(stage: &Stage, port: Uuid) -> Uuid {
    let user = &provider(stage);
    let key = json!({"keypair": {"name": "deployer"}});
    let key = user.post("/os-keypairs", key).await.expect(200).body["keypair"]["name"].clone();
    user.get("/os-keypairs/deployer").await.expect(200);
    let image = only(user, "/image/v2/images?name=tiny", "images").await["id"].clone();
    let flavors = user.get("/flavors/detail").await.expect(200).body["flavors"].as_array().expect("a list").clone();
    let flavor = flavors.iter().find(|flavor| flavor["name"] == "gen1.small").expect("a flavor")["id"].clone();
    let root = json!({"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 1,
        "delete_on_termination": true});
    let request = json!({"server": {
        "name": "web-1", "flavorRef": flavor, "imageRef": "", "key_name": key, "config_drive": true, "metadata": {"role": "web"},
        "networks": [{"port": port}], "block_device_mapping_v2": [root], "user_data": "I2Nsb3VkLWNvbmZpZw==",
    }});
    let server = id_of(&user.post("/servers", request).await.expect(202).body["server"]);
    stage.at_rest(server, "ACTIVE").await;
    let shown = user.show(server).await;
    assert_eq!((&shown["config_drive"], &shown["key_name"], &shown["metadata"]), (&json!("True"), &key, &json!({"role": "web"})));
    assert_eq!(shown["addresses"]["web"][0]["OS-EXT-IPS:type"], "fixed");
    // The provider tells addresses, flavor, zone and volumes of a server by further reads.
    let interface = only(user, &format!("/servers/{server}/os-interface"), "interfaceAttachments").await;
    assert_eq!(interface["port_id"], json!(port));
    user.get(&format!("/flavors/{}", flavor.as_str().expect("an id"))).await.expect(200);
    user.speaking("2.26").get(&format!("/servers/{server}/tags")).await.expect(200);
    server
}

async fn apply(stage: &Stage) -> Plan {
    let user = &provider(stage);
    let (network, subnet, router) = apply_network(stage).await;
    let group = apply_group(user).await;
    let request = json!({"name": "web-1", "network_id": network, "admin_state_up": true, "security_groups": [group],
        "fixed_ips": [{"subnet_id": subnet, "ip_address": "10.9.0.42"}]});
    let port = id_of(&made(user, "ports", "port", request).await);
    let server = apply_server(stage, port).await;
    let volume = user.make_volume_with(json!({"name": "data", "size": 1, "description": "", "metadata": {"for": "web"}})).await;
    attach(stage, server, volume).await;
    let public = only(user, &format!("{NETWORK}/networks?name=public"), "networks").await["id"].clone();
    let floating = made(user, "floatingips", "floatingip", json!({"floating_network_id": public})).await;
    let address = floating["floating_ip_address"].as_str().expect("an address").to_owned();
    // `openstack_networking_floatingip_associate_v2` finds the floating IP by its address.
    let record = only(user, &format!("{NETWORK}/floatingips?floating_ip_address={address}"), "floatingips").await;
    let floating_ip = id_of(&record);
    let path = format!("{NETWORK}/floatingips/{floating_ip}");
    user.put(&path, json!({"floatingip": {"port_id": port, "fixed_ip_address": "10.9.0.42"}})).await.expect(200);
    let associated = user.get(&path).await.expect(200).body["floatingip"].clone();
    assert_eq!((&associated["status"], &associated["router_id"]), (&json!("ACTIVE"), &json!(router)));
    Plan { network, subnet, router, group, port, volume, server, floating_ip }
}

/// `openstack_compute_volume_attach_v2`: its id is the server's and the attachment's.
async fn attach(stage: &Stage, server: Uuid, volume: Uuid) {
    let attached = stage.member.attach(server, volume).await.expect(200).body["volumeAttachment"].clone();
    let path = format!("/servers/{server}/os-volume_attachments/{}", attached["id"].as_str().expect("an id"));
    // The attachment can be read as soon as its request is answered; the guest has the volume later.
    let shown = stage.member.get(&path).await.expect(200).body["volumeAttachment"].clone();
    assert_eq!((&shown["volumeId"], &shown["device"]), (&json!(volume), &attached["device"]));
    let status = || async { stage.member.get(&format!("{VOLUMES}/{volume}")).await.expect(200).body["volume"]["status"].clone() };
    stage.until("the volume is in use", || async { status().await == "in-use" }).await;
    stage.at_rest(server, "ACTIVE").await;
}

#[test]
fn a_plan_is_applied_changed_and_destroyed() {
    play_default(|stage| async move {
        let user = &provider(&stage);
        let plan = apply(&stage).await;
        let server = plan.server;
        // A changed flavor is a resize that the provider confirms by itself.
        user.resize(server, "gen2.large").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        user.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(user.show(server).await["flavor"]["id"], "gen2.large");
        user.put(&format!("/servers/{server}"), json!({"server": {"name": "web-one"}})).await.expect(200);
        user.delete(&format!("/servers/{server}/metadata/role")).await.expect(204);
        user.post(&format!("/servers/{server}/metadata"), json!({"metadata": {"stage": "two"}})).await.expect(200);
        user.act(server, json!({"addSecurityGroup": {"name": "default"}})).await.expect(202);
        user.act(server, json!({"removeSecurityGroup": {"name": "default"}})).await.expect(202);
        let shown = user.show(server).await;
        assert_eq!((&shown["name"], &shown["metadata"]), (&json!("web-one"), &json!({"stage": "two"})));
        let addresses: Vec<_> =
            shown["addresses"]["web"].as_array().expect("a list").iter().map(|one| one["OS-EXT-IPS:type"].clone()).collect();
        assert_eq!(addresses, ["fixed", "floating"], "the floating IP leads to the server in its new cell");
        // An extended volume that is attached.
        let bigger = json!({"os-extend": {"new_size": 2}});
        let path = format!("{VOLUMES}/{}/action", plan.volume);
        user.speaking("2.1,volume 3.41").post(&path, bigger.clone()).await.expect(400);
        assert_eq!(user.get(&format!("{VOLUMES}/{}", plan.volume)).await.expect(200).body["volume"]["size"], 1);
        user.speaking("2.1,volume 3.42").post(&path, bigger).await.expect(202);
        destroy(&stage, &plan).await;
    });
}

/// Destroys the resources in the reversed order of their dependencies.
async fn destroy(stage: &Stage, plan: &Plan) {
    let user = &provider(stage);
    let floating = format!("{NETWORK}/floatingips/{}", plan.floating_ip);
    user.put(&floating, json!({"floatingip": {"port_id": null}})).await.expect(200);
    destroyed(stage, &floating).await;
    destroyed(stage, &format!("/servers/{}/os-volume_attachments/{}", plan.server, plan.volume)).await;
    destroyed(stage, &format!("{VOLUMES}/{}", plan.volume)).await;
    destroyed(stage, &format!("/servers/{}", plan.server)).await;
    user.delete("/os-keypairs/deployer").await.expect(202);
    destroyed(stage, &format!("{NETWORK}/ports/{}", plan.port)).await;
    destroyed(stage, &format!("{NETWORK}/security-groups/{}", plan.group)).await;
    let interface = format!("{NETWORK}/routers/{}/remove_router_interface", plan.router);
    user.put(&interface, json!({"subnet_id": plan.subnet})).await.expect(200);
    destroyed(stage, &format!("{NETWORK}/routers/{}", plan.router)).await;
    destroyed(stage, &format!("{NETWORK}/subnets/{}", plan.subnet)).await;
    destroyed(stage, &format!("{NETWORK}/networks/{}", plan.network)).await;
}
