//! Virtual functions (SR-IOV): a direct port has a function of the physical function that placement has charged for it, and no other.

use std::collections::BTreeSet;

use cellshift::actors::root::Parts;
use cellshift::config::Config;
use cellshift_embedded::placement::Identity;
use serde_json::{Value, json};
use uuid::Uuid;

use super::networks::{Form, Minimum, expect, functions, policy, port, port_of, settled};
use crate::client::id_of;
use crate::databases;
use crate::stage::{Stage, play, play_altered, play_default};

const FAST: Minimum = Minimum { egress: 1000, ingress: 1000, packets: 0 };

async fn direct_port(stage: &Stage, policy: &str) -> Uuid {
    port_of(&stage.admin, json!({"qos_policy_id": policy, "binding:vnic_type": "direct"})).await
}

async fn server_on(stage: &Stage, host: &str) -> (Uuid, Uuid) {
    let policy = policy(stage, FAST).await;
    let port = direct_port(stage, &policy).await;
    let new = stage.server().flavor("m1.tiny").with("networks", json!([{"port": port}])).on_host(host);
    (stage.create_by(&stage.admin, new).await, port)
}

async fn shown(stage: &Stage, port: Uuid) -> Value {
    stage.admin.get(&format!("/network/v2.0/ports/{port}")).await.expect(200).body["port"].clone()
}

fn profile_is_complete(form: Form) {
    play_altered(
        |_| {},
        databases::place,
        move |parts: &mut Parts| form.shown_by(parts),
        |stage| async move {
            let (server, port) = server_on(&stage, "cell1-host1").await;
            let (_, _, slot, ..) = functions(&stage, server).await.pop_first().expect("a function");
            let bound = shown(&stage, port).await;
            let profile = &bound["binding:profile"];
            assert_eq!(
                (&profile["pci_slot"], &profile["pci_vendor_info"], &profile["physical_network"], &bound["binding:vif_type"]),
                (&json!(slot), &json!("8086:1515"), &json!("physnet0"), &json!("hw_veb"))
            );
            // The group's id is the port's in the older form alone.
            let group = bound["resource_request"]["request_groups"][0]["id"].clone();
            assert_ne!(group, json!(port));
            stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
            assert!(functions(&stage, server).await.is_empty());
            assert_eq!(shown(&stage, port).await["binding:profile"], json!({}));
        },
    );
}

#[test]
fn a_binding_names_its_function_in_the_old_form() {
    profile_is_complete(Form::Port);
}

#[test]
fn a_binding_names_its_function_in_the_form_of_groups() {
    profile_is_complete(Form::OneGroup);
}

/// Gives each host a single physical function with a single virtual function.
fn scarce(config: &mut Config) {
    let network = &mut config.compute.network;
    network.virtual_functions = 1;
    network.physical_device_mappings.insert("physnet0".to_owned(), vec!["ens1".to_owned()]);
    network.bandwidths.remove("ens2");
}

#[test]
fn a_host_without_a_free_function_is_not_chosen() {
    play(scarce, |stage| async move {
        let (first, _) = server_on(&stage, "cell1-host1").await;
        let policy = policy(&stage, FAST).await;
        let networks = json!([{"port": direct_port(&stage, &policy).await}]);
        let answer = stage.server().flavor("m1.tiny").with("networks", networks).on_host("cell1-host1").ask(&stage.admin).await.expect(202);
        let second = id_of(&answer.body["server"]);
        let failed = stage.at_rest(second, "ERROR").await;
        assert!(failed["fault"]["message"].as_str().is_some_and(|why| why.starts_with("No valid host was found.")), "{failed:#}");
        assert_eq!(stage.world().placement.allocations_of(second).await.expect("allocations"), None);
        assert!(functions(&stage, second).await.is_empty());
        // A move takes its function along, so that the next server finds one.
        stage.admin.migrate(first, Some("cell1-host2")).await.expect(202);
        stage.at_rest(first, "VERIFY_RESIZE").await;
        stage.admin.confirm(first).await.expect(204);
        stage.at_rest(first, "ACTIVE").await;
        let (third, _) = server_on(&stage, "cell1-host1").await;
        // Now the way back is closed, and the server stays where it is.
        stage.admin.migrate(first, Some("cell1-host1")).await.expect(202);
        stage.at_rest(first, "ACTIVE").await;
        assert_eq!(stage.migration_status("cell1", first).await, "conflict");
        assert_eq!(functions(&stage, first).await.pop_first().expect("a function").0, "cell1-host2");
        assert_eq!(functions(&stage, third).await.pop_first().expect("a function").0, "cell1-host1");
        stage.admin.delete(&format!("/servers/{second}")).await.expect(204);
        stage.gone(second).await;
    });
}

/// Renames the physical functions of a host, as an administrator may.
async fn rename(stage: &Stage, host: &str, name: impl Fn(&str) -> String) {
    let placement = &stage.running.cloud.services.placement;
    for (provider, parent) in placement.provider_tree().await.expect("providers") {
        if let Some(device) = provider.name.strip_prefix(&format!("{host}:NIC Switch agent:")) {
            placement.update_provider(Identity { uuid: provider.uuid, name: name(device), parent }).await.expect("a name");
        }
    }
}

