//! Cells whose databases are really taken down: a PostgreSQL server that is killed, paused, cut off or slow, and a SQLite file that cannot
//! be read.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use cellshift::config::{Config, Seconds};
use futures::future::join_all;
use serde_json::json;
use uuid::Uuid;

use super::{entries, keys, listed, not_now, quick};
use crate::chaos_proxy::{ChaosProxy, Mode};
use crate::databases;
use crate::postgres_server::PostgresServer;
use crate::stage::{Stage, play_placed};

/// A way in which a database fails, and its end.
struct Trouble {
    what: &'static str,
    begin: fn(&PostgresServer, &ChaosProxy),
    end: fn(&PostgresServer, &ChaosProxy),
}

const TROUBLES: &[Trouble] = &[
    Trouble { what: "killed", begin: |server, _| server.crash(), end: |server, _| server.go() },
    Trouble { what: "paused", begin: |server, _| server.pause(), end: |server, _| server.resume() },
    Trouble { what: "refusing", begin: |_, proxy| proxy.set(Mode::Refuse), end: |_, proxy| proxy.set(Mode::Pass) },
    Trouble { what: "hanging", begin: |_, proxy| proxy.set(Mode::Hang), end: |_, proxy| proxy.set(Mode::Pass) },
    Trouble {
        what: "hanging, then broken",
        begin: |_, proxy| proxy.set(Mode::Hang),
        end: |_, proxy| {
            proxy.break_connections();
            proxy.set(Mode::Pass);
        },
    },
];

/// A server in cell1, whose database fails at times, and one in cell2.
struct Servers {
    here: Uuid,
    there: Uuid,
}

/// Runs a story with cell1 behind the proxy on its own server. Does nothing without PostgreSQL.
fn on_postgres<F: Future<Output = ()>>(story: impl FnOnce(Arc<Stage>, Arc<PostgresServer>, Arc<ChaosProxy>) -> F) {
    if !databases::on_postgres() {
        return;
    }
    let server = Arc::new(PostgresServer::start());
    let proxy = Arc::new(ChaosProxy::before(server.address()));
    let url = server.url_at(proxy.address());
    let place = |config: &mut Config| {
        databases::place(config);
        config.database.cells.insert("cell1".to_owned(), url);
    };
    let (kept_server, kept_proxy) = (server.clone(), proxy.clone());
    play_placed(quick, place, |stage| story(stage, kept_server, kept_proxy));
}

async fn make(stage: &Stage) -> Servers {
    let here = stage.create(stage.server()).await;
    Servers { here, there: stage.create(stage.server().flavor("gen2.small")).await }
}

/// Checks that requests end in time while cell1 fails, and that answers name each server's state.
async fn goes_on(stage: &Stage, servers: &Servers, what: &str) {
    let expected = [(servers.here, "UNKNOWN".to_owned()), (servers.there, "ACTIVE".to_owned())];
    // Many concurrent requests would exhaust a pool that loses threads or connections to the cell.
    let lists = join_all((0..24).map(|_| stage.member.get("/servers/detail"))).await;
    for list in lists {
        let list = list.expect(200);
        assert!(list.took < Duration::from_secs(4), "{what}: {:?}", list.took);
        assert_eq!(entries(&list.body), expected, "{what}");
    }
    let health = &stage.running.tree.cell("cell1").expect("a cell").health;
    stage.until("the cell is known to be down", || async { !health.is_up() }).await;
    let list = stage.member.get("/servers/detail").await.expect(200);
    assert!(list.took < Duration::from_secs(1), "{what}: {:?}", list.took);
    assert_eq!(stage.member.status(servers.here).await, "UNKNOWN", "{what}");
    not_now(stage.member.act(servers.here, json!({"os-stop": null})).await, "cell1");
    said_without_the_cell(stage, servers, what).await;
    for (action, status) in [("os-stop", "SHUTOFF"), ("os-start", "ACTIVE")] {
        stage.member.act(servers.there, json!({ action: null })).await.expect(202);
        stage.at_rest(servers.there, status).await;
    }
}

