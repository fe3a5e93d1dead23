//! How many addresses networks have, and how many of them ports have.

use serde_json::{Value, json};

use crate::routers::{internal, make};
use crate::stage::play_default;

const PATH: &str = "/network/v2.0/network-ip-availabilities";

#[test]
fn an_administrator_sees_how_many_addresses_ports_have() {
    play_default(|stage| async move {
        let (network, subnet) = internal(&stage.member, "10.9.0.0/24").await;
        for _ in 0..2 {
            make(&stage.member, "ports", "port", json!({"network_id": network})).await;
        }
        let bare = make(&stage.member, "networks", "network", json!({"name": "bare"})).await["id"].clone();
        let shown = stage.admin.get(&format!("{PATH}/{network}")).await.expect(200).body["network_ip_availability"].clone();
        let subnets =
            json!([{"subnet_id": subnet, "subnet_name": "", "ip_version": 4, "cidr": "10.9.0.0/24", "total_ips": 253, "used_ips": 2}]);
        assert_eq!((&shown["network_id"], &shown["network_name"]), (&json!(network), &json!("inside")));
        assert_eq!((&shown["total_ips"], &shown["used_ips"], &shown["subnet_ip_availability"]), (&json!(253), &json!(2), &subnets));
        assert_eq!(shown["project_id"], shown["tenant_id"]);
        let listed = stage.admin.get(PATH).await.expect(200).body["network_ip_availabilities"].clone();
        let of = |id: &Value| listed.as_array().expect("a list").iter().find(|one| one["network_id"] == *id).cloned().expect("the network");
        assert_eq!(of(&json!(network)), shown);
        assert_eq!((&of(&bare)["total_ips"], &of(&bare)["subnet_ip_availability"]), (&json!(0), &json!([])));

        // A server's port counts, too.
        let server = stage.server().with("networks", json!([{"uuid": network}]));
        stage.create(server).await;
        let shown = stage.admin.get(&format!("{PATH}/{network}")).await.expect(200).body;
        assert_eq!(shown["network_ip_availability"]["used_ips"], 3);
        stage.admin.get(&format!("{PATH}/00000000-0000-0000-0000-000000000000")).await.expect(404);
    });
}

#[test]
fn filters_choose_networks_and_ip_versions() {
    play_default(|stage| async move {
        let (network, _) = internal(&stage.member, "10.9.0.0/24").await;
        for block in ["fd00:9::/64", "fd00:a::/64"] {
            let subnet = json!({"network_id": network, "cidr": block, "ip_version": 6});
            make(&stage.member, "subnets", "subnet", subnet).await;
        }
        let ask = async |query: &str| stage.admin.get(&format!("{PATH}?{query}")).await.expect(200);
        let count = |answer: &crate::client::Answer| answer.body["network_ip_availabilities"].as_array().map(Vec::len);
        let both = ask("network_name=inside").await;
        // More than 64 bits can count.
        assert!(both.text.contains("\"total_ips\":36893488147419103481,"), "{}", both.text);
        let four = ask(&format!("ip_version=4&network_id={network}")).await;
        assert_eq!(four.body["network_ip_availabilities"][0]["total_ips"], 253);
        let six = ask("ip_version=6").await;
        assert_eq!(count(&six), Some(1), "{}", six.text);
        assert!(six.text.contains("\"total_ips\":36893488147419103228,"), "{}", six.text);
        let project = both.body["network_ip_availabilities"][0]["project_id"].as_str().expect("an id").to_owned();
        for name in ["project_id", "tenant_id"] {
            assert_eq!(count(&ask(&format!("{name}={project}")).await), Some(1));
        }
        assert_eq!(count(&ask("network_name=nothing").await), Some(0));
        stage.admin.get(&format!("{PATH}?colour=blue")).await.expect(400);
        assert_eq!(count(&stage.member.get(PATH).await.expect(200)), Some(0));
        stage.member.get(&format!("{PATH}/{network}")).await.expect(404);
    });
}
