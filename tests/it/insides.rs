//! No message for users names files, tables or SQL, whatever fails inside. The log and operators' answers do.

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Answer;
use crate::stage::{Stage, play_on_sqlite};

/// Words of the inside. No id and no name in the tests contains one of them.
const INSIDE: &[&str] = &[
    "/",
    "\\",
    "sql",
    "unique",
    "constraint",
    "no such table",
    "relation",
    "select ",
    "insert ",
    "images_gone",
    "os error",
    ".db",
    "diesel",
    "⟪",
];

/// Checks that the answer is a failure that its reader can act on, and contains no more.
#[track_caller]
fn check_refusal(what: &str, answer: &Answer) {
    assert!(answer.status >= 400, "{what}: {}", answer.text);
    assert!(answer.headers.contains_key("x-openstack-request-id"), "{what}");
    plain(what, &answer.text);
}

#[track_caller]
fn plain(what: &str, text: &str) {
    let lower = text.to_lowercase();
    for word in INSIDE {
        assert!(!lower.contains(word), "{what} speaks of {word:?}: {text}");
    }
}

async fn run(stage: &Stage, table: &'static str, statement: String) {
    let db = stage.running.cloud.databases()["image"].clone();
    db.write(move |conn| Ok(conn.batch_execute(&statement)?)).await.unwrap_or_else(|error| panic!("{table}: {error}"));
}

fn volume() -> Value {
    json!({"volume": {"name": "v", "size": 1}})
}

#[test]
fn no_answer_speaks_of_tables_or_sql() {
    play_on_sqlite(|stage| async move {
        let server = stage.create(stage.server()).await;
        for (table, paths) in [
            ("images", vec!["/image/v2/images".to_owned(), format!("/image/v2/images/{}", stage.image)]),
            ("volumes", vec!["/volume/v3/volumes".to_owned(), "/volume/v3/volumes/detail".to_owned()]),
            ("networks", vec!["/network/v2.0/networks".to_owned()]),
            ("ports", vec!["/network/v2.0/ports".to_owned(), format!("/servers/{server}/os-interface"), format!("/servers/{server}")]),
            ("resource_providers", vec!["/placement/resource_providers".to_owned()]),
            ("users", vec!["/identity/v3/users".to_owned()]),
        ] {
            run(&stage, table, format!("ALTER TABLE {table} RENAME TO {table}_gone")).await;
            for path in &paths {
                let answer = stage.admin.get(path).await;
                if answer.status >= 400 || !path.starts_with("/servers") {
                    check_refusal(path, &answer);
                }
            }
            let made = match table {
                "volumes" => Some(stage.member.post("/volume/v3/volumes", volume()).await),
                "networks" => Some(stage.member.post("/network/v2.0/networks", json!({"network": {"name": "n"}})).await),
                "images" => Some(stage.server().ask(&stage.member).await),
                _ => None,
            };
            if let Some(made) = made {
                check_refusal(table, &made);
            }
            run(&stage, table, format!("ALTER TABLE {table}_gone RENAME TO {table}")).await;
        }
    });
}

#[test]
fn no_answer_and_no_fault_speaks_of_files() {
    play_on_sqlite(|stage| async move {
        let folder = stage.running.cloud.config.data_dir.join("images");
        assert!(folder.is_dir(), "{}", folder.display());
        let (kept, server) = (folder.with_extension("kept"), stage.create(stage.server()).await);
        let download = format!("/image/v2/images/{}/file", stage.image);
        // A file in the folder's place: nobody can read or write there, whoever runs the test.
        std::fs::rename(&folder, &kept).expect("the folder goes");
        std::fs::write(&folder, b"").expect("a file");
        check_refusal("a download", &stage.member.get(&download).await);
        let image = stage.member.post("/image/v2/images", json!({"name": "i", "disk_format": "raw", "container_format": "bare"})).await;
        let image: Uuid = image.expect(201).body["id"].as_str().expect("an id").parse().expect("a uuid");
        check_refusal("an upload", &stage.member.upload(image, b"some bytes".to_vec()).await);
        let failed = crate::client::id_of(&stage.server().ask(&stage.member).await.expect(202).body["server"]);
        let shown = stage.at_rest(failed, "ERROR").await;
        plain("a fault", shown["fault"]["message"].as_str().expect("a message"));
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        for (server, action) in [(failed, "create"), (server, "resize")] {
            let shown = stage.admin.speaking("2.84").action(server, action).await;
            let details: Vec<_> =
                shown["events"].as_array().expect("events").iter().filter_map(|event| event["details"].as_str()).collect();
            assert!(!details.is_empty(), "{shown:#}");
            details.iter().for_each(|text| plain(action, text));
        }
        let journal = stage.admin.get(&format!("/ops/v1/migrations?server={server}")).await.expect(200);
        assert!(journal.text.contains("images"), "operators read which file it was: {}", journal.text);
        std::fs::remove_file(&folder).expect("the file goes");
        std::fs::rename(&kept, &folder).expect("the folder is back");
        stage.member.delete(&format!("/servers/{failed}")).await.expect(204);
        stage.gone(failed).await;
        stage.member.delete(&format!("/image/v2/images/{image}")).await.expect(204);
        stage.paid(server).await;
    });
}
