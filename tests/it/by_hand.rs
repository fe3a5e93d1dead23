//! Changes by an administrator's hand, behind the servers' back. Each is refused, or harms nothing, or the audit names the thing and the command
//! that mends it.

use cellshift::chaos::audit::audit;
use cellshift::chaos::point::Moment;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, id_of};
use crate::held::Held;
use crate::stage::{Stage, hosts, play_default};

const HOST: &str = "cell1-host1";

/// Returns what the audit finds.
async fn violations(stage: &Stage) -> Vec<String> {
    let report = audit(stage.world()).await.expect("an audit");
    report.violations.iter().map(ToString::to_string).collect()
}

async fn assert_clean(stage: &Stage, what: &str) {
    assert_eq!(violations(stage).await, Vec::<String>::new(), "{what}");
}

/// Checks that the audit finds something with these words and nothing else.
async fn assert_named(stage: &Stage, what: &str, words: &[&str]) {
    let objections = violations(stage).await;
    let names = |text: &String| words.iter().all(|word| text.contains(word));
    assert!(!objections.is_empty() && objections.iter().all(names), "{what}: {objections:#?}");
}

async fn act_on(stage: &Stage, path: &str, action: Value) -> Answer {
    stage.admin.post(&format!("/volume/v3/{path}/action"), action).await
}

#[test]
fn an_attached_volume_keeps_its_server_whatever_its_status() {
    play_default(|stage| async move {
        let (server, other) = (stage.at_home().await, stage.at_home().await);
        let volume = stage.admin.make_volume().await;
        stage.admin.attach(server, volume).await.expect(200);
        stage.ended(server).await;
        let path = format!("volumes/{volume}");
        for status in ["available", "error", "maintenance", "reserved", "downloading", "attaching"] {
            act_on(&stage, &path, json!({"os-reset_status": {"status": status}})).await.expect(202);
            assert_clean(&stage, status).await;
            let refused = stage.admin.attach(other, volume).await;
            assert!([400, 409].contains(&refused.status), "{status}: {}", refused.text);
        }
        act_on(&stage, &path, json!({"os-reset_status": {"attach_status": "detached"}})).await.expect(409);
        act_on(&stage, &path, json!({"os-reset_status": {"migration_status": "migrating"}})).await.expect(202);
        act_on(&stage, &path, json!({"os-reset_status": {"migration_status": "none"}})).await.expect(202);
        for action in ["os-force_detach", "os-detach"] {
            act_on(&stage, &path, json!({action: {}})).await.expect(409);
        }
        let user = stage.admin.speaking("volume 3.60");
        let listed = user.get(&format!("/volume/v3/attachments?volume_id={volume}")).await.expect(200).body;
        let attachment = listed["attachments"][0]["id"].as_str().expect("an attachment");
        user.delete(&format!("/volume/v3/attachments/{attachment}")).await.expect(409);
        act_on(&stage, &path, json!({"os-force_delete": {}})).await.expect(400);
        assert_clean(&stage, "everything else").await;
        act_on(&stage, &path, json!({"os-reset_status": {"status": "available"}})).await.expect(202);
        stage.admin.detach(server, volume).await.expect(202);
        stage.ended(server).await;
        let shown = stage.admin.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body;
        assert_eq!(shown["volume"]["status"], "available");
    });
}

