//! Tests of the requests that placement's command-line client and control planes send, per microversion.

mod forms;

use std::sync::Arc;

use actix_web::web;
use cellshift_embedded::MIGRATIONS;
use cellshift_embedded::placement::EmbeddedPlacement;
use cellshift_embedded::placement::routes::configure;
use cellshift_env::{Blocking, Env, RandomIds, SystemClock};
use cellshift_store::Db;
use serde_json::{Value, json};

use crate::test_api::{Answer, TestApi};

const ADMIN: &str = "ops:admin";

pub(crate) fn api() -> TestApi {
    let env = Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline);
    let service = web::Data::new(EmbeddedPlacement::new(Db::open("services", "", MIGRATIONS, &env).unwrap()));
    TestApi::new(Arc::new(move |cfg| {
        cfg.app_data(service.clone());
        configure(cfg);
    }))
}

pub(crate) async fn call(api: &TestApi, minor: u16, method: &str, path: &str, body: Option<Value>) -> Answer {
    api.call(method, &format!("/placement/{path}"), ADMIN, Some(&format!("placement 1.{minor}")), body).await
}

/// Makes a provider with VCPUs and memory, and returns its id.
pub(crate) async fn provider(api: &TestApi, name: &str, vcpus: i64) -> String {
    let made = call(api, 29, "POST", "resource_providers", Some(json!({"name": name}))).await.expect(200);
    let uuid = made["uuid"].as_str().unwrap().to_owned();
    let inventories = json!({
        "resource_provider_generation": made["generation"],
        "inventories": {"VCPU": {"total": vcpus, "allocation_ratio": 2.0}, "MEMORY_MB": {"total": 1024, "reserved": 24, "step_size": 8}},
    });
    call(api, 29, "PUT", &format!("resource_providers/{uuid}/inventories"), Some(inventories)).await.expect(200);
    uuid
}

pub(crate) fn claim(provider: &str, vcpus: i64, generation: Option<i64>) -> Value {
    json!({
        "allocations": {provider: {"resources": {"VCPU": vcpus}}},
        "project_id": "demo",
        "user_id": "alice",
        "consumer_generation": generation,
    })
}

#[actix_web::test]
async fn a_provider_has_its_versions_fields_and_a_generation() {
    let api = api();
    let versions = api.call("GET", "/placement/", "", None, None).await.expect(200);
    assert_eq!((&versions["versions"][0]["min_version"], &versions["versions"][0]["max_version"]), (&json!("1.0"), &json!("1.39")));
    let uuid = provider(&api, "host1", 4).await;
    let shown = call(&api, 29, "GET", &format!("resource_providers/{uuid}"), None).await;
    assert!(shown.headers.contains(&("openstack-api-version".into(), "placement 1.29".into())));
    let shown = shown.expect(200);
    assert_eq!(
        (&shown["generation"], &shown["root_provider_uuid"], &shown["parent_provider_uuid"]),
        (&json!(1), &json!(uuid), &Value::Null)
    );
    let old = call(&api, 0, "GET", &format!("resource_providers/{uuid}"), None).await.expect(200);
    assert_eq!((old["links"].as_array().unwrap().len(), old.get("root_provider_uuid")), (3, None));
    let list = call(&api, 29, "GET", "resource_providers?name=host1&resources=VCPU:8", None).await.expect(200);
    assert_eq!(list["resource_providers"].as_array().unwrap().len(), 1);
    call(&api, 29, "POST", "resource_providers", Some(json!({"name": "host1"}))).await.expect(409);
    let stale = json!({"resource_provider_generation": 0, "inventories": {}});
    let refused = call(&api, 29, "PUT", &format!("resource_providers/{uuid}/inventories"), Some(stale)).await.expect(409);
    assert_eq!(refused["errors"][0]["code"], "placement.concurrent_update");
    assert!(refused["errors"][0]["request_id"].as_str().unwrap().starts_with("req-"));
    let traits = json!({"resource_provider_generation": 1, "traits": ["COMPUTE_NODE", "CUSTOM_GOLD"]});
    call(&api, 29, "PUT", &format!("resource_providers/{uuid}/traits"), Some(traits.clone())).await.expect(400);
    call(&api, 29, "PUT", "traits/CUSTOM_GOLD", None).await.expect(201);
    call(&api, 29, "PUT", "traits/CUSTOM_GOLD", None).await.expect(204);
    let set = call(&api, 29, "PUT", &format!("resource_providers/{uuid}/traits"), Some(traits)).await.expect(200);
    assert_eq!(set, json!({"traits": ["COMPUTE_NODE", "CUSTOM_GOLD"], "resource_provider_generation": 2}));
    let aggregate = "7f6d8b1e-5c0a-4c0e-9a53-0d6f5c0a7b11";
    call(&api, 1, "PUT", &format!("resource_providers/{uuid}/aggregates"), Some(json!([aggregate]))).await.expect(200);
    let held = call(&api, 29, "GET", &format!("resource_providers?member_of=in:{aggregate}"), None).await.expect(200);
    assert_eq!(held["resource_providers"][0]["uuid"], uuid.as_str());
    call(&api, 29, "GET", "resource_providers/host1", None).await.expect(404);
    api.call("GET", "/placement/resource_providers", "demo:member", None, None).await.expect(403);
    call(&api, 40, "GET", "resource_providers", None).await.expect(406);
    call(&api, 5, "GET", "traits", None).await.expect(404);
}

