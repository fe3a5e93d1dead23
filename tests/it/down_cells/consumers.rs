//! All other requests that ask all cells answer for the cells that are up.

use cellshift::chaos::borders::Outage;
use cellshift::domain::fence::Fence;
use cellshift::services::placement::Allocations;
use serde_json::{Value, json};

use super::{keys, not_now, quick, set};
use crate::client::id_of;
use crate::stage::play;

fn column(list: &Value, key: &str) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|entry| entry[key].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn services_and_hypervisors_of_the_cells_that_are_up() {
    play(quick, |stage| async move {
        let hypervisors = stage.admin.get("/os-hypervisors").await.expect(200).body["hypervisors"].clone();
        let services = stage.admin.get("/os-services").await.expect(200).body["services"].clone();
        let of_host =
            |host: &str| id_of(services.as_array().expect("services").iter().find(|service| service["host"] == host).expect("it"));
        set(&stage, "cell1", Outage::Refuses).await;

        let rows = |list: &Value, host: &str| {
            let all = list["services"].as_array().expect("services").clone();
            all.into_iter().filter(|row| row["host"] == host).collect::<Vec<Value>>()
        };
        let list = stage.admin.speaking("2.69").get("/os-services").await.expect(200).body;
        let silent = json!({"binary": "nova-compute", "host": "cell1-host1", "status": "UNKNOWN"});
        assert_eq!(rows(&list, "cell1-host1"), std::slice::from_ref(&silent));
        assert_eq!(keys(&rows(&list, "cell2-host1")[0]).len(), 9, "{list}");
        for query in ["host=cell1-host1", "binary=nova-compute&host=cell1-host1"] {
            let list = stage.admin.get(&format!("/os-services?{query}")).await.expect(200).body;
            assert_eq!(list["services"], json!([silent]), "{query}");
        }
        let none = stage.admin.get("/os-services?host=cell1-host1&binary=nova-conductor").await.expect(200).body;
        assert_eq!(none["services"], json!([]));
        let older = stage.admin.speaking("2.68").get("/os-services").await.expect(200).body;
        assert_eq!(rows(&older, "cell1-host1"), Vec::<Value>::new());

        let rows = stage.admin.get("/os-hypervisors/detail").await.expect(200).body["hypervisors"].clone();
        let mut names = column(&rows, "hypervisor_hostname");
        names.sort();
        assert_eq!(names, ["cell2-host1", "cell2-host2"]);
        let id_of_first = |name: &str| {
            let all = hypervisors.as_array().expect("hypervisors");
            all.iter().find(|one| one["hypervisor_hostname"] == name).expect("it")["id"].as_str().expect("an id").to_owned()
        };
        let (here, there) = (id_of_first("cell2-host1"), id_of_first("cell1-host1"));
        stage.admin.get(&format!("/os-hypervisors/{here}?with_servers=true")).await.expect(200);
        not_now(stage.admin.get(&format!("/os-hypervisors/{there}")).await, "cell1");
        not_now(stage.admin.get(&format!("/os-hypervisors?marker={there}")).await, "cell1");
        not_now(stage.admin.get("/os-hypervisors?hypervisor_hostname_pattern=cell1").await, "cell1");
        stage.admin.speaking("2.80").get("/os-hypervisors/statistics").await.expect(200);

        let disable = json!({"status": "disabled", "disabled_reason": "old"});
        let changed = stage.admin.put(&format!("/os-services/{}", of_host("cell2-host1")), disable.clone()).await.expect(200);
        assert_eq!(changed.body["service"]["status"], "disabled");
        not_now(stage.admin.put(&format!("/os-services/{}", of_host("cell1-host1")), disable).await, "cell1");
        let by_name = json!({"host": "cell2-host1", "binary": "nova-compute"});
        stage.admin.speaking("2.40").put("/os-services/enable", by_name).await.expect(200);
        not_now(stage.admin.delete(&format!("/os-services/{}", of_host("cell1-host2"))).await, "cell1");
        set(&stage, "cell1", Outage::None).await;
    });
}

#[test]
fn a_service_with_claims_in_a_down_cell_is_not_removed() {
    play(quick, |stage| async move {
        let placement = &stage.world().placement;
        let provider = placement.providers().await.expect("providers").into_iter().find(|one| one.name == "cell2-host1").expect("it");
        let listed = stage.admin.get("/os-services?host=cell2-host1").await.expect(200).body;
        let service = format!("/os-services/{}", id_of(&listed["services"][0]));
        // The state of a move that has chosen its target and has written nothing there yet.
        let consumer = stage.world().env.uuid();
        let claim = |generation, allocations| Allocations {
            consumer,
            consumer_generation: generation,
            project_id: "demo".to_owned(),
            user_id: "demo".to_owned(),
            consumer_type: "INSTANCE".to_owned(),
            allocations,
        };
        let fence = |attempt| Fence { server: consumer, epoch: 1, attempt };
        let one_core = [(provider.uuid, [("VCPU".to_owned(), 1)].into())].into();
        placement.replace_allocations(fence(1), vec![claim(None, one_core)]).await.expect("a claim");

        set(&stage, "cell1", Outage::Refuses).await;
        let refused = stage.admin.delete(&service).await.expect(409);
        assert!(refused.message().contains("in-progress migrations"), "{}", refused.text);
        let held = placement.allocations_of(consumer).await.expect("an answer").expect("a claim");
        placement.replace_allocations(fence(2), vec![claim(held.consumer_generation, [].into())]).await.expect("no claim");
        stage.admin.delete(&service).await.expect(204);
        set(&stage, "cell1", Outage::None).await;
    });
}

