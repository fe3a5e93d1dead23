//! Volumes that users reserve, attach and detach through the volume API, beside the compute service.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::User;
use crate::stage::play_default;

async fn shown(user: &User, volume: Uuid) -> Value {
    user.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body["volume"].clone()
}

async fn status(user: &User, volume: Uuid) -> Value {
    shown(user, volume).await["status"].clone()
}

async fn act(user: &User, volume: Uuid, action: Value, status: u16) -> String {
    user.post(&format!("/volume/v3/volumes/{volume}/action"), action).await.expect(status).text
}

/// Returns the attachments that the volume shows.
async fn attachments(user: &User, volume: Uuid) -> Vec<Value> {
    shown(user, volume).await["attachments"].as_array().cloned().expect("attachments")
}

#[test]
fn a_user_reserves_attaches_and_detaches_a_volume() {
    play_default(|stage| async move {
        let (demo, volume, server) = (&stage.member, stage.member.make_volume().await, Uuid::from_u128(7));
        act(demo, volume, json!({"os-reserve": null}), 202).await;
        assert_eq!(status(demo, volume).await, "attaching");
        let twice = act(demo, volume, json!({"os-reserve": null}), 400).await;
        assert!(twice.contains("the status is attaching"), "{twice}");
        let real = stage.create(stage.server()).await;
        demo.attach(real, volume).await.expect(400);
        act(demo, volume, json!({"os-unreserve": null}), 202).await;
        assert_eq!(status(demo, volume).await, "available");

        let attach = json!({"os-attach": {"instance_uuid": server, "mountpoint": "/dev/vdb"}});
        act(demo, volume, attach.clone(), 202).await;
        act(demo, volume, attach, 202).await;
        let held = shown(demo, volume).await;
        assert_eq!((&held["status"], &held["metadata"]), (&json!("in-use"), &json!({"attached_mode": "rw", "readonly": "False"})));
        let list = attachments(demo, volume).await;
        assert_eq!((list.len(), &list[0]["server_id"], &list[0]["device"]), (1, &json!(server), &json!("/dev/vdb")));
        let attachment = &list[0]["attachment_id"];
        let one = demo
            .speaking("volume 3.27")
            .get(&format!("/volume/v3/attachments/{}", attachment.as_str().expect("an id")))
            .await
            .expect(200)
            .body;
        assert_eq!((&one["attachment"]["instance"], &one["attachment"]["status"]), (&json!(server), &json!("attached")));

        demo.delete(&format!("/volume/v3/volumes/{volume}")).await.expect(400);
        act(&stage.admin, volume, json!({"os-force_delete": {}}), 400).await;
        act(demo, volume, json!({"os-attach": {"host_name": "h1", "mountpoint": "/dev/vdb"}}), 400).await;
        demo.attach(real, volume).await.expect(400);
        act(demo, volume, json!({"os-begin_detaching": null}), 202).await;
        assert_eq!(status(demo, volume).await, "detaching");
        act(demo, volume, json!({"os-roll_detaching": null}), 202).await;
        assert_eq!(status(demo, volume).await, "in-use");
        act(demo, volume, json!({"os-detach": {"attachment_id": Uuid::nil()}}), 404).await;
        act(demo, volume, json!({"os-detach": {"attachment_id": attachment}}), 202).await;
        let free = shown(demo, volume).await;
        assert_eq!(
            (&free["status"], &free["metadata"], &free["attachments"]),
            (&json!("available"), &json!({"readonly": "False"}), &json!([]))
        );
        act(demo, volume, json!({"os-begin_detaching": null}), 400).await;
        demo.delete(&format!("/volume/v3/volumes/{volume}")).await.expect(202);
    });
}

