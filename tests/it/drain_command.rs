//! `cellshift drain` and `cellshift drains` over a running service.

use serde_json::{Value, json};

use crate::client::{NewServer, id_of};
use crate::command_reach::{run_with, users};
use crate::service::Service;

#[test]
fn a_drain_is_tried_followed_and_listed_on_the_command_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().to_str().expect("a path");
    let service = Service::start(dir.path(), &[]);
    let server = actix_rt::System::new().block_on(async {
        let users = users(&service, dir.path()).await;
        let image = id_of(&users.member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
        let new = NewServer::of_image(image).flavor("m1.tiny").on_host("cell1-host1").named("web");
        let server = id_of(&new.ask(&users.admin).await.expect(202).body["server"]);
        users.admin.notification("instance.create.end", Some(server)).await;
        users.admin.act(server, json!({"lock": null})).await.expect(202);
        server.to_string()
    });
    let run = |arguments: &[&str]| run_with(&[], &[arguments, &["--data-dir", data]].concat());

    let tried = run(&["drain", "cell1-host1", "--dry-run"]);
    assert_eq!(tried.code, Some(3), "{}", tried.stderr);
    assert!(tried.stdout.contains("  1 server stays: the server is locked (web)\n"), "{}", tried.stdout);
    assert!(tried.stdout.ends_with("One server stays where it is.\n"), "{}", tried.stdout);
    assert_eq!(run(&["drains"]).stdout.lines().skip(1).collect::<Vec<_>>(), ["(none)"]);
    let far = run(&["drain", "cell1", "--to", "cell2"]);
    assert!(far.stderr.contains("403") && far.stderr.contains("cross_cell"), "{}", far.stderr);
    let nothing = run(&["drain", "nowhere"]);
    assert!(nothing.stderr.contains("no host and no cell is called \"nowhere\""), "{}", nothing.stderr);

    actix_rt::System::new().block_on(async {
        let admin = users(&service, dir.path()).await.admin;
        admin.act(server.parse().expect("an id"), json!({"unlock": null})).await.expect(202);
    });
    let tried = run(&["drain", "cell1-host1", "--dry-run"]);
    let outlook = "After the moves these hosts have in use:\n  cell1-host2 in cell1: 1 of 64 vCPUs, 512 of 32768 MiB of memory, 1 of 200 GiB of disk; \
                   one more server\nHow long the moves take is not measured yet: no live move has ended.\n";
    assert!(tried.code == Some(0) && tried.stdout.ends_with(outlook), "{}", tried.stdout);
    let drained = run(&["drain", "cell1-host1", "--to", "cell1", "--max-in-flight", "2"]);
    assert!(drained.stdout.contains(outlook), "{}", drained.stdout);
    assert_eq!(drained.code, Some(0), "{} {}", drained.stdout, drained.stderr);
    assert!(drained.stdout.contains("is done: 1 moved, 0 gone, 0 in flight, 0 waiting, 0 refused"), "{}", drained.stdout);
    assert!(drained.stdout.contains("stays disabled"), "{}", drained.stdout);
    assert!(drained.stderr.contains("1/1 servers"), "{}", drained.stderr);
    let listed = run(&["drains"]).stdout;
    let id = listed.lines().nth(1).and_then(|line| line.split(' ').next()).expect("one").to_owned();
    assert_eq!(run(&["drains", &id]).code, Some(0));
    let late = run(&["drains", &id, "--cancel"]);
    assert!(late.stderr.contains("409") && late.stderr.contains("is done"), "{}", late.stderr);
    let undone = run(&["drain", "cell1-host1", "--undo"]);
    assert!(undone.stdout.contains("\n  1 server on cell1-host2 (web)\n"), "{} {}", undone.stdout, undone.stderr);

    actix_rt::System::new().block_on(async {
        let admin = users(&service, dir.path()).await.admin;
        admin.act(server.parse().expect("an id"), json!({"lock": null})).await.expect(202);
    });
    let left = run(&["drain", "cell1-host2"]);
    assert_eq!(left.code, Some(3), "{} {}", left.stdout, left.stderr);
    assert!(left.stdout.contains("\n  1 server stays: the server is locked (web)\n"), "{}", left.stdout);
    let id = run(&["drains"]).stdout.lines().nth(1).and_then(|line| line.split(' ').next()).expect("one").to_owned();
    let report: Value = serde_json::from_str(&run(&["drains", &id, "-o", "json"]).stdout).expect("JSON");
    assert_eq!((&report["report"][0]["server"], &report["report"][0]["name"]), (&json!(server), &json!("web")), "{report:#}");
    service.stop();
}
