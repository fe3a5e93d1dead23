//! Experiments on a cluster that `cellshift chaos run` starts itself.

use serde_json::Value;

use crate::stage::run;

/// Returns the path of a shipped experiment.
fn shipped(name: &str) -> String {
    format!("{}/experiments/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_shipped_experiment_holds_on_a_cluster() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("verdict.json");
    let experiment = shipped("conductor-dies-at-the-pivot");
    let ran = run(&["chaos", "run", &experiment, "--cluster", "--json", file.to_str().expect("UTF-8")]);
    let (words, complaint) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{words}\n{complaint}");
    let verdict: Value = serde_json::from_slice(&std::fs::read(&file).expect("the verdict")).expect("JSON");
    assert_eq!((&verdict["conclusion"], &verdict["mode"]), (&Value::from("held"), &Value::from("cluster")), "{words}");
    let arrived = verdict["expectations"].as_array().into_iter().flatten().find(|one| one["what"] == "moves that arrived");
    assert_eq!(arrived.map(|arrived| &arrived["found"]), Some(&Value::from("4")), "{words}");
    assert!(complaint.contains("FAULT  actor conductor is killed"), "{complaint}");
}

#[test]
fn a_fault_that_no_cluster_has_is_refused() {
    let experiment = shipped("target-host-dies-mid-spawn");
    let refused = run(&["chaos", "run", &experiment, "--cluster"]);
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{complaint}");
    assert!(complaint.contains("faults[0].what.host_off: the hosts are agents"), "{complaint}");
}