#[actix_web::test]
async fn a_consumer_takes_within_capacity_and_under_its_generation() {
    let api = api();
    let host = provider(&api, "host1", 4).await;
    let (server, migration) = ("0c6c1d7a-1111-4222-8333-444455556666", "0c6c1d7a-9999-4222-8333-444455556666");
    let path = format!("allocations/{server}");
    assert_eq!(call(&api, 29, "GET", &path, None).await.expect(200), json!({"allocations": {}}));
    call(&api, 29, "PUT", &path, Some(claim(&host, 9, None))).await.expect(409);
    call(&api, 29, "PUT", &path, Some(claim(&host, 4, None))).await.expect(204);
    let held = call(&api, 29, "GET", &path, None).await.expect(200);
    assert_eq!((&held["allocations"][&host]["resources"], &held["consumer_generation"]), (&json!({"VCPU": 4}), &json!(1)));
    let usages = call(&api, 29, "GET", &format!("resource_providers/{host}/usages"), None).await.expect(200);
    assert_eq!(usages["usages"], json!({"MEMORY_MB": 0, "VCPU": 4}));
    let stale = call(&api, 29, "PUT", &path, Some(claim(&host, 1, None))).await.expect(409);
    assert_eq!(stale["errors"][0]["code"], "placement.concurrent_update");
    let mut empty = claim(&host, 4, Some(1));
    empty["allocations"] = json!({});
    let swap = json!({server: empty, migration: claim(&host, 4, None)});
    call(&api, 29, "POST", "allocations", Some(swap)).await.expect(204);
    let on = call(&api, 29, "GET", &format!("resource_providers/{host}/allocations"), None).await.expect(200);
    assert_eq!(on["allocations"], json!({migration: {"resources": {"VCPU": 4}, "consumer_generation": 1}}));
    assert_eq!(call(&api, 29, "GET", "usages?project_id=demo", None).await.expect(200), json!({"usages": {"VCPU": 4}}));
    let typed = call(&api, 38, "GET", "usages?project_id=demo", None).await.expect(200);
    assert_eq!(typed, json!({"usages": {"unknown": {"VCPU": 4, "consumer_count": 1}}}), "it was claimed before consumers had types");
    let all = call(&api, 38, "GET", "usages?project_id=demo&consumer_type=all", None).await.expect(200);
    assert_eq!(all, json!({"usages": {"all": {"VCPU": 4, "consumer_count": 1}}}));
    let unclaimed = call(&api, 29, "DELETE", &format!("resource_providers/{host}/inventories/VCPU"), None).await.expect(409);
    assert_eq!(unclaimed["errors"][0]["code"], "placement.inventory.inuse");
    call(&api, 29, "DELETE", &format!("resource_providers/{host}"), None).await.expect(409);
    call(&api, 29, "DELETE", &format!("allocations/{migration}"), None).await.expect(204);
    call(&api, 29, "DELETE", &format!("allocations/{migration}"), None).await.expect(404);
    call(&api, 29, "DELETE", &format!("resource_providers/{host}"), None).await.expect(204);
}

