//! Options have their documented effects (`src/config.rs`).

use std::time::{Duration, Instant};

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::config::Seconds;
use serde_json::{Value, json};

use crate::client::id_of;
use crate::service;
use crate::stage::{play, play_default};

#[test]
fn quotas_bound_servers_and_what_they_carry() {
    play(
        |config| {
            config.quota.instances = 2;
            config.quota.cores = 3;
            config.quota.metadata_items = 1;
            config.quota.injected_files = 1;
            config.quota.injected_file_path_length = 8;
            config.quota.server_group_members = 1;
        },
        |stage| async move {
            stage.make_flavor("broad", 4, 64, 1).await;
            let refused = stage.server().flavor("broad").ask(&stage.member).await.expect(403);
            assert_eq!(refused.message(), "Quota exceeded for cores: Requested 4, but already used 0 of 3 cores");
            let refused = stage.server().with("metadata", json!({"a": "1", "b": "2"})).ask(&stage.member).await.expect(403);
            assert!(refused.message().contains("metadata_items"), "{}", refused.text);
            let old = stage.member.speaking("2.56");
            let file = |path: &str| json!({"path": path, "contents": "aGk="});
            let new = || stage.server().with("networks", json!("none"));
            let refused = new().with("personality", json!([file("/a"), file("/b")])).ask(&old).await.expect(403);
            assert!(refused.message().contains("injected_files"), "{}", refused.text);
            let refused = new().with("personality", json!([file("/too/long/a/path")])).ask(&old).await.expect(403);
            assert!(refused.message().contains("injected_file_path_bytes"), "{}", refused.text);

            let body = json!({"server_group": {"name": "small", "policy": "anti-affinity"}});
            let group = id_of(&stage.member.post("/os-server-groups", body).await.expect(200).body["server_group"]);
            let server = stage.create(stage.server().in_group(group).with("metadata", json!({"a": "1"}))).await;
            let refused = stage.server().in_group(group).ask(&stage.member).await.expect(403);
            assert_eq!(refused.message(), "Quota exceeded, too many servers in group");
            let path = format!("/servers/{server}/metadata");
            stage.member.post(&path, json!({"metadata": {"b": "2"}})).await.expect(403);
            stage.member.post(&path, json!({"metadata": {"a": "2"}})).await.expect(200);
            let refused = stage.member.resize(server, "broad").await.expect(403);
            assert!(refused.message().starts_with("Quota exceeded for cores: Requested 3,"), "{}", refused.text);
            // Of three requested servers one fits.
            stage.server().with("min_count", json!(1)).with("max_count", json!(3)).ask(&stage.member).await.expect(202);
            let refused = stage.server().ask(&stage.member).await.expect(403);
            assert!(refused.message().contains("but already used 2 of 2 instances"), "{}", refused.text);
        },
    );
}

#[test]
fn what_no_message_to_a_host_can_carry_is_refused() {
    play(
        |config| config.quota.injected_file_content_bytes = 1 << 20,
        |stage| async move {
            let old = stage.member.speaking("2.56");
            let files = |size: usize| json!([{"path": "/a", "contents": "a".repeat(size)}]);
            let new = |size| stage.server().with("networks", json!("none")).with("personality", files(size));
            let refused = new(400_000).ask(&old).await.expect(400);
            assert!(refused.message().contains("KiB on their way to a host"), "{}", refused.text);
            let server = id_of(&new(240_000).ask(&old).await.expect(202).body["server"]);
            stage.at_rest(server, "ACTIVE").await;
            let rebuild = json!({"rebuild": {"imageRef": stage.image, "personality": files(400_000)}});
            assert!(old.act(server, rebuild).await.expect(400).message().contains("KiB on their way to a host"));
        },
    );
}

#[test]
fn a_page_holds_no_more_than_the_configured_limit() {
    play(
        |config| config.api.max_limit = 2,
        |stage| async move {
            for name in ["one", "two", "three"] {
                stage.create(stage.server().named(name)).await;
            }
            for path in ["/servers", "/servers/detail", "/servers?limit=100", "/flavors?limit=3"] {
                let body = stage.member.get(path).await.expect(200).body;
                let (list, links) = if path.starts_with("/flavors") { ("flavors", "flavors_links") } else { ("servers", "servers_links") };
                assert_eq!(body[list].as_array().map(Vec::len), Some(2), "{path}: {body:#}");
                assert_eq!(body[links][0]["rel"], "next", "{path}: {body:#}");
            }
            let server = stage.member.get("/servers?limit=1").await.expect(200).body["servers"][0]["id"].as_str().unwrap().to_owned();
            let actions = format!("/servers/{server}/os-instance-actions?limit=0");
            for (path, list) in [("/servers?limit=0", "servers"), ("/servers/detail?limit=0", "servers"), (&actions, "instanceActions")] {
                let empty = stage.member.get(path).await.expect(200).body;
                assert_eq!(empty, json!({list: []}), "{path}: an empty page, without a link to another");
            }
            let hypervisors = stage.admin.get("/os-hypervisors").await.expect(200).body;
            assert_eq!(hypervisors["hypervisors"].as_array().map(Vec::len), Some(2), "{hypervisors:#}");
        },
    );
}

