//! Tests of flavors, key pairs and server groups.

use serde_json::{Value, json};

use super::{Cloud, clouds, column, fields};

async fn flavor(cloud: &Cloud, id: &str, ram: i32, public: bool) -> Value {
    let body =
        json!({"flavor": {"id": id, "name": format!("f-{id}"), "ram": ram, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": public}});
    let (status, body) = cloud.post("admin", "2.1", "/flavors", body).await;
    assert_eq!(status, 200, "{body}");
    body["flavor"].clone()
}

#[actix_web::test]
async fn a_flavor_is_shown_as_each_version_wants_it() {
    for cloud in clouds().await {
        let body = json!({"flavor": {"name": "m1", "ram": "512", "vcpus": 1, "disk": 0, "rxtx_factor": "2.5", "id": 7}});
        let (status, body) = cloud.post("admin", "2.1", "/flavors", body).await;
        assert_eq!(
            (status, body),
            (
                200,
                json!({"flavor": {
                    "id": "7", "name": "m1", "ram": 512, "vcpus": 1, "disk": 0, "swap": "", "rxtx_factor": 2.5,
                    "OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": true,
                    "links": [
                        {"rel": "self", "href": "http://localhost/compute/v2.1/flavors/7"},
                        {"rel": "bookmark", "href": "http://localhost/compute/flavors/7"},
                    ],
                }})
            )
        );
        let (_, v61) = cloud.get("member", "2.61", "/flavors/7").await;
        assert_eq!((&v61["flavor"]["description"], &v61["flavor"]["extra_specs"]), (&Value::Null, &json!({})));
        let (_, v102) = cloud.get("member", "2.102", "/flavors/7").await;
        assert_eq!(v102["flavor"]["swap"], 0);
        assert!(v102["flavor"].get("rxtx_factor").is_none() && v102["flavor"].get("OS-FLV-DISABLED:disabled").is_none());
        let (status, body) = cloud.put("admin", "2.55", "/flavors/7", json!({"flavor": {"description": "big"}})).await;
        assert_eq!((status, &body["flavor"]["description"]), (200, &json!("big")));
        assert_eq!(cloud.put("admin", "2.54", "/flavors/7", json!({"flavor": {"description": "big"}})).await.0, 404);
        let (_, brief) = cloud.get("member", "2.1", "/flavors").await;
        assert_eq!(fields(&brief["flavors"][0]), ["id", "links", "name"]);
        assert_eq!(cloud.delete("admin", "2.1", "/flavors/7").await, (202, Value::Null));
        assert_eq!(cloud.delete("admin", "2.1", "/flavors/7").await.0, 404);
    }
}

#[actix_web::test]
async fn a_bad_flavor_is_refused_with_its_reason() {
    for cloud in clouds().await {
        flavor(&cloud, "1", 512, true).await;
        let good = json!({"name": "x", "ram": 1, "vcpus": 1, "disk": 1});
        for (field, value, status) in [
            ("name", json!(" x"), 400),
            ("name", json!(""), 400),
            ("name", json!("f-1"), 409),
            ("id", json!("1"), 409),
            ("id", json!("a/b"), 400),
            ("ram", json!(0), 400),
            ("ram", json!("many"), 400),
            ("ram", json!("99999999999"), 400),
            ("vcpus", json!(-1), 400),
            ("disk", json!(null), 400),
            ("rxtx_factor", json!(0), 400),
            ("rxtx_factor", json!("0"), 400),
            ("os-flavor-access:is_public", json!("maybe"), 400),
            ("description", json!("not before 2.55"), 400),
        ] {
            let mut wrong = good.clone();
            wrong[field] = value;
            let (got, body) = cloud.post("admin", "2.54", "/flavors", json!({"flavor": wrong})).await;
            assert_eq!(got, status, "{field}: {body}");
        }
        assert_eq!(cloud.post("admin", "2.54", "/flavors", json!({"flavour": good})).await.0, 400);
        assert_eq!(cloud.post("member", "2.54", "/flavors", json!({"flavor": good})).await.0, 403);
    }
}

#[actix_web::test]
async fn flavors_are_listed_filtered_sorted_and_paged() {
    for cloud in clouds().await {
        for (id, ram) in [("b", 100), ("a", 300), ("c", 200)] {
            flavor(&cloud, id, ram, true).await;
        }
        flavor(&cloud, "secret", 400, false).await;
        let ids = async |token: &str, version: &str, path: &str| {
            let (status, body) = cloud.get(token, version, path).await;
            assert_eq!(status, 200, "{path}: {body}");
            column(&body["flavors"], "/id").iter().map(|id| id.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids("member", "2.1", "/flavors").await, "a b c");
        assert_eq!(ids("admin", "2.1", "/flavors/detail").await, "a b c");
        assert_eq!(ids("admin", "2.1", "/flavors/detail?is_public=None").await, "a b c secret");
        assert_eq!(ids("member", "2.1", "/flavors/detail?is_public=None").await, "a b c");
        assert_eq!(ids("admin", "2.1", "/flavors?is_public=false").await, "secret");
        assert_eq!(ids("member", "2.1", "/flavors?minRam=200&sort_key=memory_mb&sort_dir=desc").await, "a c");
        assert_eq!(ids("member", "2.102", "/flavors?name=f-b").await, "b");
        assert_eq!(ids("member", "2.1", "/flavors?unknown=1").await, "a b c");
        for (version, path) in [
            ("2.75", "/flavors?unknown=1"),
            ("2.1", "/flavors?limit=-1"),
            ("2.1", "/flavors?limit=x"),
            ("2.1", "/flavors?sort_key=color"),
            ("2.1", "/flavors?sort_dir=up"),
            ("2.1", "/flavors?minRam=x"),
            ("2.1", "/flavors?marker=nosuch"),
            ("2.102", "/flavors?sort_key=rxtx_factor"),
        ] {
            assert_eq!(cloud.get("member", version, path).await.0, 400, "{path}");
        }
        assert_eq!(cloud.get("admin", "2.1", "/flavors?is_public=perhaps").await.0, 400);
        let (_, page) = cloud.get("member", "2.1", "/flavors?limit=2").await;
        let next = page["flavors_links"][0]["href"].as_str().unwrap();
        assert_eq!(next, "http://localhost/compute/v2.1/flavors?limit=2&marker=b");
        assert_eq!(page["flavors_links"][0]["rel"], "next");
        let (_, rest) = cloud.get("member", "2.1", next.split_once("v2.1").unwrap().1).await;
        assert_eq!(column(&rest["flavors"], "/id"), [json!("c")]);
        assert!(rest.get("flavors_links").is_none());
        assert_eq!(cloud.get("member", "2.1", "/flavors/detail?limit=0").await, (200, json!({"flavors": []})));
    }
}

#[actix_web::test]
async fn a_private_flavor_is_for_those_it_was_given_to() {
    for cloud in clouds().await {
        flavor(&cloud, "p", 1, false).await;
        flavor(&cloud, "open", 1, true).await;
        assert_eq!(cloud.get("member", "2.1", "/flavors/p").await.0, 404);
        let give = json!({"addTenantAccess": {"tenant": "demo"}});
        let (status, body) = cloud.post("admin", "2.7", "/flavors/p/action", give.clone()).await;
        assert_eq!((status, body), (200, json!({"flavor_access": [{"flavor_id": "p", "tenant_id": "demo"}]})));
        assert_eq!(cloud.post("admin", "2.7", "/flavors/p/action", give.clone()).await.0, 409);
        assert_eq!(cloud.post("admin", "2.7", "/flavors/open/action", give).await.0, 409);
        assert_eq!(cloud.get("member", "2.1", "/flavors/p").await.0, 200);
        assert_eq!(cloud.get("other", "2.1", "/flavors/p").await.0, 404);
        assert_eq!(column(&cloud.get("member", "2.1", "/flavors").await.1["flavors"], "/id"), [json!("open"), json!("p")]);
        assert_eq!(cloud.get("admin", "2.1", "/flavors/p/os-flavor-access").await.1["flavor_access"][0]["tenant_id"], "demo");
        assert_eq!(cloud.get("admin", "2.1", "/flavors/open/os-flavor-access").await.0, 404);
        let take = json!({"removeTenantAccess": {"tenant": "demo"}});
        assert_eq!(cloud.post("admin", "2.1", "/flavors/p/action", take.clone()).await, (200, json!({"flavor_access": []})));
        assert_eq!(cloud.post("admin", "2.1", "/flavors/p/action", take).await.0, 404);
        assert_eq!(cloud.post("admin", "2.1", "/flavors/p/action", json!({"juggle": {}})).await.0, 400);
    }
}

#[actix_web::test]
async fn extra_specs_are_kept_by_key() {
    for cloud in clouds().await {
        flavor(&cloud, "1", 1, true).await;
        let path = "/flavors/1/os-extra_specs";
        let specs = json!({"extra_specs": {"hw:cpu_policy": "shared", "n": 3}});
        assert_eq!(cloud.post("admin", "2.1", path, specs.clone()).await, (200, specs));
        assert_eq!(cloud.get("member", "2.1", path).await, (200, json!({"extra_specs": {"hw:cpu_policy": "shared", "n": "3"}})));
        assert_eq!(cloud.get("member", "2.1", &format!("{path}/n")).await, (200, json!({"n": "3"})));
        assert_eq!(cloud.get("member", "2.1", &format!("{path}/x")).await.0, 404);
        assert_eq!(cloud.put("admin", "2.1", &format!("{path}/n"), json!({"n": "4"})).await, (200, json!({"n": "4"})));
        assert_eq!(cloud.put("admin", "2.1", &format!("{path}/n"), json!({"m": "4"})).await.0, 400);
        assert_eq!(cloud.post("admin", "2.1", path, json!({"extra_specs": {"bad/key": "4"}})).await.0, 400);
        for (key, value) in [("k".repeat(256), "v".to_owned()), ("k".to_owned(), "v".repeat(256))] {
            assert_eq!(cloud.post("admin", "2.1", path, json!({"extra_specs": {key: value}})).await.0, 400);
        }
        // Present and new specs count together.
        let many = |from: u32, to: u32| json!({"extra_specs": (from..to).map(|n| (format!("k{n}"), json!("v"))).collect::<serde_json::Map<_, _>>()});
        assert_eq!(cloud.post("admin", "2.1", path, many(0, 129)).await.0, 400);
        let held = fields(&cloud.get("member", "2.1", path).await.1["extra_specs"]).len();
        assert_eq!(cloud.post("admin", "2.1", path, many(0, 127)).await.0, 400, "{held} are there");
        assert_eq!(fields(&cloud.get("member", "2.1", path).await.1["extra_specs"]).len(), held);
        assert_eq!(cloud.post("member", "2.1", path, json!({"extra_specs": {"k": "4"}})).await.0, 403);
        assert_eq!(cloud.delete("admin", "2.1", &format!("{path}/n")).await, (200, Value::Null));
        assert_eq!(cloud.delete("admin", "2.1", &format!("{path}/n")).await.0, 404);
        assert_eq!(cloud.get("member", "2.61", "/flavors/1").await.1["flavor"]["extra_specs"], json!({"hw:cpu_policy": "shared"}));
    }
}

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti user@example.com";

#[actix_web::test]
async fn key_pairs_are_given_made_listed_and_removed() {
    for cloud in clouds().await {
        let (status, body) = cloud.post("member", "2.1", "/os-keypairs", json!({"keypair": {"name": "a", "public_key": KEY}})).await;
        assert_eq!(status, 200);
        assert_eq!(fields(&body["keypair"]), ["fingerprint", "name", "public_key", "user_id"]);
        let (status, body) = cloud.post("member", "2.2", "/os-keypairs", json!({"keypair": {"name": "b", "type": "ssh"}})).await;
        assert_eq!((status, &body["keypair"]["type"]), (201, &json!("ssh")));
        assert!(body["keypair"]["private_key"].as_str().unwrap().starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
        assert_eq!(body["keypair"]["fingerprint"].as_str().unwrap().len(), 47);

        let (_, answer) = cloud.get("member", "2.10", "/os-keypairs/a").await;
        assert_eq!(
            fields(&answer["keypair"]),
            ["created_at", "deleted", "deleted_at", "fingerprint", "id", "name", "public_key", "type", "updated_at", "user_id"]
        );
        assert_eq!((&answer["keypair"]["public_key"], &answer["keypair"]["user_id"]), (&json!(KEY), &json!("alice")));
        let (_, list) = cloud.get("member", "2.35", "/os-keypairs?limit=1").await;
        assert_eq!((column(&list["keypairs"], "/keypair/name"), fields(&list["keypairs"][0]["keypair"]).len()), (vec![json!("a")], 4));
        assert_eq!(list["keypairs_links"][0]["href"], "http://localhost/compute/v2.1/os-keypairs?limit=1&marker=a");
        assert_eq!(column(&cloud.get("member", "2.35", "/os-keypairs?marker=a").await.1["keypairs"], "/keypair/name"), [json!("b")]);
        assert_eq!(cloud.get("member", "2.35", "/os-keypairs?marker=z").await.0, 400);
        assert_eq!(cloud.get("other", "2.10", "/os-keypairs").await.1["keypairs"], json!([]));

        for (version, body, status) in [
            ("2.1", json!({"name": "a", "public_key": KEY}), 409),
            ("2.1", json!({"name": "x", "public_key": "rubbish"}), 400),
            ("2.1", json!({"name": "x", "type": "ssh", "public_key": KEY}), 400),
            ("2.10", json!({"name": "x@y", "public_key": KEY}), 400),
            ("2.10", json!({"name": "x", "user_id": "bob", "public_key": KEY}), 403),
            ("2.92", json!({"name": "x"}), 400),
            ("2.92", json!({"name": "x@y.z", "public_key": KEY}), 201),
            ("2.92", json!({"name": "x", "type": "x509"}), 400),
            ("2.2", json!({"name": "x", "type": "x509", "public_key": KEY}), 400),
        ] {
            let (got, answer) = cloud.post("member", version, "/os-keypairs", json!({"keypair": body.clone()})).await;
            assert_eq!(got, status, "{version} {body}: {answer}");
        }
        let (status, body) =
            cloud.post("admin", "2.10", "/os-keypairs", json!({"keypair": {"name": "x", "user_id": "bob", "public_key": KEY}})).await;
        assert_eq!((status, &body["keypair"]["user_id"]), (201, &json!("bob")));
        assert_eq!(cloud.get("admin", "2.10", "/os-keypairs/x?user_id=bob").await.0, 200);
        assert_eq!(cloud.get("member", "2.10", "/os-keypairs/x?user_id=bob").await.0, 403);
        assert_eq!(cloud.delete("member", "2.1", "/os-keypairs/a").await, (202, Value::Null));
        assert_eq!(cloud.delete("member", "2.2", "/os-keypairs/b").await, (204, Value::Null));
        assert_eq!(cloud.delete("member", "2.2", "/os-keypairs/b").await.0, 404);
    }
}

#[actix_web::test]
async fn certificates_are_made_up_to_2_91() {
    for cloud in clouds().await {
        for (name, version) in [("a", "2.2"), ("b", "2.91")] {
            let (status, body) = cloud.post("member", version, "/os-keypairs", json!({"keypair": {"name": name, "type": "x509"}})).await;
            let pair_in_answer = &body["keypair"];
            assert_eq!((status, &pair_in_answer["type"], &pair_in_answer["user_id"]), (201, &json!("x509"), &json!("alice")), "{body}");
            assert_eq!(fields(pair_in_answer), ["fingerprint", "name", "private_key", "public_key", "type", "user_id"]);
            let pair = json!({"keypair": {"name": format!("{name} given"), "type": "x509", "public_key": pair_in_answer["public_key"]}});
            let (status, body) = cloud.post("member", "2.92", "/os-keypairs", pair).await;
            assert_eq!((status, &body["keypair"]["fingerprint"]), (201, &pair_in_answer["fingerprint"]));
            assert_eq!(fields(&body["keypair"]), ["fingerprint", "name", "public_key", "type", "user_id"]);
            let (_, answer) = cloud.get("member", version, &format!("/os-keypairs/{name}")).await;
            assert_eq!((&answer["keypair"]["public_key"], answer["keypair"].get("private_key")), (&pair_in_answer["public_key"], None));
        }
        let (_, list) = cloud.get("member", "2.2", "/os-keypairs").await;
        for entry in list["keypairs"].as_array().unwrap() {
            assert_eq!(fields(&entry["keypair"]), ["fingerprint", "name", "public_key", "type"]);
        }
        let (status, body) =
            cloud.post("admin", "2.10", "/os-keypairs", json!({"keypair": {"name": "c", "type": "x509", "user_id": "a".repeat(65)}})).await;
        assert_eq!(status, 400);
        assert!(body["badRequest"]["message"].as_str().unwrap().starts_with("Keypair data is invalid: "), "{body}");
    }
}

#[actix_web::test]
async fn server_groups_have_the_policies_of_their_version() {
    for cloud in clouds().await {
        let create =
            async |version: &str, group: Value| cloud.post("member", version, "/os-server-groups", json!({"server_group": group})).await;
        let (status, old) = create("2.1", json!({"name": "g", "policies": ["affinity"]})).await;
        assert_eq!(status, 200);
        let old = &old["server_group"];
        assert_eq!(fields(old), ["id", "members", "metadata", "name", "policies"]);
        let path = format!("/os-server-groups/{}", old["id"].as_str().unwrap());
        let (_, new) = cloud.get("member", "2.64", &path).await;
        assert_eq!(
            new["server_group"],
            json!({"id": old["id"], "name": "g", "members": [], "policy": "affinity", "rules": {}, "project_id": "demo", "user_id": "alice"})
        );
        let (status, ruled) = create("2.64", json!({"name": "r", "policy": "anti-affinity", "rules": {"max_server_per_host": "3"}})).await;
        assert_eq!((status, &ruled["server_group"]["rules"]), (200, &json!({"max_server_per_host": 3})));
        for (version, group) in [
            ("2.14", json!({"name": "x", "policies": ["soft-affinity"]})),
            ("2.15", json!({"name": "x", "policies": ["affinity", "anti-affinity"]})),
            ("2.15", json!({"name": "x", "policies": []})),
            ("2.63", json!({"name": "x", "policy": "affinity"})),
            ("2.64", json!({"name": "x", "policy": "legacy"})),
            ("2.64", json!({"name": "x", "policy": "affinity", "rules": {"max_server_per_host": 2}})),
            ("2.64", json!({"name": "x", "policy": "anti-affinity", "rules": {"max_server_per_host": 0}})),
        ] {
            assert_eq!(create(version, group.clone()).await.0, 400, "{group}");
        }
        assert_eq!(create("2.15", json!({"name": "s", "policies": ["soft-affinity"]})).await.0, 200);
        assert_eq!(
            column(&cloud.get("reader", "2.1", "/os-server-groups").await.1["server_groups"], "/name"),
            [json!("g"), json!("r"), json!("s")]
        );
        assert_eq!(
            column(&cloud.get("member", "2.1", "/os-server-groups?limit=1&offset=1").await.1["server_groups"], "/name"),
            [json!("r")]
        );
        assert_eq!(cloud.get("other", "2.1", "/os-server-groups?all_projects=1").await.1["server_groups"], json!([]));
        assert_eq!(cloud.get("admin", "2.1", "/os-server-groups?all_projects=1").await.1["server_groups"].as_array().unwrap().len(), 3);
        assert_eq!(cloud.get("other", "2.1", &path).await.0, 403);
        assert_eq!(cloud.delete("reader", "2.1", &path).await.0, 403);
        assert_eq!(cloud.delete("member", "2.1", &path).await, (204, Value::Null));
        assert_eq!(cloud.get("member", "2.1", &path).await.0, 404);
    }
}
