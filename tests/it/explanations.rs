//! Where a server could move: the verdict on every host, over HTTP. The verdict agrees with the move that follows.

use serde_json::{Value, json};

use crate::stage::play_default;

/// Returns the rules that refuse a host; none if it fits.
fn rules(body: &Value, host: &str) -> Vec<String> {
    let verdict = body["destinations"].as_array().expect("hosts").iter().find(|shown| shown["host"] == host);
    let verdict = verdict.unwrap_or_else(|| panic!("{host} is judged in {body:#}"));
    assert_eq!(verdict["weight"].is_number(), verdict["refusals"] == json!([]), "{verdict:#}");
    verdict["refusals"].as_array().expect("refusals").iter().map(|refusal| refusal["rule"].as_str().expect("a rule").to_owned()).collect()
}

#[test]
fn every_host_is_refused_by_a_rule_or_has_weights() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let host = stage.admin.show(server).await["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        let other = if host == "cell1-host1" { "cell1-host2" } else { "cell1-host1" };
        let path = format!("/ops/v1/servers/{server}/destinations");

        let body = stage.admin.get(&path).await.expect(200).body;
        assert_eq!((&body["host"], &body["cell"], &body["flavor"]), (&json!(host), &json!("cell1"), &json!("gen1.small")));
        assert_eq!(body["destinations"].as_array().expect("hosts").len(), 4);
        assert_eq!(body["destinations"][0]["host"], other, "the best comes first");
        assert_eq!(rules(&body, other), Vec::<String>::new());
        assert!(rules(&body, &host).contains(&"the request".to_owned()), "{body:#}");

        let huge = stage.admin.get(&format!("{path}?flavor=gen2.large&host=cell2-host1")).await.expect(200).body;
        assert!(rules(&huge, "cell2-host2").contains(&"the request".to_owned()), "{huge:#}");

        let services = stage.admin.get("/compute/v2.1/os-services?binary=nova-compute").await.expect(200).body;
        let record =
            services["services"].as_array().expect("services").iter().find(|service| service["host"] == other).expect("its service");
        let service = format!("/compute/v2.1/os-services/{}", record["id"].as_str().expect("an id"));
        stage.admin.put(&service, json!({"forced_down": true})).await.expect(200);
        let down = stage.admin.get(&path).await.expect(200).body;
        assert!(rules(&down, other).contains(&"ComputeFilter".to_owned()), "{down:#}");
        stage.admin.put(&service, json!({"forced_down": false})).await.expect(200);
    });
}

#[test]
fn an_explanation_refuses_unknown_hosts_and_flavors() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let path = format!("/ops/v1/servers/{server}/destinations");
        for (query, part) in [("?host=nowhere", "nowhere"), ("?flavor=gigantic", "gigantic"), ("?colour=red", "colour")] {
            let answer = stage.admin.get(&format!("{path}{query}")).await.expect(400);
            assert!(answer.message().contains(part), "{query}: {}", answer.text);
        }
        stage.admin.get("/ops/v1/servers/00000000-0000-0000-0000-000000000001/destinations").await.expect(404);
    });
}
