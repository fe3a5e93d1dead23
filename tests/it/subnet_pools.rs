//! Subnet pools: the blocks that subnets get from them, their bounds and quotas, and who may use them.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, User, id_of};
use crate::routers::make;
use crate::stage::play_default;

const POOLS: &str = "/network/v2.0/subnetpools";

async fn pool(user: &User, more: Value) -> Value {
    let mut pool = json!({"name": "blocks", "prefixes": ["10.40.0.0/15"], "default_prefixlen": 24});
    pool.as_object_mut().expect("attributes").extend(more.as_object().expect("attributes").clone());
    make(user, "subnetpools", "subnetpool", pool).await
}

/// Asks for a subnet on a new network of the user's.
async fn ask(user: &User, more: Value) -> Answer {
    let network = id_of(&make(user, "networks", "network", json!({"name": "inside"})).await);
    ask_on(user, network, more).await
}

async fn ask_on(user: &User, network: Uuid, more: Value) -> Answer {
    let mut subnet = json!({"network_id": network});
    subnet.as_object_mut().expect("attributes").extend(more.as_object().expect("attributes").clone());
    user.post("/network/v2.0/subnets", json!({"subnet": subnet})).await
}

async fn cidr(user: &User, more: Value) -> Value {
    ask(user, more).await.expect(201).body["subnet"]["cidr"].clone()
}

#[test]
fn a_subnet_gets_the_next_block_of_its_pool() {
    play_default(|stage| async move {
        let member = &stage.member;
        let made = pool(member, json!({"prefixes": ["10.41.0.0/16", "10.40.0.0/16"]})).await;
        let shown = (&made["prefixes"], &made["ip_version"], &made["min_prefixlen"], &made["max_prefixlen"], &made["default_prefixlen"]);
        assert_eq!(shown, (&json!(["10.40.0.0/15"]), &json!(4), &json!("8"), &json!("32"), &json!("24")));
        let from = json!({"subnetpool_id": made["id"]});
        let first = ask(member, from.clone()).await.expect(201).body["subnet"].clone();
        assert_eq!((&first["cidr"], &first["subnetpool_id"]), (&json!("10.40.0.0/24"), &made["id"]));
        assert_eq!((&first["gateway_ip"], &first["ip_version"]), (&json!("10.40.0.1"), &json!(4)));
        assert_eq!(first["allocation_pools"], json!([{"start": "10.40.0.2", "end": "10.40.0.254"}]));
        assert_eq!(cidr(member, json!({"subnetpool_id": made["id"], "prefixlen": 26, "ip_version": 4})).await, "10.40.1.0/26");
        assert_eq!(cidr(member, from.clone()).await, "10.40.2.0/24");
        assert_eq!(cidr(member, json!({"subnetpool_id": made["id"], "cidr": "10.41.7.0/24"})).await, "10.41.7.0/24");

        // A port has an address of it, and its block is free again when the subnet is gone.
        let port = make(member, "ports", "port", json!({"network_id": first["network_id"]})).await;
        assert_eq!(port["fixed_ips"][0]["ip_address"], "10.40.0.2");
        member.delete(&format!("/network/v2.0/ports/{}", id_of(&port))).await.expect(204);
        member.delete(&format!("/network/v2.0/subnets/{}", id_of(&first))).await.expect(204);
        assert_eq!(cidr(member, from).await, "10.40.0.0/24");
        let listed = member.get("/network/v2.0/subnets?subnetpool_id=").await.expect(200).body["subnets"].clone();
        assert!(listed.as_array().expect("a list").iter().all(|subnet| subnet["subnetpool_id"].is_null()), "{listed}");
    });
}