#[test]
fn what_the_compute_service_attached_is_detached_by_it_alone() {
    play_default(|stage| async move {
        let (demo, volume) = (&stage.member, stage.member.make_volume().await);
        let server = stage.create(stage.server()).await;
        demo.attach(server, volume).await.expect(200);
        stage.ended(server).await;
        let list = attachments(demo, volume).await;
        let attachment = &list[0]["attachment_id"];
        for action in [
            json!({"os-detach": null}),
            json!({"os-detach": {"attachment_id": attachment}}),
            json!({"os-force_detach": {"connector": null, "attachment_id": attachment}}),
            json!({"os-begin_detaching": null}),
            json!({"os-reset_status": {"attach_status": "detached"}}),
        ] {
            let refused = act(&stage.admin, volume, action, 409).await;
            assert!(refused.contains("using the Compute API") && refused.contains(&server.to_string()), "{refused}");
        }
        act(demo, volume, json!({"os-unreserve": null}), 202).await;
        act(demo, volume, json!({"os-attach": {"instance_uuid": server, "mountpoint": "/dev/vdb"}}), 202).await;
        act(demo, volume, json!({"os-attach": {"host_name": "h1", "mountpoint": "/dev/vdb"}}), 400).await;
        assert_eq!((attachments(demo, volume).await, status(demo, volume).await), (list.clone(), json!("in-use")));
        demo.detach(server, volume).await.expect(202);
        stage.until("the volume is free", || async { status(demo, volume).await == "available" }).await;
    });
}

#[test]
fn an_operator_helps_after_an_accident() {
    play_default(|stage| async move {
        let (demo, admin, volume) = (&stage.member, &stage.admin, stage.member.make_volume().await);
        let reset = |what: Value| json!({"os-reset_status": what});
        act(demo, volume, reset(json!({"status": "error"})), 403).await;
        for wrong in [
            json!({}),
            json!({"status": "strange"}),
            json!({"status": "deleting"}),
            json!({"status": "in-use"}),
            json!({"attach_status": "attached"}),
            json!({"attach_status": "half"}),
            json!({"migration_status": "half"}),
            json!({"status": "error", "more": 1}),
        ] {
            act(admin, volume, reset(wrong), 400).await;
        }
        act(admin, volume, reset(json!({"status": "Maintenance", "migration_status": "migrating"})), 202).await;
        let record = shown(admin, volume).await;
        let migration = (&record["migration_status"], &record["os-vol-mig-status-attr:migstat"]);
        assert_eq!((&record["status"], migration), (&json!("maintenance"), (&json!("migrating"), &json!("migrating"))));
        act(demo, volume, json!({"os-attach": {"host_name": "h1", "mountpoint": "/dev/vdb"}}), 400).await;
        act(admin, volume, reset(json!({"status": "available", "migration_status": "none"})), 202).await;
        assert_eq!(shown(admin, volume).await["migration_status"], Value::Null);

        act(demo, volume, json!({"os-attach": {"host_name": "h1", "mountpoint": "/dev/vdb", "mode": "ro"}}), 202).await;
        act(admin, volume, reset(json!({"status": "error"})), 202).await;
        act(demo, volume, json!({"os-force_detach": {"connector": null}}), 403).await;
        let attachment = attachments(demo, volume).await[0]["attachment_id"].clone();
        act(admin, volume, json!({"os-force_detach": {"connector": null, "attachment_id": attachment}}), 202).await;
        assert_eq!((status(demo, volume).await, attachments(demo, volume).await), (json!("available"), vec![]));

        act(demo, volume, json!({"os-attach": {"host_name": "h1", "mountpoint": "/dev/vdb"}}), 202).await;
        act(admin, volume, reset(json!({"status": "available", "attach_status": "detached"})), 202).await;
        assert_eq!((status(demo, volume).await, attachments(demo, volume).await), (json!("available"), vec![]));
    });
}

