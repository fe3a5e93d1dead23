//! Tests of the reshaper: inventories and what is allocated of them move together, or nothing does.

use serde_json::{Value, json};

use crate::placement::requests::{api, call, claim, provider};
use crate::test_api::TestApi;

const SERVER: &str = "0c6c1d7a-1111-4222-8333-444455556666";

/// Makes a host of which a server has 4 VCPUs, with a bare provider below it. Returns their ids.
async fn claimed(api: &TestApi) -> (String, String) {
    let host = provider(api, "host1", 4).await;
    call(api, 29, "PUT", &format!("allocations/{SERVER}"), Some(claim(&host, 4, None))).await.expect(204);
    let below = json!({"name": "numa0", "parent_provider_uuid": host});
    let below = call(api, 29, "POST", "resource_providers", Some(below)).await.expect(200);
    (host, below["uuid"].as_str().unwrap().to_owned())
}

/// The request that moves the host's VCPUs and the server's to the provider below it.
fn request(host: &str, below: &str) -> Value {
    let memory = json!({"MEMORY_MB": {"total": 1024, "reserved": 24, "step_size": 8}});
    json!({
        "inventories": {
            host: {"resource_provider_generation": 2, "inventories": memory},
            below: {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}},
        },
        "allocations": {SERVER: claim(below, 4, Some(1))},
    })
}

/// Returns what the server holds of whom, and the classes of both providers.
async fn picture(api: &TestApi, host: &str, below: &str) -> (Value, Vec<String>, Vec<String>) {
    let held = call(api, 12, "GET", &format!("allocations/{SERVER}"), None).await.expect(200);
    let mut classes = Vec::new();
    for uuid in [host, below] {
        let inventories = call(api, 29, "GET", &format!("resource_providers/{uuid}/inventories"), None).await.expect(200);
        classes.push(inventories["inventories"].as_object().unwrap().keys().cloned().collect());
    }
    let of: serde_json::Map<String, Value> =
        held["allocations"].as_object().unwrap().iter().map(|(uuid, allocation)| (uuid.clone(), allocation["resources"].clone())).collect();
    (Value::Object(of), classes.remove(0), classes.remove(0))
}

#[actix_web::test]
async fn vcpus_move_below_with_what_a_server_has_of_them() {
    let api = api();
    let (host, below) = claimed(&api).await;
    call(&api, 30, "POST", "reshaper", Some(request(&host, &below))).await.expect(204);
    let (held, above, beneath) = picture(&api, &host, &below).await;
    assert_eq!(held, json!({below.as_str(): {"VCPU": 4}}));
    assert_eq!((above, beneath), (vec!["MEMORY_MB".to_owned()], vec!["VCPU".to_owned()]));
    call(&api, 30, "POST", "reshaper", Some(request(&host, &below))).await.expect(409);
}

#[actix_web::test]
async fn a_reshape_that_is_refused_changes_nothing() {
    let api = api();
    let (host, below) = claimed(&api).await;
    let before = picture(&api, &host, &below).await;
    let altered = |pointer: &str, value: Value| {
        let mut body = request(&host, &below);
        *body.pointer_mut(pointer).unwrap() = value;
        body
    };
    let unknown = "0c6c1d7a-0000-4222-8333-444455556666";
    let with_unknown = {
        let mut body = request(&host, &below);
        body["inventories"][unknown] = json!({"resource_provider_generation": 0, "inventories": {}});
        body
    };
    let own = |uuid: &str, rest: &str| format!("/inventories/{uuid}/{rest}");
    let rows = [
        (29, request(&host, &below), 404, ""),
        (30, altered(&own(&host, "resource_provider_generation"), json!(1)), 409, "placement.concurrent_update"),
        (30, altered(&format!("/allocations/{SERVER}/consumer_generation"), Value::Null), 409, "placement.concurrent_update"),
        (30, with_unknown, 400, "placement.resource_provider.not_found"),
        // Allocations that stay need their inventory.
        (30, altered("/allocations", json!({})), 409, "placement.inventory.inuse"),
        (30, altered(&own(&below, "inventories/VCPU"), json!({"total": 3})), 409, ""),
        (30, altered(&own(&below, "inventories/VCPU"), json!({"total": 4, "max_unit": 3})), 409, ""),
        (30, altered(&own(&below, "inventories/VCPU"), json!({"total": 4, "colour": "red"})), 400, ""),
        (30, altered("/inventories", json!([])), 400, ""),
        (38, request(&host, &below), 400, ""),
    ];
    for (minor, body, status, code) in rows {
        let answer = call(&api, minor, "POST", "reshaper", Some(body.clone())).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        assert!(answer.body["errors"][0]["code"].as_str().unwrap().contains(code), "{body}: {}", answer.body);
        assert_eq!(picture(&api, &host, &below).await, before, "{body}");
    }
}
