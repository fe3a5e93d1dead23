//! Tests of candidates over shared storage and over trees, as clients of each age see them.

use serde_json::{Value, json};

use crate::placement::requests::{api, call};
use crate::test_api::TestApi;

/// Makes a provider with these inventories, traits and aggregates, and returns its id.
async fn offered(api: &TestApi, name: &str, parent: Option<&str>, stock: Value, traits: &[&str], aggregates: &[&str]) -> String {
    let made = call(api, 39, "POST", "resource_providers", Some(json!({"name": name, "parent_provider_uuid": parent}))).await.expect(200);
    let uuid = made["uuid"].as_str().unwrap().to_owned();
    let put = |part: &str, generation: u8, value: Value| {
        let body = json!({"resource_provider_generation": generation, part: value});
        let path = format!("resource_providers/{uuid}/{part}");
        async move { call(api, 39, "PUT", &path, Some(body)).await.expect(200) }
    };
    put("inventories", 0, stock).await;
    put("traits", 1, json!(traits)).await;
    put("aggregates", 2, json!(aggregates)).await;
    uuid
}

/// Returns for each candidate the names of the providers that give, in the order of the classes `DISK_GB`, `SRIOV_NET_VF`, `VCPU`.
async fn candidates(api: &TestApi, names: &[(&str, &str)], minor: u16, query: &str) -> Vec<String> {
    let answer = call(api, minor, "GET", &format!("allocation_candidates?{query}"), None).await.expect(200);
    let requests = answer["allocation_requests"].as_array().unwrap().clone();
    let mut shown: Vec<String> = requests
        .iter()
        .map(|request| {
            let mut parts: Vec<(String, &str)> = Vec::new();
            for (uuid, allocation) in request["allocations"].as_object().unwrap() {
                let name = names.iter().find(|(_, id)| id == uuid).unwrap().0;
                parts.extend(allocation["resources"].as_object().unwrap().keys().map(|class| (class.clone(), name)));
            }
            parts.sort_unstable();
            parts.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join("+")
        })
        .collect();
    shown.sort_unstable();
    shown
}

#[actix_web::test]
async fn shared_storage_serves_the_trees_of_its_aggregate() {
    let api = api();
    let (near, far) = ("00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b");
    let (cpus, disk) = (json!({"VCPU": {"total": 8}}), json!({"DISK_GB": {"total": 100}}));
    let both = json!({"VCPU": {"total": 8}, "DISK_GB": {"total": 100}});
    let shares = ["MISC_SHARES_VIA_AGGREGATE"];
    let one = offered(&api, "one", None, cpus.clone(), &[], &[near]).await;
    let two = offered(&api, "two", None, both, &[], &[near]).await;
    let three = offered(&api, "three", None, cpus, &[], &[]).await;
    // A tree is in an aggregate with any of its providers.
    let card = offered(&api, "card", Some(&three), json!({"SRIOV_NET_VF": {"total": 4}}), &[], &[far]).await;
    let pool = offered(&api, "pool", None, disk.clone(), &shares, &[near]).await;
    let distant = offered(&api, "distant", None, disk.clone(), &shares, &[far]).await;
    let private = offered(&api, "private", None, disk, &[], &[near]).await;
    let names: Vec<(&str, &str)> = vec![
        ("one", &one),
        ("two", &two),
        ("three", &three),
        ("card", &card),
        ("pool", &pool),
        ("distant", &distant),
        ("private", &private),
    ];
    let in_near = format!("resources=VCPU:1,DISK_GB:10&member_of={near}");
    let not_near = format!("resources=VCPU:1,DISK_GB:10&member_of=!{near}");
    let in_two = format!("resources=VCPU:1,DISK_GB:10&in_tree={two}");
    let from_pool = format!("resources=VCPU:1&resources1=DISK_GB:10&in_tree1={pool}");
    for (minor, query, expected) in [
        (39, "resources=VCPU:1,DISK_GB:10", vec!["distant+three", "pool+one", "pool+two", "two+two"]),
        (39, "resources=VCPU:1&resources1=DISK_GB:10", vec!["distant+three", "pool+one", "pool+two", "two+two"]),
        (39, "resources=DISK_GB:10", vec!["distant", "pool", "private", "two"]),
        (39, &in_near, vec!["pool+one", "pool+two", "two+two"]),
        (39, &not_near, vec!["distant+three"]),
        (39, &in_two, vec!["two+two"]),
        (39, &from_pool, vec!["pool+one", "pool+two"]),
        (39, "resources=VCPU:1,DISK_GB:10&root_required=!MISC_SHARES_VIA_AGGREGATE&limit=1", vec!["pool+one"]),
        (39, "resources=VCPU:1,SRIOV_NET_VF:1", vec!["card+three"]),
        // Clients before 1.29 know of no trees.
        (28, "resources=VCPU:1,SRIOV_NET_VF:1", vec![]),
        (28, "resources=SRIOV_NET_VF:1", vec!["card"]),
    ] {
        assert_eq!(candidates(&api, &names, minor, query).await, expected, "1.{minor} {query}");
    }
    for (minor, shown) in [
        (26, json!({"VCPU": {"capacity": 8, "used": 0}})),
        (27, json!({"DISK_GB": {"capacity": 100, "used": 0}, "VCPU": {"capacity": 8, "used": 0}})),
    ] {
        let answer = call(&api, minor, "GET", "allocation_candidates?resources=VCPU:1", None).await.expect(200);
        assert_eq!(answer["provider_summaries"][&two]["resources"], shown, "1.{minor}");
    }
}