#[test]
fn a_read_only_volume_is_attached_for_reading() {
    play_default(|stage| async move {
        let (demo, volume) = (&stage.member, stage.member.make_volume().await);
        for wrong in [json!({}), json!({"readonly": "perhaps"}), Value::Null] {
            act(demo, volume, json!({"os-update_readonly_flag": wrong}), 400).await;
        }
        act(demo, volume, json!({"os-update_readonly_flag": {"readonly": true}}), 202).await;
        assert_eq!(shown(demo, volume).await["metadata"], json!({"readonly": "True"}));
        let attach = |mode: &str| json!({"os-attach": {"host_name": "h1", "mountpoint": "/dev/vdb", "mode": mode}});
        for (mode, status) in [("rw", 400), ("wo", 400), ("ro", 202)] {
            act(demo, volume, attach(mode), status).await;
        }
        act(demo, volume, json!({"os-update_readonly_flag": {"readonly": false}}), 400).await;
        act(demo, volume, json!({"os-detach": null}), 202).await;
        let server = stage.create(stage.server()).await;
        let refused = demo.attach(server, volume).await.expect(400);
        assert!(refused.message().contains("read-only"), "{}", refused.text);
        act(demo, volume, json!({"os-update_readonly_flag": {"readonly": false}}), 202).await;
        demo.attach(server, volume).await.expect(200);
        stage.ended(server).await;
        let eve = stage.user("eve", "elsewhere", "member").await;
        act(&eve, volume, json!({"os-detach": null}), 404).await;
    });
}

#[test]
fn a_recorded_attachment_names_a_place() {
    play_default(|stage| async move {
        let (demo, volume) = (&stage.member, stage.member.make_volume().await);
        for wrong in [
            json!({"mountpoint": "/dev/vdb"}),
            json!({"host_name": "h1"}),
            json!({"host_name": "h1", "mountpoint": ""}),
            json!({"host_name": "h".repeat(256), "mountpoint": "/dev/vdb"}),
            json!({"host_name": "h1", "mountpoint": "m".repeat(256)}),
            json!({"instance_uuid": "x", "mountpoint": "/dev/vdb"}),
            json!({"host_name": "h1", "mountpoint": "/dev/vdb", "more": true}),
            Value::Null,
        ] {
            act(demo, volume, json!({"os-attach": wrong}), 400).await;
        }
        let multiattach = json!({"size": 1, "volume_type": "local-multiattach"});
        let shared = demo.make_volume_with(multiattach).await;
        for host in ["h1", "h2"] {
            act(demo, shared, json!({"os-attach": {"host_name": host, "mountpoint": "/dev/vdb"}}), 202).await;
        }
        let several = act(demo, shared, json!({"os-detach": {}}), 400).await;
        assert!(several.contains("More than one attachment"), "{several}");
        let listed = demo.speaking("volume 3.27").get(&format!("/volume/v3/attachments/detail?volume_id={shared}")).await.expect(200).body;
        assert_eq!(listed["attachments"].as_array().map(Vec::len), Some(2));
        let hosts: Vec<Value> = attachments(&stage.admin, shared).await.iter().map(|one| one["host_name"].clone()).collect();
        assert_eq!((hosts, &attachments(demo, shared).await[0]["host_name"]), (vec![json!("h1"), json!("h2")], &Value::Null));
        let server = stage.create(stage.server()).await;
        stage.member.speaking("2.60").attach(server, shared).await.expect(200);
        stage.ended(server).await;
        assert_eq!(attachments(demo, shared).await.len(), 3);
    });
}