#[test]
fn blocks_that_a_pool_cannot_give_are_refused() {
    play_default(|stage| async move {
        let member = &stage.member;
        let id = pool(member, json!({"prefixes": ["10.40.0.0/24"], "min_prefixlen": 24, "max_prefixlen": 28})).await["id"].clone();
        let network = id_of(&make(member, "networks", "network", json!({"name": "inside"})).await);
        for (attributes, status, why) in [
            (json!({}), 400, "a subnetpool must be specified in the absence of a cidr"),
            (json!({"subnetpool_id": id, "use_default_subnetpool": true}), 400, "cannot both be specified"),
            (json!({"use_default_subnetpool": true}), 400, "ip_version must be specified"),
            (json!({"use_default_subnetpool": true, "ip_version": 4}), 400, "No default subnetpool found for IPv4"),
            (json!({"subnetpool_id": id, "cidr": "10.40.0.0/25", "prefixlen": 25}), 400, "must not be supplied together"),
            (json!({"subnetpool_id": id, "ip_version": 6}), 400, "Cannot allocate IPv6 subnet from IPv4 subnet pool"),
            (json!({"subnetpool_id": id, "prefixlen": 29}), 400, "maximum allowed prefix is 28"),
            (json!({"subnetpool_id": id, "prefixlen": 23}), 400, "minimum allowed prefix is 24"),
            (json!({"subnetpool_id": id, "allocation_pools": []}), 400, "allocation_pools allowed only for specific subnet requests"),
            (
                json!({"subnetpool_id": id, "cidr": "10.50.0.0/24"}),
                409,
                "Cannot allocate requested subnet from the available set of prefixes",
            ),
            (json!({"subnetpool_id": Uuid::nil()}), 404, "Subnet pool 00000000-0000-0000-0000-000000000000 could not be found."),
            (json!({"subnetpool_id": "prefix_delegation"}), 400, "subnetpool_id"),
            (json!({"cidr": "10.60.0.0/24", "ip_version": 6}), 400, "ip_version"),
            (json!({"cidr": "10.60.0.0/24", "ip_version": 5}), 400, "ip_version"),
        ] {
            let refused = ask_on(member, network, attributes.clone()).await.expect(status);
            assert!(refused.message().contains(why), "{attributes}: {}", refused.text);
        }
        assert_eq!(cidr(member, json!({"subnetpool_id": id, "prefixlen": 25})).await, "10.40.0.0/25");
        let refusal = ask(member, json!({"subnetpool_id": id, "cidr": "10.40.0.0/26"})).await.expect(409);
        assert!(refusal.message().contains("available set of prefixes"), "{}", refusal.text);
        let large = ask(member, json!({"subnetpool_id": id})).await.expect(409);
        assert_eq!(large.message(), "Failed to allocate subnet: Insufficient prefix space to allocate subnet size /24.");

        // All subnets of a network come from one pool, or from none.
        ask_on(member, network, json!({"subnetpool_id": id, "prefixlen": 28})).await.expect(201);
        let other = pool(member, json!({})).await["id"].clone();
        for attributes in [json!({"cidr": "10.60.0.0/24"}), json!({"subnetpool_id": other})] {
            let refused = ask_on(member, network, attributes).await.expect(400);
            assert!(refused.message().contains("must be allocated from the same subnet pool"), "{}", refused.text);
        }
        ask_on(member, network, json!({"cidr": "fd00:9::/64", "ip_version": 6})).await.expect(201);
    });
}

#[test]
fn wrong_pools_are_refused() {
    play_default(|stage| async move {
        let member = &stage.member;
        for (attributes, why) in [
            (json!({"prefixes": ["10.0.0.0/8"]}), "'name' not specified"),
            (json!({"name": "a"}), "'prefixes' not specified"),
            (json!({"name": " ", "prefixes": ["10.0.0.0/8"]}), "name"),
            (json!({"name": "a", "prefixes": []}), "Empty subnet pool prefix list"),
            (json!({"name": "a", "prefixes": ["10.0.0.0/8", "fd00::/64"]}), "Cannot mix IPv4 and IPv6 prefixes"),
            (json!({"name": "a", "prefixes": ["10.0.0.0/8", "10.0.0.0/8"]}), "prefixes"),
            (json!({"name": "a", "prefixes": ["10.0.0.0"]}), "prefixes"),
            (
                json!({"name": "a", "prefixes": ["10.0.0.0/8"], "min_prefixlen": 33}),
                "Illegal prefix bounds: min_prefixlen=33, max_prefixlen=32.",
            ),
            (json!({"name": "a", "prefixes": ["10.0.0.0/8"], "max_prefixlen": 64}), "max_prefixlen=64, ip_version_max=32."),
            (json!({"name": "a", "prefixes": ["10.0.0.0/8"], "default_prefixlen": 7}), "default_prefixlen=7, min_prefixlen=8."),
            (json!({"name": "a", "prefixes": ["10.0.0.0/8"], "default_quota": -1}), "default_quota"),
            (json!({"name": "a", "prefixes": ["10.0.0.0/8"], "address_scope_id": Uuid::nil()}), "address_scope_id"),
            (json!({"name": "a", "prefixes": ["10.0.0.0/8"], "colour": "blue"}), "Unrecognized attribute(s) 'colour'"),
        ] {
            let refused = member.post(POOLS, json!({"subnetpool": attributes})).await.expect(400);
            assert!(refused.message().contains(why), "{attributes}: {}", refused.text);
        }
        let path = format!("{POOLS}/{}", id_of(&pool(member, json!({})).await));
        for (attributes, status) in [
            (json!({"prefixes": ["10.40.0.0/16"]}), 400),
            (json!({"ip_version": 6}), 400),
            (json!({"shared": true}), 400),
            (json!({"max_prefixlen": 23}), 400),
            (json!({"is_default": true}), 403),
            (json!({"prefixes": ["10.40.0.0/16", "10.41.0.0/16", "10.42.0.0/16"], "name": "more", "default_quota": null}), 200),
        ] {
            let answer = member.put(&path, json!({"subnetpool": attributes})).await;
            assert_eq!(answer.status, status, "{attributes}: {}", answer.text);
        }
        let changed = member.get(&path).await.expect(200).body["subnetpool"].clone();
        assert_eq!((&changed["name"], &changed["prefixes"]), (&json!("more"), &json!(["10.40.0.0/15", "10.42.0.0/16"])));
    });
}

