//! Ports that a network cannot give: a server or an interface that asks for one is refused before anything is made.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, User, id_of};
use crate::qos::networks::{Minimum, give_bridges, policy};
use crate::routers::{internal, make};
use crate::stage::{Stage, play_default};

/// An attach of an interface to a server, and a create of a server, that ask for the same port.
struct Requests<'a> {
    stage: &'a Stage,
    server: Uuid,
}

impl Requests<'_> {
    async fn attach(&self, user: &User, request: Value) -> Answer {
        user.post(&format!("/servers/{}/os-interface", self.server), json!({"interfaceAttachment": request})).await
    }

    async fn create(&self, user: &User, networks: Value) -> Answer {
        self.stage.server().with("networks", networks).ask(user).await
    }

    /// Asks for one port on the network, with this address if there is one. Returns both answers' statuses and messages.
    async fn both(&self, network: Uuid, address: Option<&str>) -> [(u16, String); 2] {
        let member = &self.stage.member;
        let (attached, created) = match address {
            Some(address) => {
                let fixed = json!({"net_id": network, "fixed_ips": [{"ip_address": address}]});
                let named = json!([{"uuid": network, "fixed_ip": address}]);
                (self.attach(member, fixed).await, self.create(member, named).await)
            }
            None => (self.attach(member, json!({"net_id": network})).await, self.create(member, json!([{"uuid": network}])).await),
        };
        [attached, created].map(|answer| (answer.status, answer.message().to_owned()))
    }

    /// Checks that nothing was made: the member has the one server with its one port, and the ports that it made itself.
    async fn nothing_was_made(&self, own_ports: usize) {
        let servers = self.stage.member.get("/servers").await.expect(200).body;
        assert_eq!(servers["servers"].as_array().map(Vec::len), Some(1), "{servers}");
        let ports = self.stage.member.get("/network/v2.0/ports").await.expect(200).body;
        assert_eq!(ports["ports"].as_array().map(Vec::len), Some(1 + own_ports), "{ports}");
        assert_eq!(self.stage.at_rest(self.server, "ACTIVE").await["OS-EXT-STS:task_state"], Value::Null);
    }
}

async fn port_at(stage: &Stage, network: Uuid, address: &str) -> Uuid {
    let port = json!({"network_id": network, "fixed_ips": [{"ip_address": address}]});
    id_of(&make(&stage.member, "ports", "port", port).await)
}

#[test]
fn an_address_that_no_port_may_have_is_refused() {
    play_default(|stage| async move {
        let requests = Requests { stage: &stage, server: stage.create(stage.server()).await };
        let (network, _) = internal(&stage.member, "10.9.0.0/24").await;
        for wrong in ["192.0.2.9", "10.9.0.0", "10.9.0.255", "10.9.0.1", "fd00::9"] {
            let why = format!("Invalid input received: Fixed IP {wrong} is not a valid ip address for network {network}.");
            for answer in requests.both(network, Some(wrong)).await {
                assert_eq!(answer, (400, why.clone()), "{wrong}");
            }
        }
        requests.nothing_was_made(0).await;
    });
}

#[test]
fn an_address_that_a_port_has_is_refused() {
    play_default(|stage| async move {
        let requests = Requests { stage: &stage, server: stage.create(stage.server()).await };
        let (network, _) = internal(&stage.member, "10.9.0.0/24").await;
        let port = port_at(&stage, network, "10.9.0.20").await;
        let [attached, created] = requests.both(network, Some("10.9.0.20")).await;
        assert_eq!(attached, (409, "Fixed IP 10.9.0.20 is already in use.".to_owned()));
        assert_eq!(created, (400, "Fixed IP 10.9.0.20 is already in use.".to_owned()));
        stage.member.put(&format!("/network/v2.0/ports/{port}"), json!({"port": {"device_id": "a-router"}})).await.expect(200);
        let [_, created] = requests.both(network, Some("10.9.0.20")).await;
        assert_eq!(created, (400, "Fixed IP address 10.9.0.20 is already in use on instance a-router.".to_owned()));
        let twice = json!([{"uuid": network, "fixed_ip": "10.9.0.30"}, {"uuid": network, "fixed_ip": "10.9.0.30"}]);
        let refused = requests.create(&stage.member, twice).await.expect(400);
        assert_eq!(refused.message(), "Fixed IP 10.9.0.30 is already in use.");
        requests.nothing_was_made(1).await;
    });
}