#[test]
fn zones_migrations_usage_and_groups() {
    play(quick, |stage| async move {
        let group = json!({"server_group": {"name": "apart", "policy": "anti-affinity"}});
        let group = id_of(&stage.member.post("/os-server-groups", group).await.expect(200).body["server_group"]);
        let server = stage.create(stage.server().in_group(group)).await;
        let well = stage.create(stage.server().flavor("gen2.small")).await;
        stage.admin.act(well, json!({"resize": {"flavorRef": "gen2.large"}})).await.expect(202);
        stage.at_rest(well, "VERIFY_RESIZE").await;
        stage.cross(server).await;
        let before = stage.admin.get("/os-migrations").await.expect(200).body["migrations"].clone();
        let crossed = before.as_array().expect("migrations").iter().find(|one| one["instance_uuid"] == json!(server)).expect("it").clone();

        // Both cells have a record of the move, and one suffices.
        set(&stage, "cell1", Outage::Refuses).await;
        let after = stage.admin.get("/os-migrations").await.expect(200).body["migrations"].clone();
        assert_eq!(column(&after, "instance_uuid"), column(&before, "instance_uuid"));
        stage.admin.speaking("2.58").get("/os-migrations").await.expect(200);
        set(&stage, "cell1", Outage::None).await;
        set(&stage, "cell2", Outage::Refuses).await;
        let after = stage.admin.get("/os-migrations").await.expect(200).body["migrations"].clone();
        assert_eq!(column(&after, "instance_uuid"), [server.to_string()]);
        let crossed = crossed["uuid"].as_str().expect("an id");
        stage.admin.get(&format!("/os-migrations?marker={crossed}")).await.expect(200);
        let only_there = before.as_array().expect("migrations").iter().find(|one| one["instance_uuid"] == json!(well)).expect("it");
        let only_there = only_there["uuid"].as_str().expect("an id");
        not_now(stage.admin.get(&format!("/os-migrations?marker={only_there}")).await, "cell2");

        let zones = stage.member.get("/os-availability-zone").await.expect(200).body["availabilityZoneInfo"].clone();
        let available = |zone: &str| {
            zones.as_array().expect("zones").iter().find(|one| one["zoneName"] == zone).map(|one| one["zoneState"]["available"].clone())
        };
        assert_eq!((available("cell1"), available("cell2")), (Some(json!(true)), Some(json!(false))));
        stage.admin.get("/os-availability-zone/detail").await.expect(200);
        let usage = "/os-simple-tenant-usage?start=2020-01-01T00:00:00&detailed=1";
        let used = stage.admin.get(usage).await.expect(200);
        assert_eq!(used.headers["X-Cellshift-Incomplete"], "cell2");
        // Pages are ordered by id, so the next page is known without the marker's server.
        for marker in [server, well] {
            let page = stage.admin.get(&format!("{usage}&marker={marker}")).await.expect(200).body;
            let usages = page["tenant_usages"].as_array().expect("usages").iter().flat_map(|one| one["server_usages"].as_array().cloned());
            let ids: Vec<String> = usages.flatten().map(|one| one["instance_id"].as_str().unwrap_or_default().to_owned()).collect();
            let all =
                used.body["tenant_usages"].as_array().expect("usages").iter().flat_map(|one| one["server_usages"].as_array().cloned());
            let mut later: Vec<String> = all.flatten().map(|one| one["instance_id"].as_str().unwrap_or_default().to_owned()).collect();
            later.retain(|id| *id > marker.to_string());
            assert_eq!(ids, later, "after {marker}");
        }
        stage.admin.get(&format!("{usage}&marker={}", stage.world().env.uuid())).await.expect(400);
        let shown = stage.member.get(&format!("/os-server-groups/{group}")).await.expect(200).body;
        assert_eq!(shown["server_group"]["members"], json!([server]));
        stage.member.get("/os-server-groups").await.expect(200);
        stage.create(stage.server()).await;
        set(&stage, "cell2", Outage::None).await;
        for server in [server, well] {
            stage.confirm(server).await;
        }
    });
}