/// A snapshot and a backup have bytes of their own, whatever their records say.
#[test]
fn snapshots_and_backups_are_reset_and_used_again() {
    play_default(|stage| async move {
        let volume = stage.admin.make_volume().await;
        let new = json!({"snapshot": {"volume_id": volume}});
        let snapshot = id_of(&stage.admin.post("/volume/v3/snapshots", new).await.expect(202).body["snapshot"]);
        let new = json!({"backup": {"volume_id": volume}});
        let backup = id_of(&stage.admin.post("/volume/v3/backups", new).await.expect(202).body["backup"]);
        for path in [format!("snapshots/{snapshot}"), format!("backups/{backup}")] {
            let (kind, _) = path.split_once("s/").expect("a path");
            let status = || async { stage.admin.get(&format!("/volume/v3/{path}")).await.expect(200).body[kind]["status"].clone() };
            stage.until("it is made", || async { status().await == "available" }).await;
            for state in ["error", "available"] {
                act_on(&stage, &path, json!({"os-reset_status": {"status": state}})).await.expect(202);
                assert_eq!(status().await, state);
                assert_clean(&stage, &path).await;
            }
        }
        let restored = stage.admin.post(&format!("/volume/v3/backups/{backup}/restore"), json!({"restore": {}})).await.expect(202);
        let restored = restored.body["restore"]["volume_id"].as_str().expect("a volume").to_owned();
        act_on(&stage, &format!("backups/{backup}"), json!({"os-reset_status": {"status": "error"}})).await.expect(202);
        let path = format!("/volume/v3/volumes/{restored}");
        stage.until("it is restored", || async { stage.admin.get(&path).await.expect(200).body["volume"]["status"] == "available" }).await;
        let again = json!({"volume": {"size": 1, "snapshot_id": snapshot}});
        let again = id_of(&stage.admin.post("/volume/v3/volumes", again).await.expect(202).body["volume"]);
        let path = format!("/volume/v3/volumes/{again}");
        stage.until("it is made", || async { stage.admin.get(&path).await.expect(200).body["volume"]["status"] == "available" }).await;
    });
}

/// A host that is forced down lives on: its guests run, and a move that passes by ends.
#[test]
fn a_living_host_is_forced_down_and_up() {
    play_default(|stage| async move {
        let (stays, moves) = (stage.at_home().await, stage.at_home().await);
        let held = Held::at(&stage, "prepare_at_target", Moment::BeforeEffect);
        stage.admin.migrate(moves, None).await.expect(202);
        held.met().await;
        for host in [HOST, "cell1-host2"] {
            stage.force_down(host, true).await;
        }
        held.release();
        stage.ended(moves).await;
        stage.disarm();
        assert_eq!(stage.admin.status(moves).await, "VERIFY_RESIZE");
        assert_eq!((stage.admin.status(stays).await, stage.runs_on(stays).await), ("ACTIVE".to_owned(), hosts(&[HOST])));
        assert_clean(&stage, "while they are forced down").await;
        for host in [HOST, "cell1-host2"] {
            stage.force_down(host, false).await;
        }
        stage.admin.confirm(moves).await.expect(204);
        stage.at_rest(moves, "ACTIVE").await;
        stage.paid(moves).await;
        assert_clean(&stage, "when they are up").await;
    });
}

#[test]
fn a_lost_or_changed_allocation_is_named_and_healed() {
    play_default(|stage| async move {
        for status in ["ACTIVE", "PAUSED", "SHUTOFF", "ERROR"] {
            let server = stage.at_home().await;
            let action = match status {
                "PAUSED" => json!({"pause": null}),
                "SHUTOFF" => json!({"os-stop": null}),
                "ERROR" => json!({"os-resetState": {"state": "error"}}),
                _ => json!({"lock": null}),
            };
            stage.admin.act(server, action).await.expect(202);
            stage.at_rest(server, status).await;
            let (path, before) = (format!("/placement/allocations/{server}"), stage.allocations(server).await);
            let command = format!("`cellshift heal-allocations --server {server}`");
            for less in [false, true] {
                if less {
                    let held = stage.admin.speaking("placement 1.28").get(&path).await.expect(200).body;
                    let provider = held["allocations"].as_object().expect("allocations").keys().next().expect("a provider").clone();
                    let few = json!({"allocations": {provider: {"resources": {"VCPU": 1}}}, "consumer_generation": held["consumer_generation"],
                        "project_id": held["project_id"], "user_id": held["user_id"]});
                    stage.admin.speaking("placement 1.28").put(&path, few).await.expect(204);
                } else {
                    stage.admin.delete(&path).await.expect(204);
                }
                assert_named(&stage, status, &["I4", &server.to_string(), &command]).await;
                let listed = stage.admin.get("/ops/v1/servers/unhealed").await.expect(200).body;
                assert_eq!(listed["servers"][0]["server"], json!(server), "{listed:#}");
                stage.admin.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(202);
                stage.ended(server).await;
                assert_eq!(stage.allocations(server).await, before, "{status}");
                assert_clean(&stage, status).await;
            }
            assert_eq!(stage.admin.get("/ops/v1/servers/unhealed").await.expect(200).body["servers"], json!([]));
        }
    });
}

