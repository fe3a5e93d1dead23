//! Parts of a server that old clients and operators ask for: diagnostics, topology and password.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::stage::play_default;

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn diagnostics_have_the_standard_form_from_2_48_on() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let path = format!("/servers/{server}/diagnostics");
        let old = stage.admin.speaking("2.47").get(&path).await.expect(200).body;
        assert_eq!(keys(&old), ["memory", "vcpus", "vnics"]);
        let new = stage.admin.speaking("2.48").get(&path).await.expect(200).body;
        let flavor = stage.world().api.flavor("gen1.small").await.expect("a flavor").flavor;
        let nic = &new["nic_details"][0];
        assert_eq!(nic["mac_address"], stage.world().network.ports_of(server).await.expect("ports")[0].mac_address);
        assert_eq!(
            keys(nic),
            [
                "mac_address",
                "rx_drop",
                "rx_errors",
                "rx_octets",
                "rx_packets",
                "rx_rate",
                "tx_drop",
                "tx_errors",
                "tx_octets",
                "tx_packets",
                "tx_rate"
            ]
        );
        assert_eq!(keys(&new["disk_details"][0]), ["errors_count", "read_bytes", "read_requests", "write_bytes", "write_requests"]);
        assert_eq!(new["cpu_details"].as_array().map(Vec::len), usize::try_from(flavor.vcpus).ok());
        assert_eq!(new["cpu_details"][0], json!({"id": 0, "time": null, "utilisation": null}));
        assert_eq!(new["memory_details"], json!({"maximum": flavor.memory_mb, "used": null}));
        let rest: Vec<&Value> =
            ["state", "driver", "hypervisor", "num_nics", "num_disks", "config_drive"].iter().map(|key| &new[*key]).collect();
        assert_eq!(rest, [&json!("running"), &json!("libvirt"), &json!("simulated"), &json!(1), &json!(1), &json!(false)]);
        stage.member.get(&path).await.expect(403);
        stage.admin.speaking("2.102").get(&format!("{path}?colour=red")).await.expect(400);
        stage.stop(&stage.member, server).await;
        stage.admin.get(&path).await.expect(409);
    });
}

#[test]
fn a_server_has_no_numa_nodes_and_no_published_password() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let path = format!("/servers/{server}/topology");
        assert_eq!(stage.member.speaking("2.78").get(&path).await.expect(200).body, json!({"nodes": [], "pagesize_kb": null}));
        stage.member.speaking("2.77").get(&path).await.expect(404);
        let path = format!("/servers/{server}/os-server-password");
        assert_eq!(stage.member.get(&path).await.expect(200).body, json!({"password": ""}));
        let answer = stage.member.delete(&path).await.expect(204);
        assert_eq!(answer.text, "");
        stage.member.get(&format!("/servers/{}/os-server-password", Uuid::from_u128(7))).await.expect(404);
    });
}

#[test]
fn network_information_is_injected_and_no_network_reset() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let answer = stage.admin.act(server, json!({"injectNetworkInfo": null})).await.expect(202);
        assert_eq!(answer.text, "");
        stage.member.act(server, json!({"injectNetworkInfo": null})).await.expect(403);
        stage.admin.act(server, json!({"resetNetwork": null})).await.expect(410);
    });
}