#[test]
fn a_pool_is_its_projects_unless_it_is_shared() {
    play_default(|stage| async move {
        let eve = stage.user("eve", "elsewhere", "member").await;
        let own = format!("{POOLS}/{}", id_of(&pool(&stage.member, json!({})).await));
        let shared = pool(&stage.admin, json!({"shared": true, "is_default": true})).await;
        for path in [&own, &format!("{own}/tags")] {
            eve.get(path).await.expect(404);
        }
        ask(&eve, json!({"subnetpool_id": own.rsplit('/').next()})).await.expect(404);
        let seen = eve.get(POOLS).await.expect(200).body["subnetpools"].clone();
        assert_eq!(seen.as_array().expect("a list").iter().map(|pool| &pool["id"]).collect::<Vec<_>>(), [&shared["id"]]);
        eve.put(&format!("{POOLS}/{}", id_of(&shared)), json!({"subnetpool": {"name": "mine"}})).await.expect(403);
        eve.delete(&format!("{POOLS}/{}", id_of(&shared))).await.expect(403);
        assert_eq!(cidr(&eve, json!({"use_default_subnetpool": true, "ip_version": 4})).await, "10.40.0.0/24");
        assert_eq!(cidr(&stage.member, json!({"subnetpool_id": shared["id"]})).await, "10.40.1.0/24");

        let second = json!({"subnetpool": {"name": "b", "prefixes": ["10.0.0.0/8"], "is_default": true}});
        let refused = stage.admin.post(POOLS, second).await.expect(400);
        assert!(refused.message().contains("Only one default may exist per IP family"), "{}", refused.text);
        let six = pool(&stage.admin, json!({"prefixes": ["2001:db8::/56"], "default_prefixlen": 64, "is_default": true})).await;
        assert_eq!((&six["min_prefixlen"], &six["max_prefixlen"]), (&json!("64"), &json!("128")));
        let first = ask(&stage.admin, json!({"use_default_subnetpool": true, "ip_version": 6})).await.expect(201).body["subnet"].clone();
        assert_eq!((&first["cidr"], &first["ip_version"]), (&json!("2001:db8::/64"), &json!(6)));
        assert_eq!(cidr(&stage.admin, json!({"subnetpool_id": six["id"]})).await, "2001:db8:0:1::/64");
        stage.member.put(&format!("{own}/tags"), json!({"tags": ["blue"]})).await.expect(200);
        let blue = stage.member.get(&format!("{POOLS}?tags=blue")).await.expect(200).body["subnetpools"].clone();
        assert_eq!(blue.as_array().map(Vec::len), Some(1), "{blue}");
    });
}

