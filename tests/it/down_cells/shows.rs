//! A server whose cell is down: its views per microversion, and the requests that fail.

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{keys, not_now, quick, set};
use crate::client::id_of;
use crate::stage::{Stage, play};
use cellshift::chaos::borders::Outage;

const SHOWN: [&str; 10] = [
    "OS-EXT-AZ:availability_zone",
    "OS-EXT-STS:power_state",
    "created",
    "flavor",
    "id",
    "image",
    "links",
    "status",
    "tenant_id",
    "user_id",
];

#[test]
fn a_server_is_shown_as_far_as_it_is_known_without_its_cell() {
    play(quick, |stage| async move {
        let group = json!({"server_group": {"name": "apart", "policy": "anti-affinity"}});
        let group = id_of(&stage.member.post("/os-server-groups", group).await.expect(200).body["server_group"]);
        let server = stage.create(stage.server().in_group(group)).await;
        let from_volume = stage.create(stage.volume_server().with("availability_zone", json!("cell1"))).await;
        let whole = stage.member.show(server).await;
        set(&stage, "cell1", Outage::Refuses).await;

        not_now(stage.member.speaking("2.68").get(&format!("/servers/{server}")).await, "cell1");
        for version in ["2.69", "2.70"] {
            let shown = stage.member.speaking(version).show(server).await;
            assert_eq!(keys(&shown), SHOWN, "{version}");
            for same in ["created", "id", "links", "tenant_id", "user_id", "image", "flavor"] {
                assert_eq!(shown[same], whole[same], "{version} {same}");
            }
            assert_eq!((&shown["status"], &shown["OS-EXT-STS:power_state"]), (&json!("UNKNOWN"), &json!(0)));
            assert_eq!(shown["OS-EXT-AZ:availability_zone"], "UNKNOWN", "nobody asked for a zone");
        }
        for version in ["2.71", "2.98", "2.104"] {
            let shown = stage.member.speaking(version).show(server).await;
            let mut expected = SHOWN.to_vec();
            expected.insert(7, "server_groups");
            assert_eq!((keys(&shown), &shown["server_groups"]), (expected, &json!([group])), "{version}");
        }
        let shown = stage.member.show(from_volume).await;
        assert_eq!((&shown["image"], &shown["OS-EXT-AZ:availability_zone"]), (&json!(""), &json!("cell1")));
        assert_eq!(shown["server_groups"], json!([]));

        set(&stage, "cell1", Outage::None).await;
        assert_eq!(stage.member.show(server).await, whole);
    });
}

#[test]
fn a_server_that_is_not_the_callers_or_nearly_gone_is_not_found() {
    play(quick, |stage| async move {
        let server = stage.create(stage.server()).await;
        let path = format!("/servers/{server}");
        let other = stage.user("olga", "elsewhere", "member").await;
        let api = &stage.world().api;
        set(&stage, "cell1", Outage::Refuses).await;
        for user in [&other, &other.speaking("2.68")] {
            user.get(&path).await.expect(404);
            user.act(server, json!({"os-stop": null})).await.expect(404);
        }
        api.set_queued_for_delete(server, true).await.expect("queued");
        for version in ["2.68", "2.69", "2.104"] {
            stage.member.speaking(version).get(&path).await.expect(404);
        }
        assert_eq!(stage.member.get("/servers").await.expect(200).body["servers"], json!([]));
        stage.member.act(server, json!({"os-stop": null})).await.expect(404);
        api.set_queued_for_delete(server, false).await.expect("restored");

        rename_request_spec(&stage, server, Uuid::nil()).await;
        stage.member.get(&path).await.expect(404);
        rename_request_spec(&stage, Uuid::nil(), server).await;
        stage.member.get(&path).await.expect(200);
        set(&stage, "cell1", Outage::None).await;
    });
}

/// Moves the request spec, so that the first server has none.
async fn rename_request_spec(stage: &Stage, from: Uuid, to: Uuid) {
    let statement = format!("UPDATE request_specs SET instance_uuid = '{to}' WHERE instance_uuid = '{from}'");
    stage.world().api.db().write(move |conn| Ok(conn.batch_execute(&statement)?)).await.expect("renamed");
}