/// Checks that answers about the cell's servers and hosts equal those under an injected outage.
async fn said_without_the_cell(stage: &Stage, servers: &Servers, what: &str) {
    let list = stage.member.get("/servers").await.expect(200).body;
    assert_eq!(keys(&list["servers"][0]), ["id", "links", "status"], "{what}");
    let detailed = stage.member.get("/servers/detail").await.expect(200).body;
    let partial_keys = ["created", "id", "links", "security_groups", "status", "tenant_id"];
    assert_eq!(keys(&detailed["servers"][0]), partial_keys, "{what}");
    for left_out in ["/servers?limit=5", "/servers/detail?status=ACTIVE", "/servers?sort_key=created_at"] {
        assert_eq!(listed(&stage.member, left_out).await, [servers.there], "{what} {left_out}");
    }
    assert_eq!(listed(&stage.member.speaking("2.68"), "/servers").await, [servers.there], "{what}");
    not_now(stage.member.get(&format!("/servers?marker={}", servers.here)).await, "cell1");
    not_now(stage.member.speaking("2.68").get(&format!("/servers/{}", servers.here)).await, "cell1");
    let services = stage.admin.get("/os-services?host=cell1-host1").await.expect(200).body;
    assert_eq!(services["services"], json!([{"binary": "nova-compute", "host": "cell1-host1", "status": "UNKNOWN"}]), "{what}");
    for path in
        ["/os-hypervisors", "/os-migrations", "/os-availability-zone", "/os-simple-tenant-usage?start=2020-01-01T00:00:00", "/ops/v1/cells"]
    {
        stage.admin.get(path).await.expect(200);
    }
}

async fn assert_back(stage: &Stage) {
    let health = &stage.running.tree.cell("cell1").expect("a cell").health;
    stage.until("the cell answers again", || async { health.is_up() }).await;
}

#[test]
fn a_cell_with_a_dead_postgresql_is_left_out_and_returns() {
    for trouble in TROUBLES {
        on_postgres(|stage, server, proxy| async move {
            let servers = make(&stage).await;
            let before = listed(&stage.member, "/servers").await;
            (trouble.begin)(&server, &proxy);
            goes_on(&stage, &servers, trouble.what).await;
            (trouble.end)(&server, &proxy);
            assert_back(&stage).await;
            let after = entries(&stage.member.get("/servers/detail").await.expect(200).body);
            assert_eq!(after.iter().map(|(id, _)| *id).collect::<Vec<_>>(), before, "{}", trouble.what);
            assert!(after.iter().all(|(_, status)| status == "ACTIVE"), "{}: {after:?}", trouble.what);
            stage.member.act(servers.here, json!({"os-stop": null})).await.expect(202);
            stage.at_rest(servers.here, "SHUTOFF").await;
        });
    }
}

#[test]
fn connections_that_break_and_a_slow_network_are_no_outage() {
    on_postgres(|stage, _, proxy| async move {
        let servers = make(&stage).await;
        for _ in 0..3 {
            proxy.break_connections();
            let list = entries(&stage.member.get("/servers").await.expect(200).body);
            assert_eq!(list.len(), 2);
            assert_eq!(stage.member.status(servers.here).await, "ACTIVE");
        }
        proxy.set(Mode::Delay(Duration::from_millis(15)));
        assert_eq!(stage.member.status(servers.here).await, "ACTIVE");
        stage.member.act(servers.here, json!({"os-stop": null})).await.expect(202);
        stage.at_rest(servers.here, "SHUTOFF").await;
        proxy.set(Mode::Pass);
        assert!(stage.running.tree.cell("cell1").expect("a cell").health.is_up());
    });
}

/// Runs a shell's line. Another process writes the file, because closing it in this process would end SQLite's locks.
fn shell(line: &str, file: &Path) {
    let status = Command::new("sh").args(["-ec", line, "sh"]).arg(file).status().expect("a shell");
    assert!(status.success(), "{line}");
}

/// Overwrites the file, and the index of its log in shared memory, without which no cached page is trusted.
const DAMAGE: &str = r#"cp "$1" "$1.kept"; cp "$1-wal" "$1-wal.kept"
    dd if=/dev/zero of="$1" bs="$(stat -c %s "$1")" count=1 conv=notrunc status=none
    truncate -s 0 "$1-wal"
    dd if=/dev/zero of="$1-shm" bs=136 count=1 conv=notrunc status=none"#;
const MEND: &str = r#"dd if="$1.kept" of="$1" conv=notrunc status=none
    cat "$1-wal.kept" > "$1-wal"
    dd if=/dev/zero of="$1-shm" bs=136 count=1 conv=notrunc status=none"#;

#[test]
fn a_cell_with_a_damaged_file_is_left_out_and_returns() {
    let quiet = |config: &mut Config| {
        quick(config);
        // Nothing else writes meanwhile.
        (config.compute.heartbeat, config.compute.service_down_time) = (Seconds::whole(300), Seconds::whole(900));
    };
    play_placed(
        quiet,
        |_| {},
        |stage| async move {
            let servers = make(&stage).await;
            let before = listed(&stage.member, "/servers").await;
            let file: PathBuf = stage.running.cloud.config.data_dir.join("cell1.db");
            shell(DAMAGE, &file);
            goes_on(&stage, &servers, "unreadable").await;
            shell(MEND, &file);
            assert_back(&stage).await;
            assert_eq!(listed(&stage.member, "/servers").await, before);
            assert_eq!(stage.member.status(servers.here).await, "ACTIVE");
        },
    );
}
