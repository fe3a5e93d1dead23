//! The volume service as administrators see and set it: its processes and hosts, and default quotas.

use serde_json::{Value, json};

use crate::stage::{Stage, play_default};

const SERVICES: &str = "/volume/v3/os-services";

async fn services(stage: &Stage, query: &str) -> Vec<Value> {
    stage.admin.get(&format!("{SERVICES}{query}")).await.expect(200).body["services"].as_array().cloned().expect("services")
}

async fn set(stage: &Stage, action: &str, body: Value, status: u16) -> Value {
    stage.admin.put(&format!("{SERVICES}/{action}"), body).await.expect(status).body
}

/// Makes a volume, and returns its status at the end.
async fn made(stage: &Stage) -> Value {
    let body = stage.member.post("/volume/v3/volumes", json!({"volume": {"size": 1}})).await.expect(202).body;
    let path = format!("/volume/v3/volumes/{}", body["volume"]["id"].as_str().expect("an id"));
    let status = || async { stage.member.get(&path).await.expect(200).body["volume"]["status"].clone() };
    stage.until("the volume is made or not", || async { status().await != "creating" }).await;
    status().await
}

#[test]
fn a_disabled_service_makes_no_volumes() {
    play_default(|stage| async move {
        let binaries = |list: Vec<Value>| list.iter().map(|one| one["binary"].as_str().expect("a binary").to_owned()).collect::<Vec<_>>();
        assert_eq!(binaries(services(&stage, "?host=cellshift").await), ["cinder-scheduler", "cinder-volume"]);
        assert_eq!(binaries(services(&stage, "?host=cellshift%40local").await), ["cinder-volume"]);
        assert_eq!(binaries(services(&stage, "?host=cellshift&binary=cinder-volume").await), ["cinder-volume"]);
        assert!(services(&stage, "?host=elsewhere").await.is_empty());

        let volumes = json!({"host": "cellshift@local", "binary": "cinder-volume"});
        let with_reason = |reason: Value| json!({"host": "cellshift@local", "binary": "cinder-volume", "disabled_reason": reason});
        for wrong in [with_reason(Value::Null), with_reason(json!("")), with_reason(json!("r".repeat(256))), volumes.clone()] {
            set(&stage, "disable-log-reason", wrong, 400).await;
        }
        set(&stage, "disable", json!({"host": "elsewhere", "binary": "cinder-volume"}), 404).await;
        set(&stage, "disable", json!({"host": "cellshift@local"}), 400).await;
        set(&stage, "enable", json!({"host": "cellshift@local", "binary": "no-binary"}), 404).await;
        set(&stage, "failover_host", json!({"host": "cellshift@local"}), 404).await;
        stage.member.put(&format!("{SERVICES}/disable"), volumes.clone()).await.expect(403);

        let service = set(&stage, "disable-log-reason", with_reason(json!("new disks")), 200).await;
        assert_eq!((&service["status"], &service["disabled_reason"]), (&json!("disabled"), &json!("new disks")));
        let shown = services(&stage, "?binary=cinder-volume").await;
        assert_eq!((&shown[0]["status"], &shown[0]["disabled_reason"]), (&json!("disabled"), &json!("new disks")));
        assert_eq!(made(&stage).await, "error");
        stage.admin.get("/volume/v3/os-hosts/cellshift@local").await.expect(404);
        set(&stage, "enable", volumes, 200).await;
        assert_eq!(made(&stage).await, "available");
    });
}

#[test]
fn a_frozen_backend_makes_no_volumes_until_it_is_thawed() {
    play_default(|stage| async move {
        let host = || json!({"host": "cellshift@local"});
        set(&stage, "freeze", json!({"host": "elsewhere"}), 400).await;
        set(&stage, "thaw", host(), 400).await;
        set(&stage, "freeze", host(), 200).await;
        set(&stage, "freeze", host(), 400).await;
        let shown = services(&stage, "?binary=cinder-volume").await;
        assert_eq!((&shown[0]["frozen"], &shown[0]["disabled_reason"]), (&json!(true), &json!("frozen")));
        assert_eq!(made(&stage).await, "error");
        set(&stage, "thaw", host(), 200).await;
        assert_eq!(made(&stage).await, "available");
        stage.member.put(&format!("{SERVICES}/freeze"), host()).await.expect(403);
    });
}

#[test]
fn hosts_tell_what_projects_have_on_them() {
    play_default(|stage| async move {
        stage.member.make_volume_with(json!({"size": 2})).await;
        let hosts = stage.admin.get("/volume/v3/os-hosts").await.expect(200).body;
        assert_eq!(hosts["hosts"].as_array().map(Vec::len), Some(2));
        let shown = stage.admin.get("/volume/v3/os-hosts/cellshift@local").await.expect(200).body;
        let (total, of_project) = (&shown["host"][0]["resource"], &shown["host"][1]["resource"]);
        assert_eq!((&total["project"], &total["volume_count"], &total["total_volume_gb"]), (&json!("(total)"), &json!("1"), &json!("2")));
        assert_eq!((&of_project["snapshot_count"], &of_project["total_volume_gb"]), (&json!("0"), &json!("2")));
        stage.admin.get("/volume/v3/os-hosts/cellshift").await.expect(404);
        stage.member.get("/volume/v3/os-hosts").await.expect(403);
        let extensions = stage.member.get("/volume/v3/extensions").await.expect(200).body;
        assert!(extensions["extensions"].as_array().expect("extensions").iter().any(|one| one["name"] == "Hosts"));
    });
}

