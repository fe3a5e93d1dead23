//! Tests of `/os-migrations`: a move between two cells is listed once, by its newest record.

use chrono::TimeDelta;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Cloud, clouds, column, fields};
use crate::db::cell::CellTxn;
use crate::db::cell::fixture::change_migration;
use crate::domain::fence::Fence;
use crate::domain::migration::{Migration, MigrationChange, MigrationStatus, MigrationType};

async fn record(cloud: &Cloud, cell: usize, uuid: Uuid, server: Uuid, age_s: i64, project: &str) {
    let migration = Migration {
        source_compute: "host1".into(),
        source_node: "host1".into(),
        old_flavor_id: "1".into(),
        new_flavor_id: "2".into(),
        old_instance_type_id: 11,
        new_instance_type_id: 12,
        cross_cell_move: true,
        user_id: "alice".into(),
        project_id: project.into(),
        ..Migration::new(uuid, server, MigrationType::Resize, cloud.env.now() - TimeDelta::seconds(age_s))
    };
    let fence = Fence { server, epoch: 1, attempt: 1 };
    cloud.cells[cell].db.apply(fence, CellTxn::new().create_migration(migration)).await.unwrap();
}

async fn change(cloud: &Cloud, cell: usize, uuid: Uuid, server: Uuid, status: MigrationStatus, dest: Option<&str>) {
    let mut change = MigrationChange::status(status);
    change.dest_compute = dest.map(|host| Some(host.to_owned()));
    change_migration(&cloud.cells[cell].db, Fence { server, epoch: 1, attempt: 1 }, uuid, change).await;
}

async fn listed(cloud: &Cloud, token: &str, version: &str, query: &str) -> Vec<Value> {
    let (status, body) = cloud.get(token, version, &format!("/os-migrations{query}")).await;
    assert_eq!(status, 200, "{query}: {body}");
    body["migrations"].as_array().unwrap().clone()
}

#[actix_web::test]
async fn a_cross_cell_move_is_listed_once_by_its_newest_record() {
    for cloud in clouds().await {
        let (uuid, server) = (cloud.env.uuid(), cloud.env.uuid());
        record(&cloud, 0, uuid, server, 60, "demo").await;
        record(&cloud, 1, uuid, server, 60, "demo").await;
        change(&cloud, 0, uuid, server, MigrationStatus::PostMigrating, Some("host2")).await;
        change(&cloud, 1, uuid, server, MigrationStatus::Finished, Some("host2")).await;
        for version in ["2.1", "2.23", "2.59", "2.80"] {
            let listed_now = listed(&cloud, "admin", version, "").await;
            assert_eq!(column(&json!(listed_now), "/status"), [json!("finished")], "{version}");
        }
        assert!(listed(&cloud, "admin", "2.59", "?status=post-migrating").await.is_empty(), "the stale half is not found by its status");
        assert_eq!(listed(&cloud, "admin", "2.59", "?status=finished&host=host2").await.len(), 1);
        assert_eq!(listed(&cloud, "admin", "2.59", &format!("?instance_uuid={server}&migration_type=resize")).await.len(), 1);
        assert!(listed(&cloud, "admin", "2.59", "?migration_type=evacuation").await.is_empty());
        assert!(listed(&cloud, "admin", "2.59", "?source_compute=host2").await.is_empty());
        assert!(listed(&cloud, "admin", "2.59", "?hidden=true").await.is_empty());
        let soon = (cloud.env.now() + TimeDelta::hours(1)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
        assert!(listed(&cloud, "admin", "2.59", &format!("?changes-since={soon}")).await.is_empty());
        assert_eq!(listed(&cloud, "admin", "2.66", &format!("?changes-before={soon}")).await.len(), 1);
        assert_eq!(listed(&cloud, "admin", "2.1", "?changes-since=whenever").await.len(), 1, "not a filter before 2.59");
    }
}

#[actix_web::test]
async fn each_version_has_its_fields_filters_and_pages() {
    for cloud in clouds().await {
        let ids: Vec<Uuid> = (0..3).map(|_| cloud.env.uuid()).collect();
        for (age, uuid) in ids.iter().enumerate() {
            record(&cloud, age % 2, *uuid, cloud.env.uuid(), age as i64 * 10, "demo").await;
        }
        let old = [
            "created_at",
            "dest_compute",
            "dest_host",
            "dest_node",
            "id",
            "instance_uuid",
            "new_instance_type_id",
            "old_instance_type_id",
            "source_compute",
            "source_node",
            "status",
            "updated_at",
        ];
        let with = |more: &[&'static str]| {
            let mut all = [old.as_slice(), more].concat();
            all.sort_unstable();
            all
        };
        for (version, expected) in [
            ("2.1", with(&[])),
            ("2.23", with(&["migration_type"])),
            ("2.59", with(&["migration_type", "uuid"])),
            ("2.80", with(&["migration_type", "project_id", "user_id", "uuid"])),
        ] {
            assert_eq!(fields(&listed(&cloud, "admin", version, "").await[0]), expected, "{version}");
        }
        let (_, page) = cloud.get("admin", "2.59", "/os-migrations?limit=2").await;
        assert_eq!(column(&page["migrations"], "/uuid"), [json!(ids[0]), json!(ids[1])], "newest first");
        let next = page["migrations_links"][0]["href"].as_str().unwrap();
        assert!(next.ends_with(&format!("/compute/v2.1/os-migrations?limit=2&marker={}", ids[1])));
        assert_eq!(column(&json!(listed(&cloud, "admin", "2.59", &format!("?marker={}", ids[1])).await), "/uuid"), [json!(ids[2])]);
        assert_eq!(cloud.get("admin", "2.59", "/os-migrations?limit=0").await, (200, json!({"migrations": []})));
        for (version, query) in [
            ("2.59", "?color=red"),
            ("2.59", "?changes-before=2020-01-01T00:00:00Z"),
            ("2.66", "?project_id=demo"),
            ("2.66", "?changes-since=2020-01-02T00:00:00Z&changes-before=2020-01-01T00:00:00Z"),
            ("2.59", "?changes-since=whenever"),
            ("2.59", "?instance_uuid=x"),
            ("2.59", "?marker=3f6e9c3e-0000-4000-8000-000000000000"),
        ] {
            assert_eq!(cloud.get("admin", version, &format!("/os-migrations{query}")).await.0, 400, "{version} {query}");
        }
        assert_eq!(listed(&cloud, "admin", "2.1", "?color=red").await.len(), 3);
    }
}

#[actix_web::test]
async fn a_manager_sees_the_own_project_without_hosts() {
    for cloud in clouds().await {
        record(&cloud, 0, cloud.env.uuid(), cloud.env.uuid(), 0, "demo").await;
        record(&cloud, 1, cloud.env.uuid(), cloud.env.uuid(), 0, "elsewhere").await;
        assert_eq!(cloud.get("manager", "2.80", "/os-migrations").await.0, 403);
        assert_eq!(cloud.get("manager", "2.80", "/os-migrations?project_id=elsewhere").await.0, 403);
        assert_eq!(cloud.get("member", "2.80", "/os-migrations?project_id=demo").await.0, 403);
        let own = listed(&cloud, "manager", "2.80", "?project_id=demo").await;
        assert_eq!(own.len(), 1);
        assert_eq!(
            (&own[0]["source_compute"], &own[0]["source_node"], &own[0]["project_id"]),
            (&Value::Null, &Value::Null, &json!("demo"))
        );
        assert_eq!(listed(&cloud, "admin", "2.80", "?user_id=alice").await.len(), 2);
    }
}
