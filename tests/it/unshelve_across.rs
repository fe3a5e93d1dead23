//! Unshelve onto a host of another cell, through the shelved image: what the server keeps, when it may leave its cell, and which cell it
//! prefers.

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, User};
use crate::resize_confirm::{contains, events};
use crate::shelve::{images_of, shelve};
use crate::stage::{Stage, hosts, play, play_default};
use crate::unshelve::{disable, is_as_before, pinned, unshelve};

/// Returns the request for a server in cell1 that any hardware can run.
pub fn for_any_cell(new: NewServer) -> NewServer {
    new.flavor("m1.tiny").with("availability_zone", json!("cell1"))
}

/// Makes a server in cell1, and shelves it off its host.
pub async fn shelved_in_cell1(stage: &Stage) -> Uuid {
    let server = stage.create(for_any_cell(stage.server())).await;
    shelve(stage, server, "SHELVED_OFFLOADED").await;
    server
}

/// Returns the wish for this host, whatever its zone.
pub fn to_host(host: &str) -> Value {
    json!({"availability_zone": null, "host": host})
}

/// Lets nobody's server leave its cell.
fn confined(config: &mut Config) {
    std::fs::write(config.policy_file(), "").expect("a policy");
}

/// Checks that the server runs on this host with all that it has, and that the cell it has left knows nothing of it.
pub async fn lives_on(stage: &Stage, server: Uuid, host: &str, left: &str) -> Value {
    let shown = stage.at_rest(server, "ACTIVE").await;
    assert_eq!(shown["OS-EXT-SRV-ATTR:host"], host, "{shown:#}");
    assert_eq!((stage.runs_on(server).await, stage.holds(server).await), (hosts(&[host]), hosts(&[host])));
    let cell = host.split('-').next().expect("a cell");
    assert_eq!(shown["OS-EXT-AZ:availability_zone"], cell);
    for port in stage.bindings(server).await {
        assert_eq!(port, [(host.to_owned(), "ACTIVE".to_owned())].into_iter().collect());
    }
    for (volume, attached) in stage.attachments(server).await {
        assert_eq!(attached, [Some(host.to_owned())].into_iter().collect(), "volume {volume}");
    }
    let owner = stage.world().operations.ownership(server).await.expect("a row").and_then(|row| row.owner);
    assert_eq!(owner, Some((cell.to_owned(), host.to_owned())));
    assert!(stage.cell(left).instance(server).await.is_err(), "no record is left in {left}");
    let record = stage.record(cell, server).await.expect("a record");
    assert!(!record.hidden && !record.system_metadata.keys().any(|key| key.starts_with("shelved_")), "{:?}", record.system_metadata);
    assert!(images_of(stage, server).await.is_empty(), "the image is gone");
    let listed = stage.member.get("/servers").await.expect(200).body;
    assert_eq!(listed["servers"].as_array().map(Vec::len), Some(1), "one server in lists");
    shown
}

