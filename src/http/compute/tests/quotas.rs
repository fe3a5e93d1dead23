//! Limits, quota sets and classes, and reports of usage.

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{clouds, fields};
use crate::http::compute::quota_usage::Room;

#[actix_web::test]
async fn quotas_are_set_shown_and_forgotten() {
    for cloud in clouds().await {
        let path = "/os-quota-sets/demo";
        let (_, shown) = cloud.get("member", "2.1", path).await;
        assert_eq!(
            (&shown["quota_set"]["id"], &shown["quota_set"]["cores"], fields(&shown["quota_set"]).len()),
            (&json!("demo"), &json!(20), 15)
        );
        assert_eq!(
            fields(&cloud.get("member", "2.57", path).await.1["quota_set"]),
            ["cores", "id", "instances", "key_pairs", "metadata_items", "ram", "server_group_members", "server_groups"]
        );
        let (status, body) = cloud.put("admin", "2.56", path, json!({"quota_set": {"instances": "3", "ram": -1}})).await;
        assert_eq!((status, &body["quota_set"]["instances"], &body["quota_set"]["ram"]), (200, &json!(3), &json!(-1)));
        assert!(body["quota_set"].get("id").is_none());
        for wrong in
            [json!({"instances": -2}), json!({"instances": "-2"}), json!({"instances": "x"}), json!({"color": 1}), json!({"fixed_ips": 1})]
        {
            assert_eq!(cloud.put("admin", "2.36", path, json!({"quota_set": wrong.clone()})).await.0, 400, "{wrong}");
        }
        assert_eq!(cloud.put("member", "2.56", path, json!({"quota_set": {"instances": 100}})).await.0, 403);

        let user = "/os-quota-sets/demo?user_id=alice";
        assert_eq!(cloud.put("admin", "2.56", user, json!({"quota_set": {"instances": 4}})).await.0, 400, "more than the project's");
        assert_eq!(cloud.put("admin", "2.56", user, json!({"quota_set": {"instances": 2}})).await.1["quota_set"]["instances"], 2);
        assert_eq!(cloud.get("admin", "2.56", path).await.1["quota_set"]["instances"], 3);

        let class = "/os-quota-class-sets/default";
        let (status, body) = cloud.put("admin", "2.50", class, json!({"quota_class_set": {"cores": 30, "instances": 40}})).await;
        assert_eq!((status, &body["quota_class_set"]["cores"]), (200, &json!(30)));
        assert_eq!(cloud.get("admin", "2.1", class).await.1["quota_class_set"].get("server_groups"), None);
        assert_eq!(cloud.get("admin", "2.50", class).await.1["quota_class_set"]["id"], "default");
        let (_, shown) = cloud.get("member", "2.57", path).await;
        assert_eq!((&shown["quota_set"]["cores"], &shown["quota_set"]["instances"]), (&json!(30), &json!(3)));
        assert_eq!(cloud.get("member", "2.57", &format!("{path}/defaults")).await.1["quota_set"]["instances"], 40);

        assert_eq!(cloud.delete("admin", "2.1", path).await, (202, Value::Null));
        assert_eq!(cloud.get("member", "2.57", path).await.1["quota_set"]["instances"], 40);
        assert_eq!(cloud.get("admin", "2.57", user).await.1["quota_set"]["instances"], 40);
    }
}

