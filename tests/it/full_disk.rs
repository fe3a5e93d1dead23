//! No space is left for the files of images and hosts, or for a database. An operation at work is undone with a readable reason, and the
//! service goes on normally when there is space again.

use cellshift::chaos::borders::limit_disk;
use cellshift::chaos::point::{Moment, StepFault};
use cellshift::db::Db;
use diesel::connection::SimpleConnection;
use diesel::{QueryableByName, RunQueryDsl};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::id_of;
use crate::stage::{Stage, hosts, play_default, play_on_sqlite};

#[derive(QueryableByName)]
struct Pages {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    page_count: i64,
}

/// The database file may not grow: SQLite itself reports that it is full.
async fn fill(db: &Db) {
    let filled = db.write(|conn| {
        let pages = diesel::sql_query("PRAGMA page_count").get_result::<Pages>(conn)?.page_count;
        Ok(conn.batch_execute(&format!("PRAGMA max_page_count = {pages}"))?)
    });
    filled.await.expect("a full database");
}

async fn empty(db: &Db) {
    db.write(|conn| Ok(conn.batch_execute("PRAGMA max_page_count = 1000000000")?)).await.expect("room again");
}

/// The files of images, volumes and hosts find the disk full from the first byte of this step on.
fn full_at(stage: &Stage, step: &'static str) {
    let env = stage.world().env.clone();
    stage.arm(move |point| {
        if point.step == step && point.side == "act" && point.moment == Moment::BeforeEffect {
            limit_disk(&env, Some(0));
        }
        StepFault::None
    });
}

fn space_again(stage: &Stage) {
    stage.disarm();
    limit_disk(&stage.world().env, None);
}

/// Returns the reason that administrators read in a server's newest action.
async fn reason(stage: &Stage, server: Uuid, action: &str) -> String {
    let shown = stage.admin.speaking("2.84").action(server, action).await;
    assert_eq!(shown["message"], "Error", "{shown:#}");
    let failed = shown["events"].as_array().expect("events").iter().find(|event| event["result"] == "Error");
    failed.and_then(|event| event["details"].as_str()).unwrap_or_else(|| panic!("a reason in {shown:#}")).to_owned()
}

#[test]
fn a_server_that_finds_no_space_says_so_and_the_next_one_runs() {
    play_default(|stage| async move {
        full_at(&stage, "prepare_guest");
        let server = id_of(&stage.server().ask(&stage.member).await.expect(202).body["server"]);
        let shown = stage.at_rest(server, "ERROR").await;
        let why = shown["fault"]["message"].as_str().expect("a reason").to_owned();
        assert!(why.contains("space"), "{why}");
        assert!(stage.holds(server).await.is_empty() && stage.runs_on(server).await.is_empty());
        space_again(&stage);
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        stage.create(stage.server()).await;
    });
}

#[test]
fn a_move_without_space_comes_back_and_can_be_repeated() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.guest_writes(&source, server, b"dear data").await;
        for step in ["upload_snapshot", "prepare_at_target"] {
            full_at(&stage, step);
            stage.member.resize(server, "gen2.small").await.expect(202);
            stage.at_rest(server, "ACTIVE").await;
            space_again(&stage);
            let why = reason(&stage, server, "resize").await;
            assert!(why.contains("space"), "{step}: {why}");
            assert_eq!((stage.runs_on(server).await, stage.holds(server).await), (hosts(&[&source]), hosts(&[&source])), "{step}");
            assert_eq!(stage.migration_status("cell1", server).await, "error");
            assert!(stage.record("cell2", server).await.is_none());
        }
        stage.cross(server).await;
        let target = stage.host_of(server).await;
        assert!(crate::resize_confirm::contains(&stage.disks(&target, server).await["disk"], b"dear data"));
    });
}

#[test]
fn a_full_database_refuses_writes_and_the_service_goes_on() {
    play_on_sqlite(|stage| async move {
        let server = stage.create(stage.server()).await;
        let api = stage.world().api.db().clone();
        let mut refused = 0;
        for number in 0..8 {
            // The writer opens the file anew after a failure, and the limit belongs to its connection.
            fill(&api).await;
            let answer = stage.server().named(&format!("n{number}")).with("networks", json!("none")).ask(&stage.admin).await;
            match answer.status {
                202 => {}
                503 => {
                    refused += 1;
                    assert!(answer.message().contains("full"), "{}", answer.text);
                }
                other => panic!("{other}: {}", answer.text),
            }
        }
        assert!(refused > 0, "a database that cannot grow refuses a new server");
        // Requests that need no room go on.
        assert_eq!(stage.member.status(server).await, "ACTIVE");
        empty(&api).await;
        stage.create(stage.server()).await;
        stage.cross(server).await;
    });
}

#[test]
fn a_cell_without_space_for_a_copy_sends_the_server_back() {
    play_on_sqlite(|stage| async move {
        // More than the free pages of the file hold.
        let metadata: serde_json::Map<String, Value> = (0..100).map(|at| (format!("key{at}"), json!("b".repeat(255)))).collect();
        let server = stage.create(stage.server().with("metadata", json!(metadata))).await;
        let source = stage.runs_on(server).await;
        let cell2 = stage.cell("cell2").db().clone();
        fill(&cell2).await;
        stage.member.resize(server, "gen2.small").await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, source);
        let why = reason(&stage, server, "resize").await;
        assert!(why.contains("full"), "{why}");
        empty(&cell2).await;
        stage.paid(server).await;
        stage.cross(server).await;
    });
}
