//! Tests of limits, quota sets and classes, and usage reports.

use std::collections::BTreeMap;

use actix_web::http::Method;
use chrono::TimeDelta;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Cloud, clouds, clouds_counting, fields};
use crate::chaos::borders::{Outage, Outages};
use crate::db::api::instance_mappings::MappingFilter;
use crate::db::api::operations::{NewSaga, Operations};
use crate::db::api::publications::NewServer;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::quota_grant::QuotaGrant;
use crate::domain::request_spec::RequestSpec;
use crate::http::compute::quota_usage::{Holder, INCOMPLETE, Room};
use crate::services::placement::{Allocations, Inventory, PlacementService};

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
        let groups = json!({"quota_class_set": {"server_groups": 7, "server_group_members": 8}});
        let (status, body) = cloud.put("admin", "2.49", class, groups).await;
        assert_eq!((status, body["quota_class_set"].get("server_groups")), (200, None), "taken, and not shown before 2.50");
        assert_eq!(cloud.get("admin", "2.50", class).await.1["quota_class_set"]["server_groups"], 7);
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
async fn counted_in_cells_a_server_in_two_of_them_is_one() {
    for cloud in clouds_counting(false).await {
        let (moved, still) = (cloud.accept_server(Some(0), false).await, cloud.accept_server(Some(0), false).await);
        cloud.add_server_as(0, "host1", "moving", true, moved).await;
        cloud.add_server_as(1, "host2", "moving", false, moved).await;
        cloud.add_server_as(0, "host1", "still", false, still).await;
        cloud.age_mappings().await;
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
        assert!(Room::of(&cloud.catalog, Holder { project: "demo", user: "alice" }).await.unwrap().check(&more(8)).is_ok());
        let refusal = Room::of(&cloud.catalog, Holder { project: "demo", user: "alice" }).await.unwrap().check(&more(9)).unwrap_err();
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
        for query in ["", "?start=", "?end=", "?detailed=1"] {
            assert_eq!(cloud.get("admin", "2.1", &format!("/os-simple-tenant-usage{query}")).await.0, 200, "{query}: an empty period");
            assert_eq!(cloud.get("member", "2.1", &format!("/os-simple-tenant-usage/demo{query}")).await.0, 200, "{query}");
        }
        let same = "2020-01-01T00:00:00";
        for query in [
            "?start=yesterday",
            "?start=2030-01-01T00:00:00&end=2020-01-01T00:00:00",
            "?end=2020-01-01T00:00:00",
            &format!("?start={same}&end={same}"),
        ] {
            assert_eq!(cloud.get("member", "2.1", &format!("/os-simple-tenant-usage/demo{query}")).await.0, 400, "{query}");
        }
        let (_, page) = cloud.get("admin", "2.40", &format!("/os-simple-tenant-usage?start={start}&limit=1")).await;
        assert!(page["tenant_usages_links"][0]["href"].as_str().unwrap().ends_with(&format!("marker={server}")));
    }
}

impl Cloud {
    /// Makes a server of alice's that was accepted, may have claimed its resources, and is mapped to a cell.
    async fn accept_server(&self, cell: Option<usize>, claims: bool) -> Uuid {
        let uuid = self.env.uuid();
        let flavor = Flavor { id: "1".into(), name: "small".into(), vcpus: 2, memory_mb: 512, root_gb: 10, ..Flavor::default() };
        let instance = Instance::new(uuid, "demo", "alice", "s", flavor.clone(), self.env.now());
        let request_spec = RequestSpec::new(uuid, "demo", "alice", flavor);
        let fence = Fence { server: uuid, epoch: 1, attempt: 1 };
        self.api
            .create_server(fence, NewServer { instance: InstanceBundle::new(instance), request_spec }, QuotaGrant::without_check("a test"))
            .await
            .unwrap();
        if let Some(cell) = cell {
            self.api.publish_build(fence, uuid, self.cells[cell].uuid).await.unwrap();
        }
        if claims {
            self.claim(uuid, "INSTANCE", 2, 512).await;
        }
        uuid
    }

    /// Removes the delete flag from the mappings of living servers, as an older release left them.
    async fn age_mappings(&self) {
        let age = |conn: &mut crate::db::Conn| {
            let sql = "UPDATE instance_mappings SET queued_for_delete = NULL WHERE queued_for_delete = false";
            Ok(diesel::connection::SimpleConnection::batch_execute(conn, sql)?)
        };
        self.api.db().write(age).await.unwrap();
    }

    async fn claim(&self, consumer: Uuid, kind: &str, vcpus: i64, memory_mb: i64) {
        let inventory = |total| Inventory { total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio: 1.0 };
        let stock = BTreeMap::from([("VCPU".to_owned(), inventory(100)), ("MEMORY_MB".to_owned(), inventory(100_000))]);
        let provider = Uuid::from_u128(77);
        self.placement.ensure_provider(provider, "roomy", stock, Vec::new()).await.unwrap();
        let amounts = BTreeMap::from([("VCPU".to_owned(), vcpus), ("MEMORY_MB".to_owned(), memory_mb)]);
        let claim = Allocations {
            consumer,
            consumer_generation: None,
            project_id: "demo".into(),
            user_id: "alice".into(),
            consumer_type: kind.into(),
            allocations: BTreeMap::from([(provider, amounts)]),
        };
        self.placement.replace_allocations(Fence { server: consumer, epoch: 1, attempt: 1 }, vec![claim]).await.unwrap();
    }

