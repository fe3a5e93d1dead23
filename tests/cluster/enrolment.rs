//! Enrolment as an operator does it: the commands, the files that they write, and what the service knows of them.

use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use cellshift::client::OPERATORS;
use cellshift_nats::credentials::UserKey;

use crate::stage::{SOURCE, Stage, run};

fn words(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn a_host_is_enrolled_listed_and_removed() {
    let stage = Stage::set().await;
    let files = tempfile::tempdir().expect("a directory");
    let out = files.path().to_str().expect("UTF-8");
    let service = ["--data-dir", stage.data()];
    let command = |arguments: &[&str]| run(&[arguments, &service].concat());

    let enrolled = command(&["host", "enroll", "rack7-node3", "--cell", "cell1", "--out", out]);
    assert!(enrolled.status.success(), "{:?}", words(&enrolled));
    for name in ["rack7-node3.toml", "rack7-node3.nk"] {
        let mode = std::fs::metadata(files.path().join(name)).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    let key = UserKey::read(&files.path().join("rack7-node3.nk")).expect("a key");
    let config = std::fs::read_to_string(files.path().join("rack7-node3.toml")).expect("a configuration");
    assert!(config.contains("rack7-node3.nk") && !config.contains(key.seed.expose()), "{config}");

    let listed = words(&command(&["host", "list", "--cell", "cell1"])).0;
    assert!(listed.contains("rack7-node3") && listed.contains(&key.public) && listed.contains(SOURCE), "{listed}");
    assert!(!words(&command(&["host", "list", "--cell", "cell2"])).0.contains("rack7-node3"));
    let config = words(&command(&["cell", "nats-config", "cell1", "--listen", "10.0.0.1:4222"])).0;
    assert!(config.contains("# Host rack7-node3\n") && config.contains(&key.public) && config.contains("\"10.0.0.1:4222\""), "{config}");
    // A seed begins with these letters; a public key may have them elsewhere.
    let is_seed = |word: &str| word.starts_with("SU");
    assert!(!config.split(|letter: char| !letter.is_alphanumeric()).any(is_seed), "no secret is in it: {config}");

    let other = files.path().join("other");
    let other = other.to_str().expect("UTF-8");
    let elsewhere = command(&["host", "enroll", "rack7-node3", "--cell", "cell2", "--out", other]);
    assert!(!elsewhere.status.success() && words(&elsewhere).1.contains("is in cell1"), "{:?}", words(&elsewhere));
    let removed = command(&["host", "remove", "rack7-node3"]);
    assert!(removed.status.success(), "{:?}", words(&removed));
    let left = stage.admin.get(OPERATORS, "/enrolments").await.expect("a list");
    assert!(!left.to_string().contains("rack7-node3"), "{left}");

    stage.create("kept").await;
    let refused = command(&["host", "remove", SOURCE]);
    assert!(!refused.status.success() && words(&refused).1.contains("409"), "{:?}", words(&refused));
    stage.end().await;
}
