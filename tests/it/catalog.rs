//! The catalog: built-in services, and those that administrators add.

use serde_json::{Value, json};

use crate::client::User;
use crate::stage::play_default;

const V3: &str = "/identity/v3";

/// Makes a record and returns it.
async fn make(admin: &User, collection: &str, record: Value) -> Value {
    let kind = collection.trim_end_matches('s');
    admin.post(&format!("{V3}/{collection}"), json!({ kind: record })).await.expect(201).body[kind].clone()
}

fn id(record: &Value) -> &str {
    record["id"].as_str().expect("an id")
}

/// Returns the catalog's entry of this type, from `/auth/catalog`.
async fn entry(user: &User, kind: &str) -> Option<Value> {
    let catalog = user.get(&format!("{V3}/auth/catalog")).await.expect(200).body["catalog"].clone();
    catalog.as_array().expect("a catalog").iter().find(|entry| entry["type"] == kind).cloned()
}

#[test]
fn what_is_added_to_the_catalog_is_in_tokens() {
    play_default(|stage| async move {
        let admin = &stage.admin;
        let service = make(admin, "services", json!({"type": "object-store", "name": "swift"})).await;
        assert_eq!((&service["enabled"], &service["description"]), (&json!(true), &json!("")));
        let region = make(admin, "regions", json!({"id": "north", "description": "colder"})).await;
        assert_eq!(region["parent_region_id"], Value::Null);
        let url = "http://swift.example.com/v1/AUTH_$(project_id)s";
        let record = json!({"service_id": id(&service), "interface": "public", "url": url, "region_id": "north"});
        let endpoint = make(admin, "endpoints", record).await;
        assert_eq!((&endpoint["url"], &endpoint["region"]), (&json!(url), &json!("north")));

        let shown = entry(&stage.member, "object-store").await.expect("the service");
        let endpoints = shown["endpoints"].as_array().expect("endpoints");
        assert_eq!((endpoints.len(), &endpoints[0]["region_id"], &shown["name"]), (1, &json!("north"), &json!("swift")));
        let shown = endpoints[0]["url"].as_str().expect("a URL");
        assert!(shown.starts_with("http://swift.example.com/v1/AUTH_") && !shown.contains('$'), "{shown}");
        assert!(entry(&stage.member, "compute").await.expect("the built-in one")["endpoints"].as_array().expect("endpoints").len() == 3);
        let rescoped = json!({"methods": ["token"], "token": {"id": admin.token()}});
        for (scope, count) in
            [(json!({"system": {"all": true}}), 0), (json!({"project": {"name": "admin", "domain": {"id": "default"}}}), 1)]
        {
            let auth = json!({"auth": {"identity": rescoped, "scope": scope}});
            let token = admin.post(&format!("{V3}/auth/tokens"), auth).await.expect(201).body["token"].clone();
            let catalog = token["catalog"].as_array().expect("a catalog");
            let own = catalog.iter().find(|entry| entry["type"] == "object-store").expect("the service");
            assert_eq!(own["endpoints"].as_array().map(Vec::len), Some(count), "{scope}");
        }

        let one = format!("{V3}/endpoints/{}", id(&endpoint));
        let changed = admin.patch(&one, json!({"endpoint": {"enabled": false, "region_id": null}})).await.expect(200);
        assert_eq!((&changed.body["endpoint"]["enabled"], &changed.body["endpoint"]["region_id"]), (&json!(false), &Value::Null));
        assert_eq!(entry(&stage.member, "object-store").await.expect("the service")["endpoints"], json!([]));
        admin.patch(&format!("{V3}/services/{}", id(&service)), json!({"service": {"enabled": false}})).await.expect(200);
        assert!(entry(&stage.member, "object-store").await.is_none());
        admin.delete(&format!("{V3}/services/{}", id(&service))).await.expect(204);
        admin.get(&one).await.expect(404);
    });
}

#[test]
fn lists_of_the_catalog_are_filtered() {
    play_default(|stage| async move {
        let admin = &stage.admin;
        let service = make(admin, "services", json!({"type": "dns", "name": "designate", "description": "names"})).await;
        make(admin, "regions", json!({"id": "north"})).await;
        make(admin, "regions", json!({"id": "far-north", "parent_region_id": "north"})).await;
        for interface in ["public", "internal"] {
            let record = json!({"service_id": id(&service), "interface": interface, "url": "https://a", "region": "north"});
            make(admin, "endpoints", record).await;
        }
        for (list, collection, count) in [
            ("services?type=dns", "services", 1),
            ("services?name=designate", "services", 1),
            ("services?name=other", "services", 0),
            ("services", "services", 8),
            ("endpoints?region_id=north", "endpoints", 2),
            ("endpoints?region_id=north&interface=public", "endpoints", 1),
            ("endpoints", "endpoints", 23),
            ("regions", "regions", 3),
            ("regions?parent_region_id=north", "regions", 1),
        ] {
            let listed = admin.get(&format!("{V3}/{list}")).await.expect(200).body;
            assert_eq!(listed[collection].as_array().map(Vec::len), Some(count), "{list}");
        }
    });
}

