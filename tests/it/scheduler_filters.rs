//! The hosts that a server may have by its flavor, image and hints, at creation and at later moves.

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, User, id_of};
use crate::stage::{Stage, hosts, play, play_default};

/// Makes another flavor like `m1.tiny`, with this extra spec.
async fn make_flavor(stage: &Stage, name: &str, key: &str, value: &str) {
    stage.make_flavor(name, 1, 64, 1).await;
    let specs = json!({"extra_specs": {key: value}});
    stage.admin.post(&format!("/flavors/{name}/os-extra_specs"), specs).await.expect(200);
}

/// Returns the reason why no host was suitable.
async fn no_host(stage: &Stage, new: NewServer) -> String {
    let server = id_of(&new.ask(&stage.member).await.expect(202).body["server"]);
    let shown = stage.at_rest(server, "ERROR").await;
    let why = shown["fault"]["message"].as_str().expect("a fault").to_owned();
    let action = stage.admin.action(server, "create").await;
    format!("{why} {action}")
}

async fn tiny_on(stage: &Stage, host: &str) -> Uuid {
    stage.create_by(&stage.admin, stage.server().flavor("m1.tiny").on_host(host)).await
}

fn tiny(stage: &Stage, hints: Value) -> NewServer {
    stage.server().flavor("m1.tiny").hinting(hints)
}

async fn make_image(user: &User, property: &str, value: &str) -> Uuid {
    let body = json!({"name": "picky", "disk_format": "raw", "container_format": "bare", property: value});
    let image = id_of(&user.post("/image/v2/images", body).await.expect(201).body);
    user.upload(image, b"picky".to_vec()).await.expect(204);
    image
}

#[test]
fn an_extra_spec_without_a_scope_ties_a_flavor_to_no_host() {
    play_default(|stage| async move {
        make_flavor(&stage, "gold", "quality", "gold").await;
        stage.create(stage.server().flavor("gold")).await;
        make_flavor(&stage, "tied", "aggregate_instance_extra_specs:generation", "gen7").await;
        let why = no_host(&stage, stage.server().flavor("tied")).await;
        assert!(why.contains("AggregateInstanceExtraSpecsFilter removed 4"), "{why}");
    });
}

#[test]
fn a_flavor_asks_for_what_hosts_have() {
    play_default(|stage| async move {
        make_flavor(&stage, "simulated", "capabilities:hypervisor_type", "simulated").await;
        stage.create(stage.server().flavor("simulated")).await;
        make_flavor(&stage, "ironic", "capabilities:hypervisor_type", "s== ironic").await;
        let why = no_host(&stage, stage.server().flavor("ironic")).await;
        assert!(why.contains("ComputeCapabilitiesFilter removed 4"), "{why}");
    });
}

#[test]
fn an_image_asks_for_hosts_that_can_run_it() {
    play_default(|stage| async move {
        let able = make_image(&stage.member, "hw_vm_mode", "hvm").await;
        stage.create(NewServer::of_image(able)).await;
        let image = make_image(&stage.member, "hw_architecture", "m68k").await;
        let why = no_host(&stage, NewServer::of_image(image).flavor("m1.tiny")).await;
        assert!(why.contains("ImagePropertiesFilter removed 4"), "{why}");
        // The image in a volume asks for the same.
        let volume = stage.member.make_volume_with(json!({"size": 1, "imageRef": image})).await;
        let root = json!({"boot_index": 0, "uuid": volume, "source_type": "volume", "destination_type": "volume"});
        let new = stage.server().flavor("m1.tiny").with("imageRef", json!("")).with("block_device_mapping_v2", json!([root]));
        let why = no_host(&stage, new).await;
        assert!(why.contains("ImagePropertiesFilter removed 4"), "{why}");
    });
}

#[test]
fn a_server_shares_the_host_of_another_or_keeps_off_it() {
    play_default(|stage| async move {
        let first = tiny_on(&stage, "cell2-host2").await;
        let admin = &stage.admin;
        let beside = stage.create_by(admin, tiny(&stage, json!({"same_host": [first]}))).await;
        assert_eq!(stage.runs_on(beside).await, hosts(&["cell2-host2"]));
        let mut others = vec![first];
        for host in ["cell1-host1", "cell1-host2"] {
            others.push(tiny_on(&stage, host).await);
        }
        let apart = stage.create_by(admin, tiny(&stage, json!({"different_host": others}))).await;
        assert_eq!(stage.runs_on(apart).await, hosts(&["cell2-host1"]), "the only host without one of them");
        // The hint holds for later moves: there is no other host until one of the others has gone.
        admin.migrate(apart, None).await.expect(202);
        stage.ended(apart).await;
        assert_eq!(stage.runs_on(apart).await, hosts(&["cell2-host1"]));
        let action = admin.action(apart, "migrate").await;
        assert!(action.to_string().contains("DifferentHostFilter removed 3"), "{action:#}");
        admin.delete(&format!("/servers/{}", others[2])).await.expect(204);
        stage.until("it is gone", || async { admin.get(&format!("/servers/{}", others[2])).await.status == 404 }).await;
        admin.migrate(apart, None).await.expect(202);
        stage.at_rest(apart, "VERIFY_RESIZE").await;
        admin.confirm(apart).await.expect(204);
        stage.at_rest(apart, "ACTIVE").await;
        assert_eq!(stage.runs_on(apart).await, hosts(&["cell1-host2"]));
    });
}

