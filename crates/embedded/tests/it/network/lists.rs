//! Tests of requests that make several resources: all of them, or none.

use serde_json::{Value, json};

use super::requests::{ADMIN, DEMO, api, get, id, send};

async fn count(api: &crate::test_api::TestApi, what: &str) -> usize {
    get(api, ADMIN, what).await.expect(200)[what].as_array().unwrap().len()
}

#[actix_web::test]
async fn a_list_of_resources_is_made_in_its_order() {
    let api = api();
    let bodies = json!({"networks": [{"name": "a", "shared": true}, {"name": "b"}]});
    let made = send(&api, "POST", ADMIN, "networks", bodies).await.expect(201)["networks"].clone();
    assert_eq!((&made[0]["name"], &made[1]["name"], made.as_array().unwrap().len()), (&json!("a"), &json!("b"), 2));
    let networks = [id(&made[0]), id(&made[1])];
    let block = |network: &str, cidr: &str| json!({"network_id": network, "cidr": cidr, "ip_version": 4});
    let bodies =
        json!({"subnets": [block(&networks[0], "10.1.0.0/24"), block(&networks[0], "10.2.0.0/24"), block(&networks[1], "10.1.0.0/24")]});
    let made = send(&api, "POST", ADMIN, "subnets", bodies).await.expect(201)["subnets"].clone();
    let cidrs: Vec<&Value> = made.as_array().unwrap().iter().map(|one| &one["cidr"]).collect();
    assert_eq!(cidrs, [&json!("10.1.0.0/24"), &json!("10.2.0.0/24"), &json!("10.1.0.0/24")]);
    let bodies = json!({"ports": [{"network_id": networks[0], "name": "p"}, {"network_id": networks[0], "name": "q"}]});
    let made = send(&api, "POST", DEMO, "ports", bodies).await.expect(201)["ports"].clone();
    assert_eq!((&made[0]["name"], &made[1]["name"]), (&json!("p"), &json!("q")));
    assert_eq!(made[0]["security_groups"], made[1]["security_groups"], "one default group is made for both");
    assert_ne!(made[0]["mac_address"], made[1]["mac_address"]);
    assert_ne!(made[0]["fixed_ips"][0]["ip_address"], made[1]["fixed_ips"][0]["ip_address"]);
}

#[actix_web::test]
async fn one_wrong_resource_of_a_list_makes_none() {
    let api = api();
    let network = id(&send(&api, "POST", ADMIN, "networks", json!({"network": {"shared": true}})).await.expect(201)["network"]);
    let subnet = |cidr: &str| json!({"network_id": network, "cidr": cidr, "ip_version": 4});
    let port = json!({"network_id": network});
    let elsewhere = json!({"network_id": "0c6c1d7a-1111-4222-8333-444455556666"});
    let many: Vec<Value> = (0..257).map(|_| port.clone()).collect();
    let rows = [
        ("networks", json!({"networks": [{"name": "a"}, {"name": "b", "colour": "red"}]}), 400),
        ("subnets", json!({"subnets": [subnet("10.1.0.0/24"), subnet("10.1.0.0/25")]}), 400),
        ("subnets", json!({"subnets": [subnet("10.1.0.0/24"), subnet("here")]}), 400),
        ("ports", json!({"ports": [port, elsewhere]}), 404),
        ("ports", json!({"ports": []}), 400),
        ("ports", json!({"ports": port}), 400),
        ("ports", json!({"ports": [port, 7]}), 400),
        ("ports", json!({"ports": many}), 400),
        ("ports", json!({"port": [port]}), 400),
    ];
    for (what, body, status) in rows {
        let answer = send(&api, "POST", ADMIN, what, body).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        assert_eq!((count(&api, "networks").await, count(&api, "subnets").await, count(&api, "ports").await), (1, 0, 0), "{what}");
    }
    // The quota counts those of the list, too.
    send(&api, "PUT", ADMIN, "quotas/demo", json!({"quota": {"port": 2}})).await.expect(200);
    let three = json!({"ports": [port, port, port]});
    send(&api, "POST", DEMO, "ports", three).await.expect(409);
    assert_eq!(count(&api, "ports").await, 0);
    send(&api, "POST", DEMO, "ports", json!({"ports": [port, port]})).await.expect(201);
}