/// Returns the names of the actions of a server, newest first; each must have ended well.
async fn history(stage: &Stage, server: Uuid) -> Vec<String> {
    let actions = stage.admin.actions(server).await;
    assert!(actions.iter().all(|action| action["message"] == Value::Null), "{actions:#?}");
    actions.iter().map(|action| action["action"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_server_takes_its_disk_volumes_and_history_along() {
    play_default(|stage| async move {
        stage.make_key_pair("mine").await;
        let new = for_any_cell(stage.server()).with("key_name", json!("mine")).with("user_data", json!("aGk="));
        let new = new.with("metadata", json!({"a": "b"})).with("tags", json!(["blue"])).with("description", json!("mine"));
        let server = stage.create(new).await;
        let volume = stage.member.make_volume().await;
        stage.member.attach(server, volume).await.expect(200);
        let host = stage.host_of(server).await;
        stage.guest_writes(&host, server, b"dear data").await;
        let shown = stage.at_rest(server, "ACTIVE").await;
        let before = stage.record("cell1", server).await.expect("a record");
        shelve(&stage, server, "SHELVED_OFFLOADED").await;

        unshelve(&stage, server, &to_host("cell2-host2")).await.expect(202);
        let again = lives_on(&stage, server, "cell2-host2", "cell1").await;
        for field in ["id", "name", "key_name", "metadata", "tags", "description", "created", "addresses", "image", "flavor"] {
            assert_eq!(again[field], shown[field], "{field}");
        }
        let after = stage.record("cell2", server).await.expect("a record");
        assert_eq!((&after.key_data, &after.keypair, &after.user_data), (&before.key_data, &before.keypair, &before.user_data));
        assert_eq!((&after.system_metadata, &after.flavor), (&before.system_metadata, &before.flavor));
        assert!(contains(&stage.disks("cell2-host2", server).await["disk"], b"dear data"));
        assert_eq!(pinned(&stage, server).await, Value::Null);
        assert_eq!(history(&stage, server).await, ["unshelve", "shelve", "attach_volume", "create"]);
        let action = stage.admin.action(server, "unshelve").await;
        let expected = ["get_image_info", "schedule_instances", "compute_unshelve_instance"];
        assert_eq!(events(&action).len(), expected.len(), "{action:#}");
        for event in expected {
            assert!(events(&action).contains(&(event.to_owned(), "Success".to_owned())), "{event}: {action:#}");
        }
        let types = stage.notified(server).await;
        for phase in ["start", "end"] {
            assert_eq!(types.iter().filter(|name| **name == format!("instance.unshelve.{phase}")).count(), 1, "{types:?}");
        }
        stage.guest_writes("cell2-host2", server, b"newer data").await;
        shelve(&stage, server, "SHELVED_OFFLOADED").await;
        unshelve(&stage, server, &to_host("cell1-host1")).await.expect(202);
        lives_on(&stage, server, "cell1-host1", "cell2").await;
        assert!(contains(&stage.disks("cell1-host1", server).await["disk"], b"newer data"));
        assert_eq!(history(&stage, server).await, ["unshelve", "shelve", "unshelve", "shelve", "attach_volume", "create"]);
    });
}

#[test]
fn a_server_on_a_volume_goes_to_a_zone_of_another_cell() {
    play_default(|stage| async move {
        let server = stage.create(for_any_cell(stage.volume_server())).await;
        shelve(&stage, server, "SHELVED_OFFLOADED").await;
        stage.member.speaking("2.77").act(server, json!({"unshelve": {"availability_zone": "cell2"}})).await.expect(202);
        let host = stage.at_rest(server, "ACTIVE").await["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        lives_on(&stage, server, &host, "cell1").await;
        assert!(host.starts_with("cell2-"), "{host}");
        assert_eq!(pinned(&stage, server).await, "cell2");
        assert_eq!(stage.attachments(server).await.len(), 1);
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
    });
}

#[test]
fn a_policy_lets_a_server_leave_its_cell_or_refuses() {
    play(confined, |stage| async move {
        let server = shelved_in_cell1(&stage).await;
        let answer = unshelve(&stage, server, &to_host("cell2-host1")).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert!(answer.message().contains("compute:servers:resize:cross_cell"), "{}", answer.text);
        assert!(stage.admin.actions(server).await.iter().all(|action| action["action"] != "unshelve"));
        unshelve(&stage, server, &json!({"availability_zone": "cell2"})).await.expect(202);
        is_as_before(&stage, server, Some("cell1")).await;
        for host in ["cell1-host1", "cell1-host2"] {
            disable(&stage, host).await;
        }
        unshelve(&stage, server, &json!({"availability_zone": null})).await.expect(202);
        is_as_before(&stage, server, Some("cell1")).await;
        assert!(stage.cell("cell2").instance(server).await.is_err());
    });
}

#[test]
fn a_policy_for_some_users_lets_only_their_requests_cross() {
    let for_admins = |config: &mut Config| {
        std::fs::write(config.policy_file(), "\"compute:servers:resize:cross_cell\": \"role:admin\"\n").expect("a policy");
    };
    play(for_admins, |stage| async move {
        let server = shelved_in_cell1(&stage).await;
        let away = json!({"unshelve": {"availability_zone": "cell2"}});
        let ask = async |user: &User| user.speaking("2.77").act(server, away.clone()).await.expect(202);
        ask(&stage.member).await;
        is_as_before(&stage, server, Some("cell1")).await;
        ask(&stage.admin).await;
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-AZ:availability_zone"], "cell2");
    });
}

#[test]
fn a_server_leaves_its_cell_only_if_no_host_there_fits() {
    play_default(|stage| async move {
        let server = shelved_in_cell1(&stage).await;
        let anywhere = json!({"availability_zone": null});
        // The other cell has more room.
        disable(&stage, "cell1-host1").await;
        unshelve(&stage, server, &anywhere).await.expect(202);
        lives_on(&stage, server, "cell1-host2", "cell2").await;
        shelve(&stage, server, "SHELVED_OFFLOADED").await;
        disable(&stage, "cell1-host2").await;
        disable(&stage, "cell2-host2").await;
        unshelve(&stage, server, &anywhere).await.expect(202);
        lives_on(&stage, server, "cell2-host1", "cell1").await;
    });
}

#[test]
fn a_negative_multiplier_prefers_the_other_cell() {
    play(
        |config| config.scheduler.cross_cell_move_weight_multiplier = -1_000_000.0,
        |stage| async move {
            let server = shelved_in_cell1(&stage).await;
            unshelve(&stage, server, &json!({"availability_zone": null})).await.expect(202);
            let shown = stage.at_rest(server, "ACTIVE").await;
            assert_eq!(shown["OS-EXT-AZ:availability_zone"], "cell2");
        },
    );
}

#[test]
fn a_server_that_is_still_on_its_host_stays_there() {
    play(
        |config: &mut Config| config.compute.shelved_offload_time = -1,
        |stage| async move {
            let server = stage.create(for_any_cell(stage.server())).await;
            let host = stage.runs_on(server).await;
            shelve(&stage, server, "SHELVED").await;
            unshelve(&stage, server, &to_host("cell2-host1")).await.expect(409);
            unshelve(&stage, server, &Value::Null).await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.runs_on(server).await, host);
        },
    );
}
