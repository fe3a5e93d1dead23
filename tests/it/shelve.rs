//! Shelve, offload and unshelve: where the root disk, the volumes, the ports and the room of a server are meanwhile.

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::config::{Config, Seconds};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::id_of;
use crate::resize_confirm::{contains, events};
use crate::stage::{Stage, hosts, play, play_default};

/// Keeps shelved servers on their hosts.
fn kept_on_hosts(config: &mut Config) {
    config.compute.shelved_offload_time = -1;
}

/// Shelves a server and waits for its end in this status.
pub async fn shelve(stage: &Stage, server: Uuid, status: &str) -> Value {
    stage.member.act(server, json!({"shelve": null})).await.expect(202);
    stage.at_rest(server, status).await
}

async fn offload(stage: &Stage, server: Uuid) -> Value {
    stage.admin.act(server, json!({"shelveOffload": null})).await.expect(202);
    stage.at_rest(server, "SHELVED_OFFLOADED").await
}

async fn unshelve(stage: &Stage, server: Uuid) -> Value {
    stage.member.act(server, json!({"unshelve": null})).await.expect(202);
    stage.at_rest(server, "ACTIVE").await
}

/// Returns the images that the server's shelvings made and that are still there.
pub async fn images_of(stage: &Stage, server: Uuid) -> Vec<Value> {
    let listed = stage.member.get("/image/v2/images").await.expect(200).body;
    let images = listed["images"].as_array().expect("images").iter();
    images.filter(|image| image["instance_uuid"] == json!(server)).cloned().collect()
}

/// Checks that the server is on no host, and holds its volumes alone.
pub async fn assert_on_no_host(stage: &Stage, server: Uuid) {
    assert!(stage.runs_on(server).await.is_empty() && stage.holds(server).await.is_empty());
    assert!(stage.bindings(server).await.iter().all(|bindings| bindings.is_empty()));
    assert!(stage.attachments(server).await.values().all(|hosts| hosts.iter().all(Option::is_none)));
    assert_eq!(stage.world().operations.ownership(server).await.expect("a row").and_then(|row| row.owner), None);
    let shown = stage.admin.show(server).await;
    for key in ["OS-EXT-SRV-ATTR:host", "OS-EXT-SRV-ATTR:hypervisor_hostname"] {
        assert_eq!(shown[key], Value::Null, "{shown:#}");
    }
    assert_eq!((&shown["OS-EXT-AZ:availability_zone"], &shown["OS-EXT-STS:power_state"]), (&json!(""), &json!(4)), "{shown:#}");
}

#[test]
fn a_disk_survives_shelve_offload_and_unshelve() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let volume = stage.attach_a_volume(server).await;
        let host = stage.host_of(server).await;
        stage.guest_writes(&host, server, b"dear data").await;
        let shown = shelve(&stage, server, "SHELVED_OFFLOADED").await;
        assert_eq!(shown["OS-EXT-STS:vm_state"], "shelved_offloaded");
        assert_on_no_host(&stage, server).await;
        assert!(stage.guest(&host, server).await.is_none());
        let images = images_of(&stage, server).await;
        let [image] = &images[..] else { panic!("one image: {images:#?}") };
        assert_eq!((&image["name"], &image["status"], &image["image_type"]), (&json!("one-shelved"), &json!("active"), &json!("snapshot")));
        assert_eq!((&image["base_image_ref"], &image["visibility"]), (&json!(stage.image), &json!("private")));
        let shown = unshelve(&stage, server).await;
        let target = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        assert!(target.starts_with("cell1-"), "its cell keeps it: {target}");
        assert!(contains(&stage.disks(&target, server).await["disk"], b"dear data"));
        assert_eq!((stage.runs_on(server).await, stage.holds(server).await), (hosts(&[&target]), hosts(&[&target])));
        assert_eq!(stage.bindings(server).await[0], [(target.clone(), "ACTIVE".to_owned())].into());
        assert_eq!(stage.attachments(server).await[&volume], [Some(target)].into());
        assert!(images_of(&stage, server).await.is_empty());
        let types = stage.notified(server).await;
        for event in ["shelve", "shelve_offload", "unshelve"].iter().flat_map(|action| [format!("{action}.start"), format!("{action}.end")])
        {
            assert!(types.contains(&format!("instance.{event}")), "{event} in {types:?}");
        }
    });
}