#[test]
fn a_hint_names_servers_that_are_the_callers_to_name() {
    play_default(|stage| async move {
        let foreign = tiny_on(&stage, "cell1-host1").await;
        let gone = Uuid::from_u128(0x607e);
        for hint in ["same_host", "different_host"] {
            let same = |server: Uuid| tiny(&stage, json!({hint: server})).ask(&stage.member);
            let refused = same(foreign).await.expect(400).text.replace(&foreign.to_string(), "ID");
            assert_eq!(refused, same(gone).await.expect(400).text.replace(&gone.to_string(), "ID"));
        }
    });
}

#[test]
fn a_hint_that_no_filter_follows_is_refused() {
    play_default(|stage| async move {
        for hints in [
            json!({"query": "[\"=\", \"$host\", \"cell1-host1\"]"}),
            json!({"build_near_host_ip": "127.0.0.1", "cidr": "/8"}),
            json!({"same_host": "web-1"}),
            json!({"target_cell": "cell1"}),
            json!({"different_cell": ["cell1"]}),
        ] {
            let refused = tiny(&stage, hints.clone()).ask(&stage.member).await.expect(400);
            assert!(refused.message().contains("scheduler hint"), "{hints}: {}", refused.text);
        }
        let own = stage.create(tiny(&stage, json!({"mine": "is kept"}))).await;
        let shown = stage.member.speaking("2.100").show(own).await;
        assert_eq!(shown["scheduler_hints"], json!({"mine": "is kept"}));
    });
}

fn with_all_filters(config: &mut Config) {
    config.scheduler.enabled_filters.extend(["JsonFilter", "SimpleCIDRAffinityFilter"].map(str::to_owned));
}

#[test]
fn a_query_and_a_network_choose_hosts_where_enabled() {
    play(with_all_filters, |stage| async move {
        let query = json!(["and", [">=", "$free_ram_mb", 64], ["in", "$host", "cell2-host1", "cell9-host9"]]).to_string();
        let server = stage.create(tiny(&stage, json!({"query": query}))).await;
        assert_eq!(stage.runs_on(server).await, hosts(&["cell2-host1"]));
        let refused = tiny(&stage, json!({"query": "[\"=\", \"$colour\", 1]"})).ask(&stage.member).await.expect(400);
        assert!(refused.message().contains("query cannot be read"), "{}", refused.text);
        stage.create(tiny(&stage, json!({"build_near_host_ip": "127.0.0.9"}))).await;
        let why = no_host(&stage, tiny(&stage, json!({"build_near_host_ip": "203.0.113.9", "cidr": "/28"}))).await;
        assert!(why.contains("SimpleCIDRAffinityFilter removed 4"), "{why}");
    });
}

#[test]
fn a_host_of_no_aggregate_is_in_the_default_zone() {
    play_default(|stage| async move {
        let listed = stage.admin.get("/os-aggregates").await.expect(200).body;
        let aggregates = listed["aggregates"].as_array().expect("aggregates");
        let home = aggregates.iter().filter(|one| one["hosts"].as_array().is_some_and(|hosts| hosts.contains(&json!("cell1-host1"))));
        for aggregate in home {
            let path = format!("/os-aggregates/{}/action", aggregate["id"]);
            stage.admin.post(&path, json!({"remove_host": {"host": "cell1-host1"}})).await.expect(200);
        }
        let server = stage.create(tiny(&stage, json!({})).with("availability_zone", json!("nova"))).await;
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host1"]));
        assert_eq!(stage.member.show(server).await["OS-EXT-AZ:availability_zone"], "nova");
        for (zone, ids) in [("nova", vec![server]), ("cell1", vec![])] {
            let list = stage.admin.get(&format!("/servers?all_tenants=1&availability_zone={zone}")).await.expect(200).body;
            assert_eq!(list["servers"].as_array().expect("servers").iter().map(id_of).collect::<Vec<_>>(), ids, "{zone}");
        }
    });
}