#[test]
fn a_region_is_made_with_its_id_or_by_an_endpoint() {
    play_default(|stage| async move {
        let admin = &stage.admin;
        let north = format!("{V3}/regions/north");
        let made = admin.put(&north, json!({"region": {"description": "cold"}})).await.expect(201).body["region"].clone();
        assert_eq!((&made["id"], &made["description"]), (&json!("north"), &json!("cold")));
        admin.put(&north, json!({"region": {}})).await.expect(409);
        admin.put(&format!("{V3}/regions/south"), json!({"region": {"id": "west"}})).await.expect(400);
        let service = make(admin, "services", json!({"type": "dns"})).await;
        let endpoint =
            |service: &str, region: &str| json!({"service_id": service, "interface": "public", "url": "https://a", "region": region});
        let refused = json!({"endpoint": endpoint("none", "east")});
        admin.post(&format!("{V3}/endpoints"), refused).await.expect(400);
        admin.get(&format!("{V3}/regions/east")).await.expect(404);
        let made = make(admin, "endpoints", endpoint(id(&service), "east")).await;
        assert_eq!(made["region_id"], "east");
        admin.get(&format!("{V3}/regions/east")).await.expect(200);
        let moved = json!({"endpoint": {"region": "west"}});
        let moved = admin.patch(&format!("{V3}/endpoints/{}", id(&made)), moved).await.expect(200);
        assert_eq!(moved.body["endpoint"]["region_id"], "west");
    });
}

#[test]
fn what_is_built_in_or_makes_no_sense_is_refused() {
    play_default(|stage| async move {
        let admin = &stage.admin;
        let services = admin.get(&format!("{V3}/services?type=compute")).await.expect(200).body["services"].clone();
        let compute = id(&services[0]).to_owned();
        let endpoints = admin.get(&format!("{V3}/endpoints?service_id={compute}")).await.expect(200).body["endpoints"].clone();
        for (path, body) in [
            (format!("{V3}/services/{compute}"), json!({"service": {"name": "other"}})),
            (format!("{V3}/endpoints/{}", id(&endpoints[0])), json!({"endpoint": {"url": "http://a"}})),
            (format!("{V3}/regions/RegionOne"), json!({"region": {"description": "other"}})),
        ] {
            let refused = admin.patch(&path, body).await.expect(403);
            assert!(refused.message().contains("built in"), "{}", refused.text);
            admin.delete(&path).await.expect(403);
            admin.get(&path).await.expect(200);
        }
        let endpoint = |key: &str, value: Value| {
            let mut whole = json!({"service_id": compute, "interface": "public", "url": "http://a", "region_id": "RegionOne"});
            whole[key] = value;
            whole
        };
        for (collection, record, status) in [
            ("services", json!({}), 400),
            ("services", json!({"type": ""}), 400),
            ("services", json!({"type": "x".repeat(256)}), 400),
            ("services", json!({"type": "a", "name": "x".repeat(256)}), 400),
            ("services", json!({"type": "a", "enabled": "yes"}), 400),
            ("endpoints", json!({}), 400),
            ("endpoints", endpoint("service_id", json!("none")), 400),
            ("endpoints", endpoint("service_id", Value::Null), 400),
            ("endpoints", endpoint("region_id", json!("none")), 400),
            ("endpoints", endpoint("interface", json!("secret")), 400),
            ("endpoints", endpoint("url", json!("ftp://a")), 400),
            ("endpoints", endpoint("url", json!("http://")), 400),
            ("endpoints", endpoint("url", json!("http://a b")), 400),
            ("endpoints", endpoint("url", json!(format!("http://{}", "x".repeat(2048)))), 400),
            ("regions", json!({"id": "RegionOne"}), 409),
            ("regions", json!({"id": "x".repeat(256)}), 400),
            ("regions", json!({"id": "a", "parent_region_id": "none"}), 404),
            ("regions", json!({"id": "a", "parent_region_id": "a"}), 404),
        ] {
            let kind = collection.trim_end_matches('s');
            admin.post(&format!("{V3}/{collection}"), json!({ kind: record })).await.expect(status);
        }
        for path in ["services/none", "services/%00", "endpoints/none", "regions/none", "regions/%00"] {
            admin.get(&format!("{V3}/{path}")).await.expect(404);
            admin.delete(&format!("{V3}/{path}")).await.expect(404);
        }
        assert_eq!(entry(&stage.member, "compute").await.expect("compute")["endpoints"].as_array().map(Vec::len), Some(3));
    });
}

#[test]
fn a_region_goes_with_those_below_it_unless_endpoints_are_there() {
    play_default(|stage| async move {
        let admin = &stage.admin;
        make(admin, "regions", json!({"id": "north", "parent_region_id": "RegionOne"})).await;
        make(admin, "regions", json!({"id": "far-north", "parent_region_id": "north"})).await;
        admin.post(&format!("{V3}/regions"), json!({"region": {"id": "north"}})).await.expect(409);
        let (north, far) = (format!("{V3}/regions/north"), format!("{V3}/regions/far-north"));
        admin.patch(&north, json!({"region": {"parent_region_id": "far-north"}})).await.expect(400);
        let changed = admin.patch(&north, json!({"region": {"parent_region_id": null, "description": "top"}})).await.expect(200);
        assert_eq!((&changed.body["region"]["parent_region_id"], &changed.body["region"]["description"]), (&Value::Null, &json!("top")));
        let service = make(admin, "services", json!({"type": "dns"})).await;
        let record = json!({"service_id": id(&service), "interface": "admin", "url": "http://a", "region_id": "far-north"});
        let endpoint = make(admin, "endpoints", record).await;
        let refused = admin.delete(&north).await.expect(403);
        assert!(refused.message().contains("associated endpoints"), "{}", refused.text);
        admin.delete(&format!("{V3}/endpoints/{}", id(&endpoint))).await.expect(204);
        admin.delete(&north).await.expect(204);
        admin.get(&far).await.expect(404);
        let made = make(admin, "regions", json!({"name": "ignored"})).await;
        assert!(!id(&made).is_empty());
    });
}