#[actix_web::test]
async fn usage_counts_a_server_in_two_cells_once() {
    for cloud in clouds().await {
        let moved = cloud.add_server(0, "host1", "moving", true).await;
        cloud.add_server_as(1, "host2", "moving", false, moved).await;
        cloud.add_server(0, "host1", "still", false).await;
        let (_, detail) = cloud.get("member", "2.57", "/os-quota-sets/demo/detail").await;
        assert_eq!(detail["quota_set"]["instances"], json!({"limit": 10, "in_use": 2, "reserved": 0}));
        assert_eq!(detail["quota_set"]["cores"]["in_use"], 4);
        let (_, limits) = cloud.get("member", "2.57", "/limits?reserved=1").await;
        let absolute = &limits["limits"]["absolute"];
        assert_eq!(limits["limits"]["rate"], json!([]));
        assert_eq!(
            (&absolute["totalInstancesUsed"], &absolute["totalRAMUsed"], &absolute["maxTotalInstances"]),
            (&json!(2), &json!(1024), &json!(10))
        );
        assert_eq!(
            fields(absolute),
            [
                "maxServerGroupMembers",
                "maxServerGroups",
                "maxServerMeta",
                "maxTotalCores",
                "maxTotalInstances",
                "maxTotalKeypairs",
                "maxTotalRAMSize",
                "totalCoresUsed",
                "totalInstancesUsed",
                "totalRAMUsed",
                "totalServerGroupsUsed"
            ]
        );
        assert_eq!(fields(&cloud.get("member", "2.1", "/limits").await.1["limits"]["absolute"]).len(), 19);
        let more = |count| [("instances", count), ("cores", 2 * count), ("ram", 512 * count)];
        assert!(Room::of(&cloud.catalog, "demo").await.unwrap().check(&more(8)).is_ok());
        let refusal = Room::of(&cloud.catalog, "demo").await.unwrap().check(&more(9)).unwrap_err();
        assert_eq!(
            refusal.message,
            "Quota exceeded for instances, cores: Requested 9, 18, but already used 2, 4 of 10, 20 instances, cores"
        );
        let few = json!({"quota_set": {"instances": 1}});
        assert_eq!(cloud.put("admin", "2.57", "/os-quota-sets/demo", few).await.0, 400, "two are in use");
        let few = json!({"quota_set": {"instances": 1, "force": true}});
        assert_eq!(cloud.put("admin", "2.57", "/os-quota-sets/demo", few).await.0, 200);
    }
}

#[actix_web::test]
async fn usage_over_time_is_true() {
    for cloud in clouds().await {
        let server = cloud.add_server(0, "host1", "s", false).await;
        let start = (cloud.env.now() - TimeDelta::hours(1)).format("%Y-%m-%dT%H:%M:%S").to_string();
        let end = (cloud.env.now() + TimeDelta::hours(1)).format("%Y-%m-%dT%H:%M:%S").to_string();
        let (status, body) = cloud.get("member", "2.40", &format!("/os-simple-tenant-usage/demo?start={start}&end={end}")).await;
        let usage = &body["tenant_usage"];
        assert_eq!((status, &usage["tenant_id"], &usage["server_usages"][0]["instance_id"]), (200, &json!("demo"), &json!(server)));
        let hours = usage["total_hours"].as_f64().unwrap();
        assert!((0.0..0.1).contains(&hours), "only since it was launched: {hours}");
        assert_eq!(usage["total_vcpus_usage"].as_f64().unwrap(), hours * 2.0);
        assert_eq!(usage["server_usages"][0]["state"], "active");
        let (_, all) = cloud.get("admin", "2.1", &format!("/os-simple-tenant-usage?start={start}&end={end}")).await;
        assert_eq!(all["tenant_usages"][0]["tenant_id"], "demo");
        assert!(all["tenant_usages"][0].get("server_usages").is_none());
        assert_eq!(
            cloud.get("member", "2.1", "/os-simple-tenant-usage/demo?start=2000-01-01T00:00:00&end=2000-01-02T00:00:00").await.1,
            json!({"tenant_usage": {}})
        );
        for query in ["?start=yesterday", "?start=2030-01-01T00:00:00&end=2020-01-01T00:00:00", "?start="] {
            assert_eq!(cloud.get("member", "2.1", &format!("/os-simple-tenant-usage/demo{query}")).await.0, 400, "{query}");
        }
        let (_, page) = cloud.get("admin", "2.40", &format!("/os-simple-tenant-usage?start={start}&limit=1")).await;
        assert!(page["tenant_usages_links"][0]["href"].as_str().unwrap().ends_with(&format!("marker={server}")));
    }
}
