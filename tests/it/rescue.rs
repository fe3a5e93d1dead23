//! Rescue and unrescue: the guest boots from another image, its own disks stay as they are, and it comes back to them.

use cellshift::domain::server::PowerState;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::id_of;
use crate::stage::{Stage, hosts, play_default};

/// Makes an image of these bytes with more properties.
async fn image(stage: &Stage, bytes: &[u8], more: Value) -> Uuid {
    let mut new = json!({"name": "mender", "disk_format": "raw", "container_format": "bare"});
    new.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
    let image = id_of(&stage.member.post("/image/v2/images", new).await.expect(201).body);
    stage.member.upload(image, bytes.to_vec()).await.expect(204);
    image
}

/// Returns the disk from which the guest boots while it is rescued.
fn rescue_disk(stage: &Stage, server: Uuid) -> Option<Vec<u8>> {
    let dir = stage.running.cloud.config.data_dir.clone();
    let entries = std::fs::read_dir(dir.join("cells/cell1/hosts/cell1-host1/guests").join(server.to_string()));
    let entries = entries.expect("the guest's directory").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.ends_with("disk.rescue")).map(|path| std::fs::read(path).expect("a disk")).next()
}

#[test]
fn a_rescued_guest_boots_from_the_image_beside_its_own_disks() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let mender = image(&stage, b"a system that mends", json!({})).await;
        stage.guest_writes("cell1-host1", server, b"what the user keeps").await;
        let request = json!({"rescue": {"adminPass": "s3cret", "rescue_image_ref": mender}});
        let answer = stage.admin.act(server, request.clone()).await.expect(200);
        assert_eq!(answer.body, json!({"adminPass": "s3cret"}));
        let shown = stage.at_rest(server, "RESCUE").await;
        assert_eq!((&shown["OS-EXT-STS:vm_state"], &shown["OS-EXT-STS:power_state"]), (&json!("rescued"), &json!(1)));
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host1"]));
        let own = stage.disks("cell1-host1", server).await;
        stage.guest_writes("cell1-host1", server, b"what the mender writes").await;
        assert_eq!(stage.disks("cell1-host1", server).await, own, "its own disks stay as they are");
        let disk = rescue_disk(&stage, server).expect("a rescue disk");
        let text = String::from_utf8_lossy(&disk).into_owned();
        assert!(text.starts_with("a system that mends") && text.ends_with("what the mender writes"), "{text}");
        assert!(text.contains("\"admin_pass_hash\":\"$5$") && !text.contains("s3cret"), "{text}");
        for refused in [
            request,
            json!({"os-stop": null}),
            json!({"reboot": {"type": "HARD"}}),
            json!({"rebuild": {"imageRef": mender}}),
            json!({"pause": null}),
        ] {
            stage.admin.act(server, refused).await.expect(409);
        }
        let volume = stage.admin.make_volume().await;
        stage.admin.attach(server, volume).await.expect(409);
        let console = stage.admin.act(server, json!({"os-getConsoleOutput": {}})).await.expect(200).body;
        assert!(console["output"].as_str().is_some_and(|lines| lines.contains("record 1 boot")), "{console}");
        assert_eq!(stage.admin.act(server, json!({"unrescue": null})).await.expect(202).text, "");
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(rescue_disk(&stage, server), None);
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host1"]));
        let root = stage.disks("cell1-host1", server).await.remove("disk").expect("a root disk");
        assert!(String::from_utf8_lossy(&root).contains("what the user keeps"));
        stage.admin.act(server, json!({"unrescue": null})).await.expect(409);
        let notified = stage.notified(server).await;
        for event in ["instance.rescue.start", "instance.rescue.end", "instance.unrescue.start", "instance.unrescue.end"] {
            assert!(notified.iter().any(|name| name == event), "{event}: {notified:?}");
        }
        let rescued = stage.admin.action(server, "rescue").await;
        assert_eq!(
            (&rescued["events"][0]["event"], &rescued["events"][0]["result"]),
            (&json!("compute_rescue_instance"), &json!("Success"))
        );
    });
}

#[test]
fn a_server_that_is_off_is_rescued_with_its_own_image() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.stop(&stage.member, server).await;
        let answer = stage.member.act(server, json!({"rescue": null})).await.expect(200);
        assert!(answer.body["adminPass"].as_str().is_some_and(|password| password.len() >= 8), "{}", answer.text);
        stage.at_rest(server, "RESCUE").await;
        stage.member.act(server, json!({"unrescue": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        stage.member.act(server, json!({"pause": null})).await.expect(202);
        stage.at_rest(server, "PAUSED").await;
        stage.member.act(server, json!({"rescue": null})).await.expect(409);
        for body in [
            json!({"rescue": {"colour": "red"}}),
            json!({"rescue": {"rescue_image_ref": "tiny"}}),
            json!({"rescue": {"rescue_image_ref": Uuid::from_u128(9)}}),
        ] {
            stage.member.act(server, body).await.expect(400);
        }
    });
}

#[test]
fn a_server_on_a_volume_is_rescued_by_an_image_that_comes_beside_it() {
    play_default(|stage| async move {
        let server = stage.create(stage.volume_server()).await;
        let plain = image(&stage, b"plain", json!({})).await;
        let beside = image(&stage, b"beside", json!({"hw_rescue_device": "disk", "hw_rescue_bus": "virtio"})).await;
        let request = |image: Uuid| json!({"rescue": {"rescue_image_ref": image}});
        let user = stage.member.speaking("2.87");
        stage.member.speaking("2.86").act(server, request(beside)).await.expect(400);
        user.act(server, request(plain)).await.expect(400);
        user.act(server, json!({"rescue": null})).await.expect(400);
        user.act(server, request(beside)).await.expect(200);
        stage.at_rest(server, "RESCUE").await;
        user.act(server, json!({"unrescue": null})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_rescued_guest_comes_back_with_its_host_and_goes_with_its_server() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.admin.act(server, json!({"rescue": null})).await.expect(200);
        stage.at_rest(server, "RESCUE").await;
        stage.power("cell1-host1", false).await;
        stage.power("cell1-host1", true).await;
        stage.until("the guest runs again", || async { !stage.runs_on(server).await.is_empty() }).await;
        assert!(rescue_disk(&stage, server).is_some());
        stage.lose_guests("cell1-host1").await;
        stage.power("cell1-host1", true).await;
        let is_off = async || stage.admin.show(server).await["OS-EXT-STS:power_state"] == json!(PowerState::Shutdown.code());
        stage.until("its record says that it is off", is_off).await;
        assert_eq!(stage.admin.status(server).await, "RESCUE");
        stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
    });
}