#[test]
fn a_server_on_a_volume_leaves_its_host_without_an_image() {
    play(kept_on_hosts, |stage| async move {
        let server = stage.create(stage.volume_server()).await;
        shelve(&stage, server, "SHELVED_OFFLOADED").await;
        assert_on_no_host(&stage, server).await;
        assert!(images_of(&stage, server).await.is_empty());
        let action = stage.admin.action(server, "shelve").await;
        assert_eq!(events(&action), [("compute_shelve_offload_instance".to_owned(), "Success".to_owned())]);
        unshelve(&stage, server).await;
        assert_eq!(stage.attachments(server).await.values().next(), Some(&stage.runs_on(server).await.into_iter().map(Some).collect()));
    });
}

#[test]
fn a_server_that_stays_on_its_host_is_started_there() {
    play(kept_on_hosts, |stage| async move {
        let server = stage.create(stage.server()).await;
        let host = stage.runs_on(server).await;
        let shown = shelve(&stage, server, "SHELVED").await;
        assert_eq!((&shown["OS-EXT-STS:vm_state"], &shown["OS-EXT-STS:power_state"]), (&json!("shelved"), &json!(4)));
        assert!(stage.runs_on(server).await.is_empty());
        assert_eq!(stage.holds(server).await, host, "the room is kept");
        assert_eq!(images_of(&stage, server).await.len(), 1);
        unshelve(&stage, server).await;
        assert_eq!(stage.runs_on(server).await, host);
        assert!(images_of(&stage, server).await.is_empty());
        let action = stage.admin.action(server, "unshelve").await;
        assert_eq!(events(&action), [("compute_start_instance".to_owned(), "Success".to_owned())]);
    });
}

#[test]
fn a_server_that_was_off_runs_after_its_unshelve() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.stop(&stage.member, server).await;
        shelve(&stage, server, "SHELVED_OFFLOADED").await;
        unshelve(&stage, server).await;
        assert_eq!(stage.runs_on(server).await.len(), 1);
    });
}