#[actix_web::test]
async fn candidates_are_what_could_be_claimed() {
    let api = api();
    let (small, big) = (provider(&api, "a-small", 1).await, provider(&api, "b-big", 4).await);
    let both = call(&api, 34, "GET", "allocation_candidates?resources=VCPU:1,MEMORY_MB:8&limit=10", None).await.expect(200);
    assert_eq!(both["allocation_requests"].as_array().unwrap().len(), 2);
    assert_eq!(both["allocation_requests"][0]["mappings"], json!({"": [small]}));
    let one = call(&api, 29, "GET", "allocation_candidates?resources=VCPU:3", None).await.expect(200);
    assert_eq!(one["allocation_requests"], json!([{"allocations": {big.as_str(): {"resources": {"VCPU": 3}}}}]));
    assert_eq!(one["provider_summaries"][&big]["resources"]["VCPU"], json!({"capacity": 8, "used": 0}));
    let odd = call(&api, 29, "GET", "allocation_candidates?resources=MEMORY_MB:9", None).await.expect(200);
    assert_eq!(odd["allocation_requests"], json!([]), "the step size is 8");
    call(&api, 29, "GET", "allocation_candidates?resources=VCPU", None).await.expect(400);
    call(&api, 24, "GET", "allocation_candidates?resources1=VCPU:1", None).await.expect(400);
    let grouped = call(&api, 34, "GET", "allocation_candidates?resources=MEMORY_MB:8&resources1=VCPU:5", None).await.expect(200);
    assert_eq!(
        grouped["allocation_requests"],
        json!([{"allocations": {big.as_str(): {"resources": {"MEMORY_MB": 8, "VCPU": 5}}}, "mappings": {"": [big], "1": [big]}}])
    );
    let custom = json!({"name": "CUSTOM_MAGIC"});
    call(&api, 29, "POST", "resource_classes", Some(custom)).await.expect(201);
    call(&api, 29, "GET", "resource_classes/CUSTOM_MAGIC", None).await.expect(200);
    call(&api, 29, "DELETE", "resource_classes/CUSTOM_MAGIC", None).await.expect(204);
}

