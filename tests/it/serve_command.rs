//! `cellshift serve --dev`, `cellshift env`, and the levels of the log.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::client::{NewServer, User, id_of};
use crate::service::{Service, program, run};
use crate::stage::{play_default, until};

/// Returns the command that serves with its log in this file, without the caller's level.
fn serving(log: &Path) -> Command {
    let mut command = Command::new(program());
    command.args(["serve", "--listen", "127.0.0.1:0"]).env_remove("RUST_LOG").stderr(File::create(log).expect("a log"));
    command
}

#[test]
fn a_cloud_to_develop_against_is_open_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let (service, said) = Service::of(serving(&log).arg("--dev"));
    let data = PathBuf::from(said.trim_end().rsplit("its data is in ").next().expect("a path"));

    let exports = run(&["env", "--data-dir", data.to_str().expect("a path")]).stdout;
    let shell = Command::new("sh").args(["-c", &format!("{exports} echo \"$OS_CLOUD $OS_CLIENT_CONFIG_FILE\"")]).output().expect("sh runs");
    assert_eq!(String::from_utf8_lossy(&shell.stdout), format!("cellshift {}\n", data.join("clouds.yaml").display()));

    actix_rt::System::new().block_on(async {
        let (member, admin) = (service.user(&data, "cellshift").await, service.user(&data, "cellshift-admin").await);
        let image = id_of(&member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
        let server = id_of(&NewServer::of_image(image).named("web").ask(&member).await.expect(202).body["server"]);
        admin.notification("instance.create.end", Some(server)).await;
        member.resize(server, "gen2.small").await.expect(202);
        admin.notification("instance.resize_finish.end", Some(server)).await;
        admin.get("/ops/v1/chaos/actors").await.expect(200);
        // An operation ends after its last notification.
        until("the resize has its line", async || std::fs::read_to_string(&log).is_ok_and(|log| log.contains(" resize of "))).await;
    });
    service.stop();
    let log = std::fs::read_to_string(&log).expect("a log");
    let lines: Vec<&str> = log.lines().collect();
    let of = |kind: &str| lines.iter().find(|line| line.contains(&format!("cellshift::operations {kind} of \"web\" done after "))).copied();
    let (created, resized) = (of("create"), of("resize"));
    assert!(created.is_some_and(|line| line.contains(", cell1/")), "{log}");
    assert!(resized.is_some_and(|line| line.contains(", cell1/") && line.contains(" → cell2/")), "{log}");
    assert_eq!(lines.iter().filter(|line| !line.contains(" WARN ")).count(), 2, "nothing else is said: {log}");
    assert!(!data.exists(), "the data are gone");
}

/// Returns the number of resets that the service has done.
async fn resets_done(admin: &User) -> Option<u64> {
    // The service is away for a moment.
    admin.try_get("/ops/v1/dev/reset").await.and_then(|answer| answer.body["reset"]["done"].as_u64())
}

#[test]
fn a_cloud_to_develop_against_is_brought_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("small.toml");
    std::fs::write(&config, "[cells]\ncount = 1\n").expect("a file");
    let (service, said) = Service::of(serving(&dir.path().join("log")).args(["--dev", "--config"]).arg(&config));
    let data = PathBuf::from(said.trim_end().rsplit("its data is in ").next().expect("a path"));
    assert!(said.contains(" with cell1 (2 hosts); "), "{said}");
    actix_rt::System::new().block_on(async {
        let (member, admin) = (service.user(&data, "cellshift").await, service.user(&data, "cellshift-admin").await);
        let mut threads = Vec::new();
        for round in 1..=4 {
            let image = id_of(&member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
            let server = id_of(&NewServer::of_image(image).named("web").ask(&member).await.expect(202).body["server"]);
            admin.notification("instance.create.end", Some(server)).await;
            admin.delete(&format!("/image/v2/images/{image}")).await.expect(204);
            std::fs::write(data.join("policy.yaml"), "").expect("the policy is written");
            member.post("/ops/v1/dev/reset", json!({})).await.expect(403);
            assert_eq!(admin.post("/ops/v1/dev/reset", json!({})).await.expect(202).body["reset"]["done"], round);
            until("the cloud is reset", async || resets_done(&admin).await == Some(round)).await;
            // Tokens of before are valid still, because the first state has the same accounts.
            assert_eq!(member.get("/servers").await.expect(200).body["servers"], json!([]));
            assert!(std::fs::read_to_string(data.join("policy.yaml")).expect("the policy").contains("cross_cell"));
            assert_eq!(admin.get("/ops/v1/audit").await.expect(200).body["clean"], true);
            threads.push(service.threads());
        }
        // The pools of a cloud that is left behind have some fifteen threads; those of a cloud at work come and go one by one.
        assert!(threads[3] < threads[1] + 30, "no reset leaves the threads of its cloud: {threads:?}");
    });
    service.stop();
    assert!(!data.exists(), "the data are gone");
}