#[test]
fn an_administrators_shelve_makes_the_projects_image() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.admin.act(server, json!({"shelve": null})).await.expect(202);
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        assert_eq!(images_of(&stage, server).await.len(), 1, "the member sees it");
        stage.admin.act(server, json!({"unshelve": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_shelved_server_leaves_its_host_after_its_time() {
    let configure = |config: &mut Config| {
        config.compute.shelved_offload_time = 1;
        config.compute.shelved_poll_interval = Seconds::whole(1);
    };
    play(configure, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.member.act(server, json!({"shelve": null})).await.expect(202);
        stage.until("it leaves its host", || async { stage.admin.status(server).await == "SHELVED_OFFLOADED" }).await;
        stage.at_rest(server, "SHELVED_OFFLOADED").await;
        assert_on_no_host(&stage, server).await;
        assert_eq!(stage.admin.action(server, "shelveOffload").await["message"], Value::Null);
        unshelve(&stage, server).await;
    });
}

#[test]
fn a_host_that_is_away_keeps_no_shelved_server() {
    play(kept_on_hosts, |stage| async move {
        let (server, host) = stage.create_on_a_host(stage.server()).await;
        shelve(&stage, server, "SHELVED").await;
        stage.power(&host, false).await;
        stage.member.act(server, json!({"unshelve": null})).await.expect(409);
        offload(&stage, server).await;
        let shown = unshelve(&stage, server).await;
        assert_ne!(shown["OS-EXT-SRV-ATTR:host"], json!(host));
        stage.power(&host, true).await;
        stage.running.tree.conductor.pay_debts().await;
        stage.paid(server).await;
        assert!(stage.guest(&host, server).await.is_none(), "its old host has nothing of it");
        assert_eq!(stage.runs_on(server).await.len(), 1);
    });
}

#[test]
fn a_shelve_needs_its_host() {
    play_default(|stage| async move {
        let (server, host) = stage.create_on_a_host(stage.server()).await;
        stage.power(&host, false).await;
        stage.member.act(server, json!({"shelve": null})).await.expect(409);
        stage.power(&host, true).await;
        stage.until("its guest is back", || async { stage.runs_on(server).await == hosts(&[&host]) }).await;
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn one_of_two_requests_at_once_is_accepted() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        for (action, status) in [("shelve", "SHELVED_OFFLOADED"), ("unshelve", "ACTIVE")] {
            let ask = || stage.member.act(server, json!({action: null}));
            let (one, two) = futures::join!(ask(), ask());
            let mut answers = [one.status, two.status];
            answers.sort_unstable();
            assert_eq!(answers, [202, 409], "{action}: {} {}", one.text, two.text);
            stage.at_rest(server, status).await;
        }
    });
}

#[test]
fn a_deleted_server_takes_its_shelved_image_along() {
    play(kept_on_hosts, |stage| async move {
        let (kept, left) = (stage.create(stage.server()).await, stage.create(stage.server().named("two")).await);
        shelve(&stage, kept, "SHELVED").await;
        shelve(&stage, left, "SHELVED").await;
        offload(&stage, left).await;
        for server in [kept, left] {
            assert_eq!(images_of(&stage, server).await.len(), 1);
            stage.member.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
            assert!(images_of(&stage, server).await.is_empty());
            assert!(stage.holds(server).await.is_empty() && stage.bindings(server).await.is_empty());
        }
    });
}

#[test]
fn other_operations_are_refused_while_it_is_shelved() {
    play(kept_on_hosts, |stage| async move {
        let server = stage.create(stage.server()).await;
        let volume = stage.member.make_volume().await;
        shelve(&stage, server, "SHELVED").await;
        for state in ["shelved", "shelved_offloaded"] {
            let actions = [
                json!({"shelve": null}),
                json!({"os-start": null}),
                json!({"os-stop": null}),
                json!({"reboot": {"type": "HARD"}}),
                json!({"rebuild": {"imageRef": stage.image}}),
                json!({"resize": {"flavorRef": "gen1.large"}}),
                json!({"migrate": null}),
                json!({"os-resetState": {"state": "active"}}),
            ];
            for action in actions {
                let answer = stage.admin.act(server, action.clone()).await;
                assert_eq!(answer.status, 409, "{action} in {state}: {}", answer.text);
                assert!(answer.text.contains(&format!("vm_state {state}")), "{action}: {}", answer.text);
            }
            stage.member.speaking("2.19").attach(server, volume).await.expect(409);
            if state == "shelved" {
                offload(&stage, server).await;
            }
        }
        stage.admin.act(server, json!({"shelveOffload": null})).await.expect(409);
        unshelve(&stage, server).await;
        stage.admin.act(server, json!({"shelveOffload": null})).await.expect(409);
        stage.member.act(server, json!({"unshelve": null})).await.expect(409);
    });
}

#[test]
fn shelved_servers_are_listed_by_their_status() {
    play(kept_on_hosts, |stage| async move {
        let (kept, left) = (stage.create(stage.server()).await, stage.create(stage.server().named("two")).await);
        shelve(&stage, kept, "SHELVED").await;
        shelve(&stage, left, "SHELVED").await;
        offload(&stage, left).await;
        for (status, server) in [("SHELVED", kept), ("SHELVED_OFFLOADED", left)] {
            let listed = stage.member.get(&format!("/servers/detail?status={status}")).await.expect(200).body;
            let ids: Vec<Uuid> = listed["servers"].as_array().expect("servers").iter().map(id_of).collect();
            assert_eq!(ids, [server], "{status}");
        }
        for server in [kept, left] {
            unshelve(&stage, server).await;
        }
    });
}

#[test]
fn a_shelved_server_of_a_down_cell_waits_for_its_cell() {
    let configure = |config: &mut Config| config.cells.probe_interval = Seconds::millis(20);
    play(configure, |stage| async move {
        let (back, gone) = (stage.create(stage.server()).await, stage.create(stage.server().named("two")).await);
        for server in [back, gone] {
            shelve(&stage, server, "SHELVED_OFFLOADED").await;
        }
        stage.cell("cell1").db().set_outage(Outage::Refuses);
        stage.member.act(back, json!({"unshelve": null})).await.expect(503);
        stage.member.delete(&format!("/servers/{gone}")).await.expect(204);
        stage.cell("cell1").db().set_outage(Outage::None);
        let health = &stage.running.tree.cell("cell1").expect("a cell").health;
        stage.until("the cell answers again", || async { health.is_up() }).await;
        stage.until("the delete is done", || async { stage.world().api.count_queued_deletes().await.expect("mappings") == 0 }).await;
        stage.gone(gone).await;
        assert!(images_of(&stage, gone).await.is_empty());
        stage.ended(back).await;
        if stage.admin.status(back).await != "ACTIVE" {
            unshelve(&stage, back).await;
        }
    });
}