#[test]
fn the_default_class_limits_projects_without_own_quotas() {
    play_default(|stage| async move {
        let (admin, class) = (&stage.admin, "/volume/v3/os-quota-class-sets/default");
        assert_eq!(admin.get(class).await.expect(200).body["quota_class_set"]["volumes_local"], -1);
        admin.get("/volume/v3/os-quota-class-sets/other").await.expect(404);
        for wrong in [json!({}), json!({"quota_class_set": {"strange": 1}}), json!({"quota_class_set": {"volumes": -2}})] {
            admin.put(class, wrong).await.expect(400);
        }
        let request = json!({"quota_class_set": {"volumes_local": 1, "per_volume_gigabytes": 2}});
        let set = admin.put(class, request.clone()).await.expect(200).body;
        assert_eq!((&set["quota_class_set"]["volumes_local"], &set["quota_class_set"]["id"]), (&json!(1), &Value::Null));
        stage.member.put(class, request).await.expect(403);

        let member = &stage.member;
        let volume = |fields: Value| async move { member.post("/volume/v3/volumes", json!({"volume": fields})).await };
        let large = volume(json!({"size": 3})).await.expect(400);
        assert!(large.message().contains("maximum allowed limit 2G"), "{}", large.text);
        let first = stage.member.make_volume_with(json!({"size": 1})).await;
        let second = volume(json!({"size": 1})).await.expect(413);
        assert!(second.message().contains("volumes_local"), "{}", second.text);
        volume(json!({"size": 1, "volume_type": "local-multiattach"})).await.expect(202);
        let extend = json!({"os-extend": {"new_size": 3}});
        stage.member.post(&format!("/volume/v3/volumes/{first}/action"), extend).await.expect(400);

        let project = stage.member.get(&format!("/volume/v3/volumes/{first}")).await.body["volume"]["os-vol-tenant-attr:tenant_id"].clone();
        let own = format!("/volume/v3/os-quota-sets/{}", project.as_str().expect("a project"));
        assert_eq!(admin.get(&format!("{own}/defaults")).await.expect(200).body["quota_set"]["volumes_local"], 1);
        let set = admin.put(&own, json!({"quota_set": {"volumes_local": 2, "per_volume_gigabytes": 9}})).await.expect(200).body;
        assert_eq!((&set["quota_set"]["volumes_local"], &set["quota_set"]["per_volume_gigabytes"]), (&json!(2), &json!(9)));
        volume(json!({"size": 1})).await.expect(202);
        let used = admin.get(&format!("{own}?usage=True")).await.expect(200).body;
        assert_eq!(used["quota_set"]["volumes_local"], json!({"limit": 2, "in_use": 2, "reserved": 0, "allocated": 0}));

        let types = admin.get("/volume/v3/types").await.body["volume_types"].clone();
        let shared =
            types.as_array().expect("types").iter().find(|one| one["name"] == "local-multiattach").expect("the type")["id"].clone();
        admin.put(&own, json!({"quota_set": {"volumes_local-multiattach": 5}})).await.expect(200);
        let path = format!("/volume/v3/types/{}", shared.as_str().expect("an id"));
        admin.put(&path, json!({"volume_type": {"name": "shared"}})).await.expect(200);
        let renamed = admin.get(&own).await.expect(200).body["quota_set"].clone();
        assert_eq!((&renamed["volumes_shared"], &renamed["volumes_local-multiattach"]), (&json!(5), &Value::Null));
    });
}

#[test]
fn a_volume_that_no_backend_can_make_leaves_a_message() {
    play_default(|stage| async move {
        let specs = json!({"vendor_name": "nobody"});
        stage.admin.post("/volume/v3/types", json!({"volume_type": {"name": "odd", "extra_specs": specs}})).await.expect(200);
        let fit = json!({"capabilities:vendor_name": "cellshift", "colour": "blue"});
        stage.admin.post("/volume/v3/types", json!({"volume_type": {"name": "fit", "extra_specs": fit}})).await.expect(200);
        stage.member.make_volume_with(json!({"size": 1, "volume_type": "fit"})).await;
        let body = stage.member.post("/volume/v3/volumes", json!({"volume": {"size": 1, "volume_type": "odd"}})).await.expect(202).body;
        let volume = &body["volume"]["id"];
        let path = format!("/volume/v3/volumes/{}", volume.as_str().expect("an id"));
        let failed = || async { stage.member.get(&path).await.expect(200).body["volume"]["status"] == "error" };
        stage.until("the volume is not made", failed).await;

        stage.member.get("/volume/v3/messages").await.expect(404);
        let (member, admin) = (stage.member.speaking("volume 3.3"), stage.admin.speaking("volume 3.3"));
        let messages = member.get("/volume/v3/messages").await.expect(200).body["messages"].clone();
        assert_eq!((messages.as_array().map(Vec::len), &messages[0]["resource_uuid"]), (Some(1), volume));
        let one = format!("/volume/v3/messages/{}", messages[0]["id"].as_str().expect("an id"));
        let shown = member.get(&one).await.expect(200).body["message"].clone();
        assert!(shown["user_message"].as_str().expect("a text").contains("Could not find any available weighted backend"), "{shown}");
        assert!(shown["request_id"].as_str().expect("a request").starts_with("req-"), "{shown}");
        stage.user("eve", "elsewhere", "member").await.speaking("volume 3.3").get(&one).await.expect(404);
        admin.get(&one).await.expect(200);
        member.delete(&one).await.expect(204);
        member.delete(&one).await.expect(404);
    });
}
