//! `cellshift audit` as operators run it: on a running service, on a stopped one's data, on broken data, and without data.

use std::path::Path;

use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, PATIENCE, User, id_of};
use crate::service::{self, Service};

/// The users of a service.
struct Users {
    member: User,
    admin: User,
}

async fn make(users: &Users, image: Uuid) -> Uuid {
    let server = id_of(&NewServer::of_image(image).ask(&users.member).await.expect(202).body["server"]);
    users.admin.notification("instance.create.end", Some(server)).await;
    assert_eq!(users.member.status(server).await, "ACTIVE");
    server
}

/// Makes a running server, one in VERIFY_RESIZE, and a deleted one.
async fn fill(service: &Service, data: &Path) -> [Uuid; 3] {
    let users = Users { member: service.user(data, "cellshift").await, admin: service.user(data, "cellshift-admin").await };
    let Users { member, admin } = &users;
    let images = member.get("/image/v2/images?name=tiny").await.expect(200);
    let image = id_of(&images.body["images"][0]);
    let [running, resized, deleted] = [make(&users, image).await, make(&users, image).await, make(&users, image).await];
    member.resize(resized, "gen2.small").await.expect(202);
    admin.notification("instance.resize_finish.end", Some(resized)).await;
    assert_eq!(member.status(resized).await, "VERIFY_RESIZE");
    member.delete(&format!("/servers/{deleted}")).await.expect(204);
    admin.notification("instance.delete.end", Some(deleted)).await;
    // The notification comes while the record still exists.
    let gone = async { while member.get(&format!("/servers/{deleted}")).await.status != 404 {} };
    tokio::time::timeout(PATIENCE, gone).await.expect("it is deleted");
    [running, resized, deleted]
}

#[test]
fn the_audit_reads_running_and_stopped_services() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path();
    std::fs::write(data.join("policy.yaml"), "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n")
        .expect("a policy");
    let audit = ["audit", "--data-dir", data.to_str().expect("a path")];
    let service = Service::start(data, &[]);
    let [running, resized, _] = actix_rt::System::new().block_on(fill(&service, data));

    let ended = service::run(&audit);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.ends_with("clean: no violations\n"), "{}", ended.stdout);
    service.stop();
    let ended = service::run(&audit);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let json: Value = serde_json::from_str(&service::run(&[&audit[..], &["--json"]].concat()).stdout).expect("JSON");
    assert_eq!((&json["clean"], &json["violations"]), (&json!(true), &json!([])));

    // Removes the hidden record that a revert would need, and leaves a task on the running server.
    let mut cell1 = SqliteConnection::establish(data.join("cell1.db").to_str().expect("a path")).expect("the database opens");
    cell1.batch_execute(&format!("UPDATE instances SET task_state = 'resize_prep' WHERE uuid = '{running}'")).expect("a write");
    let ended = service::run(&audit);
    assert_eq!(ended.code, Some(3), "{}{}", ended.stdout, ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().filter(|line| line.contains(&running.to_string())).collect();
    assert!(matches!(lines[..], [line] if line.contains("I12") && line.contains("resize_prep")), "{}", ended.stdout);
    assert!(lines[0].contains(&format!(" ({running}): ")), "a name stands before the id: {}", ended.stdout);
    let json: Value = serde_json::from_str(&service::run(&[&audit[..], &["-o", "json"]].concat()).stdout).expect("JSON");
    assert_eq!(json["violations"][0]["subject"], format!("server {running}"), "the answer has ids");
    assert!(json["checked"]["names"][running.to_string()].is_string(), "{}", json["checked"]);
    assert!(!ended.stdout.contains(&resized.to_string()), "{}", ended.stdout);
}

#[test]
fn what_cannot_be_audited_is_said_and_has_a_code_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("a path").to_owned();
    std::fs::create_dir(path("empty")).expect("a directory");
    std::fs::create_dir(path("garbage")).expect("a directory");
    for file in ["api.db", "services.db"] {
        std::fs::write(dir.path().join("garbage").join(file), "this is not a database, and long enough to be looked at".repeat(40))
            .expect("a file");
    }
    std::fs::write(path("file"), "").expect("a file");
    for (name, part) in [
        ("missing", "there is no data directory"),
        ("empty", "has never been started with this data directory"),
        ("garbage", "not a database"),
        ("file", "there is no data directory"),
    ] {
        let ended = service::run(&["audit", "--data-dir", &path(name)]);
        assert_eq!(ended.code, Some(5), "{name}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.starts_with("cellshift: ") && ended.stderr.contains(part), "{name}: {}", ended.stderr);
        assert_eq!((ended.stderr.lines().count(), ended.stdout.as_str()), (1, ""), "{name}: {}", ended.stderr);
    }
    assert!(!dir.path().join("missing").exists(), "a look makes nothing");
}