#[test]
fn passwords_are_shown_only_when_that_is_wanted() {
    play(
        |config| config.api.enable_instance_password = false,
        |stage| async move {
            let made = stage.server().ask(&stage.member).await.expect(202).body;
            assert_eq!(made["server"].get("adminPass"), None, "{made:#}");
            let server = crate::client::id_of(&made["server"]);
            stage.at_rest(server, "ACTIVE").await;
            let built = stage.member.act(server, json!({"rebuild": {"imageRef": stage.image}})).await.expect(202).body;
            assert_eq!(built["server"].get("adminPass"), None, "{built:#}");
            stage.at_rest(server, "ACTIVE").await;
        },
    );
    play_default(|stage| async move {
        let made = stage.server().ask(&stage.member).await.expect(202).body;
        assert_eq!(made["server"]["adminPass"].as_str().map(str::len), Some(12), "{made:#}");
    });
}

#[test]
fn a_cell_gets_as_long_as_configured_and_is_probed_as_often() {
    play(
        |config| {
            config.cells.timeout = Seconds::whole(2);
            config.cells.probe_interval = Seconds::millis(50);
        },
        |stage| async move {
            let server = stage.create(stage.server()).await;
            stage.cell("cell1").db().set_outage(Outage::Hangs);
            let begun = Instant::now();
            for _ in 0..3 {
                stage.member.speaking("2.68").get(&format!("/servers/{server}")).await.expect(503);
            }
            assert!(begun.elapsed() < Duration::from_secs(9), "2 s until it is known, not the default's 10 s: {:?}", begun.elapsed());
            let health = || async {
                let body = stage.admin.get("/ops/v1/cells").await.expect(200).body;
                body["cells"][1]["health"].clone()
            };
            assert_ne!(health().await, "up");
            stage.cell("cell1").db().set_outage(Outage::None);
            let begun = Instant::now();
            stage.until("the cell is up again", || async { health().await == json!("up") }).await;
            assert!(begun.elapsed() < Duration::from_secs(4), "a probe every 50 ms, not every 5 s: {:?}", begun.elapsed());
            stage.at_rest(server, "ACTIVE").await;
        },
    );
}

#[test]
fn printed_options_are_readable_and_wrong_values_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("cellshift.toml");
    let data = dir.path().join("data");
    let path = |path: &std::path::Path| path.to_str().expect("a path").to_owned();
    let printed = service::run(&["config", "--cells", "1", "--data-dir", &path(&data)]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    std::fs::write(&file, &printed.stdout).expect("a file");
    assert_eq!(service::run(&["config", "--config", &path(&file)]).stdout, printed.stdout);

    for (text, parts) in [
        ("[migration.deadlines]\nupload = 5\n", ["migration.deadlines.upload must be", "upload_snapshot"]),
        ("[quota]\ncores = -7\n", ["quota.cores must be", "-1 for no limit"]),
        ("[database]\napi = \"oracle://db\"\n", ["database.api must be", "postgres://"]),
        ("[cells]\ncache_down_cells = true\n", ["cache_down_cells", "expected one of"]),
    ] {
        std::fs::write(&file, text).expect("a file");
        let ended = service::run(&["serve", "--config", &path(&file), "--data-dir", &path(&data)]);
        assert_eq!(ended.code, Some(1), "{text}: {}", ended.stderr);
        assert!(parts.iter().all(|part| ended.stderr.contains(part)), "{text}: {}", ended.stderr);
    }
    assert!(!data.exists(), "nothing was made");
}

#[test]
fn the_limits_that_users_are_shown_are_those_that_bind() {
    play(
        |config| config.quota.instances = 3,
        |stage| async move {
            let shown = stage.member.get("/compute/v2.1/limits").await.expect(200).body;
            assert_eq!(shown["limits"]["absolute"]["maxTotalInstances"], Value::from(3), "{shown:#}");
        },
    );
}