#[test]
fn a_user_makes_an_attachment_in_steps() {
    play_default(|stage| async move {
        let (demo, volume, server) = (stage.member.speaking("volume 3.60"), stage.member.make_volume().await, Uuid::from_u128(7));
        let (real, other) = (stage.create(stage.server()).await, stage.user("olga", "elsewhere", "member").await.speaking("volume 3.60"));
        let request = json!({"attachment": {"volume_uuid": volume, "instance_uuid": server}});
        stage.member.speaking("volume 3.26").post("/volume/v3/attachments", request.clone()).await.expect(404);
        let without_host =
            json!({"attachment": {"volume_uuid": volume, "instance_uuid": server, "connector": {"initiator": "iqn.2026-11"}}});
        demo.post("/volume/v3/attachments", without_host).await.expect(400);
        let request = json!({"attachment": {"volume_uuid": volume, "instance_uuid": server, "connector": {}}});
        let begun = demo.post("/volume/v3/attachments", request.clone()).await.expect(200).body["attachment"].clone();
        assert_eq!((&begun["status"], &begun["connection_info"]), (&json!("reserved"), &json!({})));
        let held = shown(&demo, volume).await;
        assert_eq!((&held["status"], &held["attachments"], &held["metadata"]), (&json!("reserved"), &json!([]), &json!({})));
        stage.member.attach(real, volume).await.expect(400);
        let another = json!({"attachment": {"volume_uuid": volume, "instance_uuid": Uuid::from_u128(8)}});
        demo.post("/volume/v3/attachments", another).await.expect(400);

        let path = format!("/volume/v3/attachments/{}", begun["id"].as_str().expect("an id"));
        let complete = format!("{path}/action");
        demo.post(&complete, json!({"os-complete": {}})).await.expect(400);
        demo.put(&path, json!({"attachment": {"connector": {}}})).await.expect(400);
        let connector = json!({"attachment": {"connector": {"host": "h1", "mountpoint": "/dev/vdb", "initiator": "iqn.2026-11"}}});
        other.put(&path, connector.clone()).await.expect(404);
        let connected = demo.put(&path, connector.clone()).await.expect(200).body["attachment"].clone();
        assert_eq!((&connected["status"], status(&demo, volume).await), (&json!("attaching"), json!("attaching")));
        stage.member.speaking("volume 3.43").post(&complete, json!({"os-complete": {}})).await.expect(404);
        demo.post(&complete, json!({"os-complete": {}})).await.expect(204);
        demo.put(&path, connector).await.expect(400);
        let list = attachments(&demo, volume).await;
        assert_eq!((status(&demo, volume).await, &list[0]["device"]), (json!("in-use"), &json!("/dev/vdb")));
        demo.delete(&format!("/volume/v3/volumes/{volume}")).await.expect(400);

        demo.post(&complete, json!({"os-complete": {}})).await.expect(204);
        assert_eq!(attachments(&demo, volume).await, list, "it was complete");
        // Not even the same server gets a further attachment of a volume in error.
        act(&stage.admin, volume, json!({"os-reset_status": {"status": "error"}}), 202).await;
        demo.post("/volume/v3/attachments", request.clone()).await.expect(400);
        act(&stage.admin, volume, json!({"os-reset_status": {"status": "in-use"}}), 202).await;
        let further = demo.post("/volume/v3/attachments", request).await.expect(200).body["attachment"]["id"].clone();
        demo.delete(&format!("/volume/v3/attachments/{}", further.as_str().expect("an id"))).await.expect(200);

        let left = demo.delete(&path).await.expect(200).body;
        assert_eq!((&left["attachments"], status(&demo, volume).await), (&json!([]), json!("available")));
        demo.delete(&path).await.expect(404);
        // Only the compute API removes an attachment of the compute service.
        stage.member.attach(real, volume).await.expect(200);
        stage.ended(real).await;
        let held = attachments(&demo, volume).await[0]["attachment_id"].clone();
        let held = format!("/volume/v3/attachments/{}", held.as_str().expect("an id"));
        let refused = demo.delete(&held).await.expect(409).text;
        assert!(refused.contains("using the Compute API"), "{refused}");
        demo.post(&format!("{held}/action"), json!({"os-complete": {}})).await.expect(409);
        other.delete(&held).await.expect(404);
        assert_eq!(status(&demo, volume).await, "in-use");
    });
}
