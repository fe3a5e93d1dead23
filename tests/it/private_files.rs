//! Only the owner may read the files below the data directory: databases, keys, images, volumes, guests, disks in transfer.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use uuid::Uuid;

use crate::client::{NewServer, PATIENCE, User, id_of};
use crate::service::{self, Service};

/// Returns the files that others could read, write or enter, with their modes.
fn open_to_others(path: &Path) -> Vec<String> {
    // SQLite's journals come and go while the service runs.
    let Ok(metadata) = fs::symlink_metadata(path) else { return Vec::new() };
    let mode = metadata.permissions().mode() & 0o777;
    let mut open: Vec<String> = (mode & 0o077 != 0).then(|| format!("{} {mode:o}", path.display())).into_iter().collect();
    if metadata.is_dir() {
        open.extend(fs::read_dir(path).expect("a directory").flat_map(|entry| open_to_others(&entry.expect("an entry").path())));
    }
    open
}

/// Makes a server with a volume that has moved to the other cell, was confirmed there and is off.
async fn move_one(service: &Service, data: &Path) -> Uuid {
    let (member, admin): (User, User) = (service.user(data, "cellshift").await, service.user(data, "cellshift-admin").await);
    let images = member.get("/image/v2/images?name=tiny").await.expect(200);
    let volume = json!([{"boot_index": 0, "uuid": id_of(&images.body["images"][0]), "source_type": "image",
        "destination_type": "local", "delete_on_termination": true}, {"source_type": "blank", "destination_type": "volume",
        "volume_size": 1, "delete_on_termination": true}]);
    let new = NewServer::of_image(id_of(&images.body["images"][0])).with("block_device_mapping_v2", volume);
    let server = id_of(&new.ask(&member).await.expect(202).body["server"]);
    admin.notification("instance.create.end", Some(server)).await;
    member.resize(server, "gen2.small").await.expect(202);
    admin.notification("instance.resize_finish.end", Some(server)).await;
    assert_eq!(open_to_others(data), Vec::<String>::new(), "while the source keeps its disks");
    member.confirm(server).await.expect(204);
    admin.notification("instance.resize_confirm.end", Some(server)).await;
    let active = async { while member.status(server).await != "ACTIVE" {} };
    tokio::time::timeout(PATIENCE, active).await.expect("it is confirmed");
    member.act(server, json!({"os-stop": null})).await.expect(202);
    admin.notification("instance.power_off.end", Some(server)).await;
    server
}

#[test]
fn nothing_in_the_data_directory_is_open_to_other_users() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    fs::create_dir(&data).expect("a directory");
    fs::write(data.join("policy.yaml"), "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n").expect("a policy");
    fs::set_permissions(&data, Permissions::from_mode(0o755)).expect("its owner");
    let log = dir.path().join("log");

    let service = Service::start_logging(&data, &[], &log);
    let server = actix_rt::System::new().block_on(move_one(&service, &data));
    assert_eq!(open_to_others(&data), Vec::<String>::new(), "while the service runs");
    service.stop();
    assert_eq!(open_to_others(&data), Vec::<String>::new(), "after it has stopped");
    let text = fs::read_to_string(&log).expect("the log");
    assert!(text.contains("other users could enter the data directory"), "{text}");

    // As an earlier release left them.
    let disks = data.join(format!("cells/cell2/hosts/cell2-host1/guests/{server}"));
    let disks = if disks.is_dir() { disks } else { data.join(format!("cells/cell2/hosts/cell2-host2/guests/{server}")) };
    for file in [data.join("api.db"), disks.join("disk"), disks] {
        let mode = if file.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("its owner");
    }
    assert_eq!(open_to_others(&data).len(), 3);
    let ended = service::run(&["db", "migrate", "--data-dir", data.to_str().expect("a path")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("3 paths"), "{}", ended.stderr);
    assert_eq!(open_to_others(&data), Vec::<String>::new());
}
