//! The disk of an agent is full: moves to it go back with the reason, and the agent serves again when there is room.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::small_disk::SmallDisk;
use crate::stage::{SOURCE, Stage, TARGET, until};

/// The size of the agent's disk in MiB.
const SIZE: u64 = 32;

#[tokio::test]
async fn a_full_disk_sends_a_server_back_and_serves_again() {
    let Some(disk) = SmallDisk::mount(SIZE) else {
        println!("skipped: only root can mount the small file system of this story");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let of_agent = dir.path().join("agents").join(TARGET);
    std::fs::create_dir_all(&of_agent).expect("the agent's directory");
    symlink(disk.path(), of_agent.join("data")).expect("its data are on the small disk");
    let stage = Stage::start(dir, 1, |_| {}, |_, server| server).await;
    let server = stage.create("moved").await;
    disk.fill();
    stage.begin_move(&server).await;
    let is_back = async || {
        let (look, operation) = (stage.look(&server).await, stage.newest(&server).await);
        look["status"] == "ACTIVE" && look["OS-EXT-STS:task_state"].is_null() && operation["state"] == "unwound"
    };
    until("the server runs at its source while the disk is full", is_back).await;
    assert_eq!(stage.host_of(&server).await, SOURCE);
    let operation = stage.newest(&server).await;
    let reason = operation["error"].as_str().unwrap_or_default();
    assert!(reason.contains("No space left on device") && reason.contains(TARGET), "{operation:#}");

    disk.free();
    stage.rests(&server, &["ACTIVE"]).await;
    assert_eq!(stage.host_of(&server).await, SOURCE);
    stage.begin_move(&server).await;
    stage.rests(&server, &["VERIFY_RESIZE"]).await;
    stage.confirm(&server).await;
    stage.act(&server, json!({"os-stop": Value::Null})).await;
    stage.rests(&server, &["SHUTOFF"]).await;
    stage.end().await;
}