#[test]
fn only_a_cloud_to_develop_against_can_be_brought_back() {
    play_default(|stage| async move {
        stage.admin.post("/ops/v1/dev/reset", json!({})).await.expect(404);
        stage.member.post("/ops/v1/dev/reset", json!({})).await.expect(403);
    });
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("elsewhere.toml");
    std::fs::write(&config, "[database]\napi = \"postgres://u:secret@h/d\"\n").expect("a file");
    let refused = run(&["serve", "--dev", "--config", config.to_str().expect("a path")]);
    assert!(refused.code == Some(1) && refused.stderr.contains("leave [database] out"), "{}", refused.stderr);
}

#[test]
fn the_log_has_the_level_that_is_asked_for_last() {
    for (option, variable, expected) in [(None, None, "INFO"), (None, Some("debug"), "DEBUG"), (Some("info"), Some("debug"), "INFO")] {
        let dir = tempfile::tempdir().expect("a directory");
        let (data, log) = (dir.path().join("data"), dir.path().join("log"));
        let mut command = serving(&log);
        command.arg("--data-dir").arg(&data).args(option.into_iter().flat_map(|level| ["--log", level]));
        command.envs(variable.map(|level| ("RUST_LOG", level)));
        let (service, _) = Service::of(&mut command);
        actix_rt::System::new().block_on(async {
            service.user(&data, "cellshift").await.get("/servers").await.expect(200);
        });
        service.stop();
        let log = std::fs::read_to_string(&log).expect("a log");
        assert_eq!(log.contains(" GET 200 /compute/v2.1/servers"), expected == "DEBUG", "{log}");
        assert!(log.contains("told to stop; no operation is in flight") && !log.contains('\u{1b}'), "{log}");
    }
    let wrong = run(&["serve", "--log", "loud"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("--log: \"loud\" is no level"), "{}", wrong.stderr);
}

#[test]
fn a_requests_id_finds_the_lines_of_its_host() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let (service, said) = Service::of(serving(&log).args(["--dev", "--log", "warn,cellshift_host=debug"]));
    let data = PathBuf::from(said.trim_end().rsplit("its data is in ").next().expect("a path"));
    let id = actix_rt::System::new().block_on(async {
        let (member, admin) = (service.user(&data, "cellshift").await, service.user(&data, "cellshift-admin").await);
        let image = id_of(&member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
        let answer = NewServer::of_image(image).named("web").ask(&member).await.expect(202);
        admin.notification("instance.create.end", Some(id_of(&answer.body["server"]))).await;
        answer.headers["x-openstack-request-id"].to_str().expect("text").to_owned()
    });
    service.stop();
    let log = std::fs::read_to_string(&log).expect("a log");
    let has_line = |done: &str| log.lines().any(|line| line.contains(done) && line.contains(&format!("request={id}")));
    assert!(has_line(" the host did ") && log.lines().filter(|line| line.contains(&id)).count() > 1, "{id} in {log}");
}