/// The host gives the room to another server meanwhile.
#[test]
fn an_allocation_is_not_healed_beyond_the_hosts_room() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let (path, held) = (format!("/placement/allocations/{server}"), stage.allocations(server).await);
        let providers = stage.admin.get(&format!("/placement/resource_providers?name={HOST}")).await.expect(200).body;
        let provider = providers["resource_providers"][0]["uuid"].as_str().expect("a provider").to_owned();
        stage.admin.delete(&path).await.expect(204);
        let other = format!("/placement/allocations/{}", Uuid::from_u128(9));
        let all = json!({"allocations": {provider: {"resources": {"MEMORY_MB": 32_768}}}, "consumer_generation": null,
            "project_id": "p", "user_id": "u"});
        stage.admin.speaking("placement 1.28").put(&other, all).await.expect(204);
        stage.admin.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert!(stage.allocations(server).await.is_empty());
        stage.admin.delete(&other).await.expect(204);
        stage.admin.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.allocations(server).await, held);
    });
}

#[test]
fn a_service_stays_while_anything_needs_its_host() {
    play_default(|stage| async move {
        let listed = stage.admin.get(&format!("/os-services?host={HOST}&binary=nova-compute")).await.expect(200).body;
        let service = format!("/os-services/{}", listed["services"][0]["id"].as_str().expect("an id"));
        let held = Held::at(&stage, "claim_at_host", Moment::BeforeEffect);
        let body = stage.server().flavor("m1.tiny").on_host(HOST).ask(&stage.admin).await.expect(202).body;
        let server = id_of(&body["server"]);
        held.met().await;
        let refused = stage.admin.delete(&service).await.expect(409);
        assert!(refused.message().contains("servers in the making"), "{}", refused.text);
        held.release();
        stage.at_rest(server, "ACTIVE").await;
        stage.disarm();
        stage.admin.delete(&service).await.expect(409);
        stage.admin.migrate(server, None).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.admin.delete(&service).await.expect(409);
        stage.admin.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
        stage.paid(server).await;
    });
}

#[test]
fn a_port_that_was_unbound_is_named_and_bound_again() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let listed = stage.admin.get(&format!("/network/v2.0/ports?device_id={server}")).await.expect(200).body;
        let port = format!("/network/v2.0/ports/{}", listed["ports"][0]["id"].as_str().expect("a port"));
        let reboot = || async {
            stage.admin.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
        };
        stage.admin.delete(&format!("{port}/bindings/{HOST}")).await.expect(204);
        assert_named(&stage, "no binding", &["I14", "a hard reboot of the server binds it"]).await;
        reboot().await;
        assert_clean(&stage, "bound again").await;
        stage.admin.put(&port, json!({"port": {"binding:host_id": "cell1-host2"}})).await.expect(200);
        assert_named(&stage, "elsewhere", &["I14", "/bindings/cell1-host2` removes the stray one"]).await;
        stage.admin.delete(&format!("{port}/bindings/cell1-host2")).await.expect(204);
        reboot().await;
        assert_clean(&stage, "only here").await;
        stage.admin.delete(&port).await.expect(204);
        assert_clean(&stage, "without its port").await;
    });
}

#[test]
fn servers_outlive_the_image_that_they_were_made_of() {
    play_default(|stage| async move {
        let image = json!({"name": "short-lived", "disk_format": "raw", "container_format": "bare"});
        let image = id_of(&stage.admin.post("/image/v2/images", image).await.expect(201).body);
        stage.admin.upload(image, b"a system".to_vec()).await.expect(204);
        let new = stage.server().flavor("m1.tiny").with("imageRef", json!(image)).on_host(HOST);
        let server = stage.create_by(&stage.admin, new).await;
        stage.admin.delete(&format!("/image/v2/images/{image}")).await.expect(204);
        assert_clean(&stage, "without its image").await;
        stage.admin.act(server, json!({"rebuild": {"imageRef": image}})).await.expect(400);
        for action in [json!({"reboot": {"type": "HARD"}}), json!({"rescue": {"rescue_image_ref": stage.image}}), json!({"unrescue": null})]
        {
            let answer = stage.admin.act(server, action.clone()).await;
            assert!((200..300).contains(&answer.status), "{action}: {}", answer.text);
            stage.ended(server).await;
        }
        stage.admin.migrate(server, None).await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.admin.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
        stage.paid(server).await;
    });
}