#[test]
fn a_provider_without_a_device_in_its_name_ends_the_move() {
    play_default(|stage| async move {
        let (server, _) = server_on(&stage, "cell1-host1").await;
        rename(&stage, "cell1-host2", |device| format!("card-{device}-of-host2")).await;
        let migrate_live = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
        for request in [json!({"migrate": null}), json!({"resize": {"flavorRef": "m1.small"}}), migrate_live] {
            stage.admin.speaking("2.56").act(server, request.clone()).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.migration_status("cell1", server).await, "error", "{request}");
            let history = stage.admin.speaking("2.84").get(&format!("/servers/{server}/os-instance-actions")).await.expect(200).body;
            let action = history["instanceActions"][0]["action"].as_str().expect("an action").to_owned();
            let action = stage.admin.speaking("2.84").action(server, &action).await;
            assert!(action.to_string().contains("does not have a properly formatted name"), "{action:#}");
            expect(&stage, server, None, &settled("cell1-host1")).await;
        }
        stage.force_down("cell1-host1", true).await;
        stage.admin.speaking("2.90").act(server, json!({"evacuate": {}})).await.expect(200);
        stage.ended(server).await;
        stage.force_down("cell1-host1", false).await;
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.migration_status("cell1", server).await, "failed");
        expect(&stage, server, None, &settled("cell1-host1")).await;
        stage.admin.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        stage.admin.speaking("2.91").act(server, json!({"unshelve": {"host": "cell1-host2"}})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        expect(&stage, server, None, &[]).await;
        stage.admin.speaking("2.91").act(server, json!({"unshelve": {"host": "cell1-host1"}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        let networks = json!([{"port": direct_port(&stage, &policy(&stage, FAST).await).await}]);
        let answer = stage.server().flavor("m1.tiny").with("networks", networks).on_host("cell1-host2").ask(&stage.admin).await.expect(202);
        let second = id_of(&answer.body["server"]);
        let failed = stage.at_rest(second, "ERROR").await;
        assert!(failed["fault"]["message"].as_str().is_some_and(|why| why.contains("properly formatted name")), "{failed:#}");
        stage.admin.delete(&format!("/servers/{second}")).await.expect(204);
        stage.gone(second).await;
        expect(&stage, server, None, &settled("cell1-host1")).await;
        // The name is mended, and the move succeeds.
        rename_back(&stage).await;
        stage.admin.migrate(server, Some("cell1-host2")).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.admin.revert(server).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        expect(&stage, server, None, &settled("cell1-host1")).await;
    });
}

async fn rename_back(stage: &Stage) {
    let placement = &stage.running.cloud.services.placement;
    for (provider, parent) in placement.provider_tree().await.expect("providers") {
        if let Some(device) = provider.name.strip_prefix("card-").and_then(|rest| rest.strip_suffix("-of-host2")) {
            let name = format!("cell1-host2:NIC Switch agent:{device}");
            placement.update_provider(Identity { uuid: provider.uuid, name, parent }).await.expect("a name");
        }
    }
}

#[test]
fn a_direct_port_without_a_policy_gets_any_function() {
    play_default(|stage| async move {
        let port = port(&stage, json!({"binding:vnic_type": "direct"})).await;
        let server = stage.create(stage.server().with("networks", json!([{"port": port}]))).await;
        let (host, _, slot, _, network) = functions(&stage, server).await.pop_first().expect("a function");
        assert_eq!((host.as_str(), network.as_str()), (stage.host_of(server).await.as_str(), "physnet0"));
        assert_eq!(shown(&stage, port).await["binding:profile"]["pci_slot"], json!(slot));
        stage.cross(server).await;
        assert_eq!(functions(&stage, server).await.len(), 2);
        stage.revert(server).await;
        assert_eq!(functions(&stage, server).await.into_iter().map(|(host, ..)| host).collect::<Vec<_>>(), [host]);
    });
}

/// All functions of the host's first device are taken, and its bandwidth is not: the second device serves the next port, then the other host.
#[test]
fn a_free_function_is_found_wherever_it_is() {
    let two = |config: &mut Config| config.compute.network.virtual_functions = 1;
    play(two, |stage| async move {
        let policy = policy(&stage, FAST).await;
        let mut device_functions = BTreeSet::new();
        for _ in 0..4 {
            let networks = json!([{"port": direct_port(&stage, &policy).await}]);
            let new = stage.server().flavor("m1.tiny").with("networks", networks).with("availability_zone", json!("cell1"));
            let server = stage.create_by(&stage.admin, new).await;
            let (host, _, slot, device, _) = functions(&stage, server).await.pop_first().expect("a function");
            device_functions.insert((host, slot, device));
        }
        let places: BTreeSet<(&str, &str)> = device_functions.iter().map(|(host, _, device)| (host.as_str(), device.as_str())).collect();
        let hosts = ["cell1-host1", "cell1-host2"];
        assert_eq!(places, hosts.into_iter().flat_map(|host| [(host, "ens1"), (host, "ens2")]).collect());
    });
}