    /// Returns the body, and the cells missing from its figures.
    async fn get_and_missing(&self, token: &str, path: &str) -> (Value, Option<String>) {
        let (status, headers, body) = self.answer(token, "2.57", Method::GET, path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        (body, headers.get(INCOMPLETE).map(|cells| cells.to_str().unwrap().to_owned()))
    }

    /// Returns the used instances, cores and memory according to `/limits` and the quota's details, and the missing cells.
    async fn used(&self) -> ([i64; 3], Option<String>) {
        let (answer, missing) = self.get_and_missing("member", "/limits").await;
        let absolute = &answer["limits"]["absolute"];
        let used = ["totalInstancesUsed", "totalCoresUsed", "totalRAMUsed"].map(|name| absolute[name].as_i64().unwrap());
        let (detail, same) = self.get_and_missing("member", "/os-quota-sets/demo/detail").await;
        assert_eq!(["instances", "cores", "ram"].map(|name| detail["quota_set"][name]["in_use"].as_i64().unwrap()), used);
        assert_eq!(missing, same);
        (used, missing)
    }
}

#[actix_web::test]
async fn counted_from_placement_usage_is_whole_while_a_cell_is_down() {
    for cloud in clouds().await {
        cloud.accept_server(Some(0), true).await;
        let far = cloud.accept_server(Some(1), true).await;
        // If a server has claimed nothing yet, its build request says how much it will use.
        cloud.accept_server(None, false).await;
        cloud.accept_server(None, true).await;
        for cell in &cloud.cells {
            cell.db.db().set_outage(Outage::Refuses);
        }
        assert_eq!(cloud.used().await, ([4, 8, 2048], None));
        // Until a move is confirmed, both its sides count.
        let operations = Operations::new(cloud.api.db().clone());
        let moved = cloud.env.uuid();
        operations.begin(NewSaga::new(moved, far, ("resize", 1), "accept", "{}".into(), "me")).await.unwrap();
        cloud.claim(moved, "MIGRATION", 1, 256).await;
        assert_eq!(cloud.used().await, ([4, 9, 2304], None));
        // After its delete is accepted, neither a server nor its move counts.
        cloud.api.set_queued_for_delete(far, true).await.unwrap();
        assert_eq!(cloud.used().await, ([3, 6, 1536], None));
        operations.release(moved, 1).await.unwrap();
        cloud.api.queue_delete(far, RequestContext::default()).await.unwrap();
        assert_eq!(cloud.used().await, ([3, 6, 1536], None));
        let (_, of_user) = cloud.get("member", "2.57", "/os-quota-sets/demo/detail?user_id=bob").await;
        assert_eq!(of_user["quota_set"]["cores"]["in_use"], 0);
    }
}

#[actix_web::test]
async fn counted_in_cells_usage_names_the_cells_that_are_missing() {
    for cloud in clouds_counting(false).await {
        for cell in 0..2 {
            let server = cloud.accept_server(Some(cell), true).await;
            cloud.add_server_as(cell, ["host1", "host2"][cell], "s", false, server).await;
        }
        let gone = cloud.accept_server(Some(1), false).await;
        cloud.api.set_queued_for_delete(gone, true).await.unwrap();
        cloud.age_mappings().await;
        assert_eq!(cloud.used().await, ([2, 4, 1024], None));
        let usage = "/os-simple-tenant-usage/demo?start=2000-01-01T00:00:00";
        cloud.cells[1].db.db().set_outage(Outage::Refuses);
        assert_eq!(cloud.used().await, ([1, 2, 512], Some("cell2".to_owned())));
        let (_, missing) = cloud.get_and_missing("member", usage).await;
        assert_eq!(missing.as_deref(), Some("cell2"));
        let (_, missing) = cloud.get_and_missing("admin", "/os-simple-tenant-usage?start=2000-01-01T00:00:00").await;
        assert_eq!(missing.as_deref(), Some("cell2"));
        // A project without servers in the silent cell gets complete figures.
        let (_, missing) = cloud.get_and_missing("other", "/limits").await;
        assert_eq!(missing, None);
        for mapping in cloud.api.instance_mappings(MappingFilter::default()).await.unwrap() {
            cloud.api.set_queued_for_delete(mapping.instance_uuid, true).await.unwrap();
        }
        let operations = Operations::new(cloud.api.db().clone());
        assert!(operations.held_servers().await.unwrap().is_empty());
        assert_eq!(cloud.used().await.1, None, "what is queued for delete is missed by nobody");
        let (_, missing) = cloud.get_and_missing("member", usage).await;
        assert_eq!(missing.as_deref(), Some("cell2"), "but what it used until then is");
    }
}

#[actix_web::test]
async fn mappings_that_say_too_little_are_not_counted_on() {
    for cloud in clouds().await {
        let server = cloud.accept_server(Some(1), true).await;
        assert_eq!(cloud.used().await, ([1, 2, 512], None));
        for column in ["queued_for_delete", "user_id"] {
            let sql = format!("UPDATE instance_mappings SET {column} = NULL WHERE instance_uuid = '{server}'");
            let run = move |conn: &mut crate::db::Conn| Ok(diesel::connection::SimpleConnection::batch_execute(conn, &sql)?);
            cloud.api.db().write(run).await.unwrap();
            cloud.cells[1].db.db().set_outage(Outage::Refuses);
            let unknown = cloud.used().await;
            assert_eq!(unknown, ([0, 0, 0], Some("cell2".to_owned())), "{column}: it is counted in the cells");
            cloud.cells[1].db.db().set_outage(Outage::None);
            cloud.cells[1].health.learn(&Ok(()));
            cloud.api.fill_in_flags(vec![server], Default::default()).await.unwrap();
            cloud.api.fill_in_users(BTreeMap::from([(server, "alice".to_owned())])).await.unwrap();
            assert_eq!(cloud.used().await, ([1, 2, 512], None));
        }
    }
}