#[test]
fn a_pool_with_subnets_is_not_deleted() {
    play_default(|stage| async move {
        let made = pool(&stage.member, json!({})).await;
        let path = format!("{POOLS}/{}", id_of(&made));
        let subnet = ask(&stage.member, json!({"subnetpool_id": made["id"]})).await.expect(201).body["subnet"].clone();
        let refused = stage.member.delete(&path).await.expect(400);
        assert_eq!(refused.message(), "Unable to delete subnet pool: Subnet pool has existing allocations.");
        let network = subnet["network_id"].as_str().expect("an id").to_owned();
        stage.member.delete(&format!("/network/v2.0/networks/{network}")).await.expect(204);
        stage.member.delete(&path).await.expect(204);
        stage.member.get(&path).await.expect(404);
    });
}

#[test]
fn quotas_bound_pools_and_what_is_taken_from_them() {
    play_default(|stage| async move {
        let made = pool(&stage.member, json!({"default_quota": 300, "prefixes": ["10.40.0.0/16"]})).await;
        let from = json!({"subnetpool_id": made["id"]});
        ask(&stage.member, from.clone()).await.expect(201);
        let refused = ask(&stage.member, from).await.expect(409);
        assert_eq!(refused.message(), "Per-project subnet pool prefix quota exceeded.");
        ask(&stage.member, json!({"subnetpool_id": made["id"], "prefixlen": 27})).await.expect(201);
        let six = json!({"prefixes": ["2001:db8::/48"], "default_prefixlen": 64, "default_quota": 2});
        let six = pool(&stage.member, six).await["id"].clone();
        assert_eq!(ask(&stage.member, json!({"subnetpool_id": six, "prefixlen": 62})).await.expect(400).status, 400);
        for status in [201, 201, 409] {
            ask(&stage.member, json!({"subnetpool_id": six})).await.expect(status);
        }

        let project = made["project_id"].as_str().expect("an id").to_owned();
        let quota = format!("/network/v2.0/quotas/{project}");
        stage.admin.put(&quota, json!({"quota": {"subnetpool": 2}})).await.expect(200);
        let another = json!({"subnetpool": {"name": "c", "prefixes": ["10.0.0.0/8"]}});
        let refused = stage.member.post(POOLS, another).await.expect(409);
        assert_eq!(refused.message(), "Quota exceeded for resources: ['subnetpool'].");
        let used = stage.member.get(&format!("{quota}/details")).await.expect(200).body["quota"]["subnetpool"].clone();
        assert_eq!(used, json!({"limit": 2, "used": 2, "reserved": 0}));
    });
}

#[test]
fn subnets_that_are_made_at_once_get_different_blocks() {
    play_default(|stage| async move {
        let from = json!({"subnetpool_id": pool(&stage.member, json!({})).await["id"]});
        let mut networks = Vec::new();
        for _ in 0..6 {
            networks.push(id_of(&make(&stage.member, "networks", "network", json!({"name": "inside"})).await));
        }
        let creates = networks.iter().map(|network| ask_on(&stage.member, *network, from.clone()));
        let mut blocks: Vec<String> = futures::future::join_all(creates)
            .await
            .into_iter()
            .map(|answer| answer.expect(201).body["subnet"]["cidr"].to_string())
            .collect();
        blocks.sort();
        blocks.dedup();
        assert_eq!(blocks.len(), 6, "{blocks:?}");
    });
}

#[test]
fn several_pools_and_subnets_are_made_at_once_or_not_at_all() {
    play_default(|stage| async move {
        let pools =
            |second: &str| json!({"subnetpools": [{"name": "a", "prefixes": ["10.40.0.0/24"]}, {"name": "b", "prefixes": [second]}]});
        stage.member.post(POOLS, pools("nowhere")).await.expect(400);
        assert_eq!(stage.member.get(POOLS).await.expect(200).body["subnetpools"], json!([]));
        let made = stage.member.post(POOLS, pools("10.41.0.0/24")).await.expect(201).body["subnetpools"].clone();
        let network = id_of(&make(&stage.member, "networks", "network", json!({"name": "inside"})).await);
        let half = json!({"network_id": network, "subnetpool_id": made[0]["id"], "prefixlen": 25});
        let path = "/network/v2.0/subnets";
        stage.member.post(path, json!({"subnets": [half, half, half]})).await.expect(409);
        let two = stage.member.post(path, json!({"subnets": [half, half]})).await.expect(201).body["subnets"].clone();
        assert_eq!((&two[0]["cidr"], &two[1]["cidr"]), (&json!("10.40.0.0/25"), &json!("10.40.0.128/25")));
    });
}