#[test]
fn a_network_without_a_subnet_gives_no_port() {
    play_default(|stage| async move {
        let requests = Requests { stage: &stage, server: stage.create(stage.server()).await };
        let bare = id_of(&make(&stage.member, "networks", "network", json!({"name": "bare"})).await);
        let needs = format!("Network {bare} requires a subnet in order to boot instances on.");
        let [attached, created] = requests.both(bare, None).await;
        let groups = "Network requires port_security_enabled and subnet associated in order to apply security groups.";
        assert_eq!((attached, created), ((400, groups.to_owned()), (400, needs.clone())));
        requests.nothing_was_made(0).await;

        // Without security groups a port needs no address, but a new server does.
        let open = json!({"network": {"port_security_enabled": false}});
        stage.member.put(&format!("/network/v2.0/networks/{bare}"), open).await.expect(200);
        assert_eq!(requests.both(bare, Some("10.9.0.9")).await[0].0, 400);
        let [attached, created] = requests.both(bare, None).await;
        assert_eq!((attached.0, created), (200, (400, needs)));
    });
}

#[test]
fn the_only_network_of_a_project_must_have_a_subnet() {
    play_default(|stage| async move {
        let bare = id_of(&make(&stage.admin, "networks", "network", json!({"name": "bare"})).await);
        let private = stage.admin.get("/network/v2.0/networks?name=private").await.expect(200).body["networks"][0]["id"].clone();
        let path = format!("/network/v2.0/networks/{}", private.as_str().expect("an id"));
        stage.admin.put(&path, json!({"network": {"shared": false}})).await.expect(200);
        stage.admin.put(&format!("/network/v2.0/networks/{bare}"), json!({"network": {"shared": true}})).await.expect(200);
        let refused = stage.server().with("networks", json!("auto")).ask(&stage.member).await.expect(400);
        assert_eq!(refused.message(), format!("Network {bare} requires a subnet in order to boot instances on."));
        let servers = stage.member.get("/servers").await.expect(200).body;
        assert_eq!(servers["servers"], json!([]));
    });
}

#[test]
fn a_network_whose_addresses_are_used_up_gives_no_port() {
    play_default(|stage| async move {
        let requests = Requests { stage: &stage, server: stage.create(stage.server()).await };
        let (network, _) = internal(&stage.member, "10.9.0.0/29").await;
        for last in 2..5 {
            port_at(&stage, network, &format!("10.9.0.{last}")).await;
        }
        let why = format!("No fixed IP addresses available for network: {network}");
        let three = json!([{"uuid": network}, {"uuid": network, "fixed_ip": "10.9.0.6"}, {"uuid": network}]);
        assert_eq!(requests.create(&stage.member, three).await.expect(400).message(), why, "two addresses for three ports");
        let last = port_at(&stage, network, "10.9.0.5").await;
        port_at(&stage, network, "10.9.0.6").await;
        for answer in requests.both(network, None).await {
            assert_eq!(answer, (400, why.clone()));
        }
        requests.nothing_was_made(5).await;
        stage.member.delete(&format!("/network/v2.0/ports/{last}")).await.expect(204);
        let attached = requests.attach(&stage.member, json!({"net_id": network})).await.expect(200).body;
        assert_eq!(attached["interfaceAttachment"]["fixed_ips"][0]["ip_address"], "10.9.0.5");
    });
}

#[test]
fn each_ip_version_of_a_network_must_have_an_address_left() {
    play_default(|stage| async move {
        let requests = Requests { stage: &stage, server: stage.create(stage.server()).await };
        let (network, _) = internal(&stage.member, "10.9.0.0/24").await;
        let narrow = json!({"network_id": network, "cidr": "fd00:9::/64", "ip_version": 6,
            "allocation_pools": [{"start": "fd00:9::5", "end": "fd00:9::5"}]});
        make(&stage.member, "subnets", "subnet", narrow).await;
        port_at(&stage, network, "fd00:9::5").await;
        let why = format!("No fixed IP addresses available for network: {network}");
        for answer in requests.both(network, None).await {
            assert_eq!(answer, (400, why.clone()));
        }
        requests.nothing_was_made(1).await;
    });
}

#[test]
fn a_network_with_a_minimum_gives_no_port_to_a_server() {
    play_default(|stage| async move {
        let requests = Requests { stage: &stage, server: stage.create(stage.server()).await };
        give_bridges(&stage).await;
        let policy = policy(&stage, Minimum { egress: 1000, ..Minimum::default() }).await;
        let fast = json!({"name": "fast", "shared": true, "qos_policy_id": policy});
        let network = id_of(&make(&stage.admin, "networks", "network", fast).await);
        make(&stage.admin, "subnets", "subnet", json!({"network_id": network, "cidr": "10.9.0.0/24", "ip_version": 4})).await;
        for (status, message) in requests.both(network, None).await {
            assert!(status == 400 && message.contains("networks with QoS policy"), "{status} {message}");
        }
        requests.nothing_was_made(0).await;
    });
}