#[actix_web::test]
async fn amounts_beyond_placements_bound_are_400_and_store_nothing() {
    let api = api();
    let host = provider(&api, "host1", 4).await;
    let consumer = |n: u32| format!("00000000-0000-0000-0000-{n:012}");
    // The sum of these three would overflow to 1, which fits.
    let wrapping: serde_json::Map<String, Value> =
        [(1, i64::MAX), (2, i64::MAX), (3, 3)].into_iter().map(|(n, amount)| (consumer(n), claim(&host, amount, None))).collect();
    let refused = call(&api, 29, "POST", "allocations", Some(Value::Object(wrapping))).await.expect(400);
    let detail = refused["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("JSON does not validate") && detail.contains("greater than the maximum of 2147483647"), "{detail}");
    for (amount, status) in [(0, 400), (-1, 400), (2_147_483_648, 400), (2_147_483_647, 409), (9, 409), (8, 204)] {
        let path = format!("allocations/{}", consumer(1));
        let answer = call(&api, 29, "PUT", &path, Some(claim(&host, amount, None))).await;
        assert_eq!(answer.status, status, "{amount}: {}", answer.body);
    }
    let used = call(&api, 29, "GET", &format!("resource_providers/{host}/usages"), None).await.expect(200);
    assert_eq!(used["usages"], json!({"MEMORY_MB": 0, "VCPU": 8}));
    let held = call(&api, 29, "GET", &format!("resource_providers/{host}/allocations"), None).await.expect(200);
    assert_eq!(held["allocations"], json!({consumer(1): {"resources": {"VCPU": 8}, "consumer_generation": 1}}));
}

#[actix_web::test]
async fn inventories_and_bodies_keep_to_placements_bounds() {
    let api = api();
    let host = provider(&api, "host1", 4).await;
    let path = format!("resource_providers/{host}/inventories/VCPU");
    let put = |more: Value| {
        let mut body = json!({"resource_provider_generation": 1, "total": 8});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(&api, 29, "PUT", &path, Some(body))
    };
    let over = 2_147_483_648_i64;
    let wrong = [
        json!({"total": 0}),
        json!({"total": over}),
        json!({"total": i64::MAX, "reserved": i64::MIN}),
        json!({"reserved": -1}),
        json!({"reserved": 9}),
        json!({"min_unit": 0}),
        json!({"min_unit": 5, "max_unit": 4}),
        json!({"max_unit": over}),
        json!({"step_size": 0}),
        json!({"step_size": over}),
        json!({"allocation_ratio": 0}),
        json!({"allocation_ratio": -1.0}),
        json!({"allocation_ratio": 3.5e38}),
        json!({"allocation_ratio": "1"}),
        json!({"colour": "red"}),
    ];
    for body in wrong {
        let answer = put(body.clone()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
    put(json!({"allocation_ratio": 3.4e38, "total": over - 1, "max_unit": over - 1})).await.expect(200);

    let path = "allocations/00000000-0000-0000-0000-000000000001";
    let with = |name: &str, value: Value| {
        let mut body = claim(&host, 1, None);
        body[name] = value;
        body
    };
    let long = "x".repeat(256);
    let wrong = [
        with("project_id", json!("")),
        with("user_id", json!(long)),
        with("consumer_type", json!("instance")),
        with("colour", json!("red")),
        with("allocations", json!({host.as_str(): {"resources": {}}})),
        with("allocations", json!({host.as_str(): {"resources": {"VCPU": 1}, "colour": "red"}})),
    ];
    for body in wrong {
        let answer = call(&api, 38, "PUT", path, Some(body.clone())).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
    call(&api, 33, "PUT", path, Some(with("mappings", json!({"": [host]})))).await.expect(400);
    call(&api, 34, "PUT", path, Some(with("mappings", json!({"": [host]})))).await.expect(204);
    let aggregates: Vec<String> = (0..1001).map(|n| uuid::Uuid::from_u128(n).to_string()).collect();
    let path = format!("resource_providers/{host}/aggregates");
    let put = |list: &[String]| call(&api, 18, "PUT", &path, Some(json!(list)));
    put(&aggregates).await.expect(400);
    put(&[aggregates[0].clone(), aggregates[0].clone()]).await.expect(400);
    put(&aggregates[..1000]).await.expect(200);
}

#[actix_web::test]
async fn aggregates_keep_the_spelling_of_their_ids() {
    let api = api();
    let host = provider(&api, "host1", 4).await;
    let path = format!("resource_providers/{host}/aggregates");
    let plain = "5e08ea53-c4c6-448e-9334-ac4953de3cfa";
    let loud = plain.to_uppercase();
    let short = "42896e0d205d4fe3bd1e100924931787";
    let shown = |version: u16| call(&api, version, "GET", &path, None);
    let before = shown(19).await.expect(200)["resource_provider_generation"].clone();
    // Below 1.19 the generation is neither checked nor raised.
    let sent = json!([short, loud, plain]);
    let set = call(&api, 18, "PUT", &path, Some(sent.clone())).await.expect(200);
    assert_eq!(set, json!({"aggregates": sent}), "as they were sent, in their order");
    let kept = shown(18).await.expect(200);
    let mut texts: Vec<&str> = kept["aggregates"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    texts.sort_unstable();
    let mut expected = [short, loud.as_str(), plain];
    expected.sort_unstable();
    assert_eq!(texts, expected);
    assert_eq!(shown(19).await.expect(200)["resource_provider_generation"], before);
    for spelt in [plain, &loud, &plain.replace('-', "")] {
        let list = call(&api, 29, "GET", &format!("resource_providers?member_of={spelt}"), None).await.expect(200);
        assert_eq!(list["resource_providers"][0]["name"], "host1", "{spelt}");
    }
    let seen = |generation: &Value| json!({"aggregates": [loud], "resource_provider_generation": generation});
    let set = call(&api, 19, "PUT", &path, Some(seen(&before))).await.expect(200);
    assert_eq!((&set["aggregates"], set["resource_provider_generation"].as_i64()), (&json!([loud]), before.as_i64().map(|seen| seen + 1)));
    call(&api, 19, "PUT", &path, Some(seen(&before))).await.expect(409);
    for wrong in [json!(["x"]), json!({"aggregates": [loud], "resource_provider_generation": 1, "colour": "red"}), json!([loud, loud])] {
        let version = if wrong.is_array() { 18 } else { 19 };
        call(&api, version, "PUT", &path, Some(wrong)).await.expect(400);
    }
    call(&api, 18, "PUT", "resource_providers/5e08ea53-c4c6-448e-9334-ac4953de3cfb/aggregates", Some(json!([]))).await.expect(404);
}