#[test]
fn other_requests_on_a_server_of_a_down_cell_are_503() {
    play(quick, |stage| async move {
        let server = stage.create(stage.server()).await;
        let well = stage.create(stage.server().flavor("gen2.small")).await;
        set(&stage, "cell1", Outage::Refuses).await;
        let actions: [(&str, Value); 11] = [
            ("os-start", Value::Null),
            ("os-stop", Value::Null),
            ("reboot", json!({"type": "HARD"})),
            ("rebuild", json!({"imageRef": stage.image})),
            ("resize", json!({"flavorRef": "gen2.small"})),
            ("confirmResize", Value::Null),
            ("revertResize", Value::Null),
            ("migrate", Value::Null),
            ("lock", Value::Null),
            ("unlock", Value::Null),
            ("os-resetState", json!({"state": "active"})),
        ];
        for (action, body) in actions {
            not_now(stage.admin.act(server, json!({ action: body })).await, "cell1");
        }
        for resource in
            ["os-instance-actions", "migrations", "metadata", "tags", "ips", "os-security-groups", "os-volume_attachments", "diagnostics"]
        {
            not_now(stage.admin.get(&format!("/servers/{server}/{resource}")).await, "cell1");
        }
        not_now(stage.member.put(&format!("/servers/{server}"), json!({"server": {"name": "two"}})).await, "cell1");
        not_now(stage.member.put(&format!("/servers/{server}/tags/blue"), Value::Null).await, "cell1");

        stage.stop(&stage.member, well).await;
        set(&stage, "cell1", Outage::None).await;
        stage.stop(&stage.member, server).await;
    });
}

#[test]
fn a_cached_view_of_a_down_cell_says_how_old_it_is() {
    let remembering = |config: &mut cellshift::config::Config| {
        quick(config);
        config.cells.cache_down_servers = 2;
    };
    play(remembering, |stage| async move {
        let forgotten = stage.create(stage.server().named("forgotten")).await;
        let first = stage.create(stage.server().named("first")).await;
        let second = stage.create(stage.server().named("second")).await;
        let mut whole = Vec::new();
        for server in [forgotten, first, second] {
            whole.push(stage.member.show(server).await);
        }
        set(&stage, "cell1", Outage::Refuses).await;

        let user = stage.member.taking_last_known();
        let mut shown = user.show(first).await;
        let extra = shown.as_object_mut().expect("an object");
        let (at, age) = (extra.remove("cellshift:last_known_at"), extra.remove("cellshift:last_known_age"));
        assert!(at.is_some_and(|at| at.as_str().is_some_and(|at| at.ends_with('Z'))));
        assert!(age.is_some_and(|age| age.as_i64().is_some_and(|age| (0..60).contains(&age))));
        assert_eq!(shown, whole[1]);
        assert_eq!(user.status(forgotten).await, "UNKNOWN", "two are remembered");
        assert_eq!(user.speaking("2.1").show(second).await["name"], "second");
        assert_eq!(stage.member.status(first).await, "UNKNOWN", "nobody who did not ask is told old news");

        let list = user.get("/servers/detail").await.expect(200).body["servers"].clone();
        let named: Vec<(&Value, bool)> = list
            .as_array()
            .expect("servers")
            .iter()
            .map(|server| (&server["name"], server.get("cellshift:last_known_age").is_some()))
            .collect();
        assert_eq!(named, [(&json!("second"), true), (&json!("first"), true), (&Value::Null, false)]);
        let brief = user.get("/servers").await.expect(200).body["servers"][0].clone();
        assert_eq!(keys(&brief), ["cellshift:last_known_age", "cellshift:last_known_at", "id", "links", "name"]);

        let api = &stage.world().api;
        api.set_queued_for_delete(first, true).await.expect("queued");
        user.get(&format!("/servers/{first}")).await.expect(404);
        api.set_queued_for_delete(first, false).await.expect("restored");
        let other = stage.user("olga", "elsewhere", "member").await.taking_last_known();
        other.get(&format!("/servers/{first}")).await.expect(404);
        set(&stage, "cell1", Outage::None).await;
        assert_eq!(user.show(first).await, whole[1]);
    });
}
