//! The shipped experiments: each explains itself, runs in simulation, and holds. The documentation of their files is correct.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cellshift::chaos::experiment::check::parse;
use cellshift::chaos::experiment::draw::drawn;
use cellshift::chaos::experiment::html::{self, Origin};
use cellshift::chaos::experiment::scenario::Scenario;
use cellshift::chaos::experiment::text::text;
use cellshift::chaos::experiment::verdict::{Conclusion, Verdict};
use cellshift::env::Env;
use cellshift::simulation::{Options, run_with};
use serde_json::Value;

use crate::service::program;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments")
}

fn read(name: &str) -> Scenario {
    let file = folder().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    parse(&text).unwrap_or_else(|complaints| panic!("{name}: {complaints:?}"))
}

fn holds(name: &str) -> Verdict {
    let scenario = read(name);
    assert!(!scenario.title.is_empty() && scenario.description.len() > 200, "{name} explains itself");
    let planned = drawn(scenario.seed, &scenario);
    let outcome = run_with(scenario.seed, &scenario, &planned, &Options::default()).expect("a run");
    let verdict = Verdict::of(&scenario, &planned, outcome.findings);
    assert_eq!(verdict.conclusion, Conclusion::Held, "{}", text(&verdict));
    assert!(!verdict.findings.injected.is_empty() && verdict.recovery.is_some(), "it shows something: {}", text(&verdict));
    let origin = Origin { at: Env::system().now(), again: None };
    let page = html::page(&verdict, &origin);
    for migration in verdict.findings.migrations.iter().filter(|migration| migration.is_move()) {
        assert!(page.contains(&format!("of server {}", &migration.server.simple().to_string()[..8])), "{}", migration.server);
    }
    verdict
}

#[test]
fn of_parallel_moves_of_a_group_the_claim_refuses_one() {
    let verdict = holds("parallel-moves-of-a-group");
    let acts = verdict.findings.migrations.iter().flat_map(|migration| &migration.steps);
    let claims = acts.filter(|step| step.step == "claim_at_target" && step.side == "act");
    let (successes, refused): (Vec<_>, Vec<_>) = claims.partition(|step| step.outcome.as_deref() == Some("ok"));
    assert_eq!((successes.len(), refused.len()), (1, 1), "{}", text(&verdict));
    assert!(refused[0].error.as_deref().is_some_and(|why| why.contains("anti-affinity")), "{refused:?}");
}

macro_rules! shipped {
    ($($test:ident = $name:literal),+ $(,)?) => {
        const SHIPPED: &[&str] = &[$($name),+];

        $(#[test]
        fn $test() {
            drop(holds($name));
        })+
    };
}

shipped! {
    a_bad_day = "a-bad-day",
    abort_meets_the_end = "abort-meets-the-end",
    actors_stand_still = "actors-stand-still",
    bandwidth_runs_out_mid_move = "bandwidth-runs-out-mid-move",
    both_cells_flap = "both-cells-flap",
    clock_goes_back = "clock-goes-back",
    commits_that_say_they_failed = "commits-that-say-they-failed",
    conductor_dies_at_the_pivot = "conductor-dies-at-the-pivot",
    drain_whose_controller_dies = "drain-whose-controller-dies",
    evacuated_host_dies_and_returns = "evacuated-host-dies-and-returns",
    host_returns_without_guests = "host-returns-without-guests",
    late_effects_after_rollback = "late-effects-after-rollback",
    live_source_dies_after_switch_over = "live-source-dies-after-switch-over",
    lost_replies_at_upload = "lost-replies-at-upload",
    many_faults_for_few_servers = "many-faults-for-few-servers",
    parallel_moves_of_a_group = "parallel-moves-of-a-group",
    process_killed_during_confirm = "process-killed-during-confirm",
    requests_delivered_twice = "requests-delivered-twice",
    services_go_down_mid_move = "services-go-down-mid-move",
    target_cell_cut_off = "target-cell-cut-off",
    target_host_dies_mid_spawn = "target-host-dies-mid-spawn",
    two_conductors_one_stands_still = "two-conductors-one-stands-still",
}

#[test]
fn each_file_that_is_shipped_is_run_here() {
    let files = std::fs::read_dir(folder()).expect("the experiments").map(|entry| entry.expect("a file").path());
    let names: BTreeSet<String> = files.filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect();
    assert_eq!(names, SHIPPED.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn the_scenario_by_which_speed_is_measured_is_accepted() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/to-and-fro.toml");
    parse(&std::fs::read_to_string(file).expect("the scenario")).expect("no complaints");
}

/// Returns the fenced blocks of TOML in the document.
fn documented() -> (String, Vec<String>) {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/EXPERIMENTS.md");
    let text = std::fs::read_to_string(document).expect("the document");
    let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect();
    (text, blocks)
}

#[test]
fn documented_examples_are_accepted_and_keys_documented() {
    let (text, blocks) = documented();
    assert!(blocks.len() >= 2, "an example of a whole file and one of every fault");
    let mut keys = BTreeSet::new();
    for block in &blocks {
        let scenario = parse(block).unwrap_or_else(|complaints| panic!("{complaints:?} in\n{block}"));
        collect(&serde_json::to_value(&scenario).expect("JSON"), &mut keys);
    }
    collect(&serde_json::to_value(Scenario::default()).expect("JSON"), &mut keys);
    let missing: Vec<&String> = keys.iter().filter(|key| !text.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "not documented: {missing:?}");
    for name in SHIPPED {
        assert!(text.contains(&format!("{name}.toml")), "{name} is not in the list");
    }
}

fn collect(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, inner)| {
            keys.insert(key.clone());
            collect(inner, keys);
        }),
        Value::Array(items) => items.iter().for_each(|item| collect(item, keys)),
        _ => {}
    }
}

fn cellshift(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().expect("the program runs")
}

#[test]
fn the_command_prints_its_verdict_and_writes_both_reports() {
    let dir = tempfile::tempdir().expect("a directory");
    let (json, page) = (dir.path().join("verdict.json"), dir.path().join("verdict.html"));
    let file = folder().join("conductor-dies-at-the-pivot.toml");
    let (file, json_path, page_path) = (file.display().to_string(), json.display().to_string(), page.display().to_string());
    let output = cellshift(&["chaos", "run", &file, "--json", &json_path, "--html", &page_path]);
    let (report, progress) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{report}\n{progress}");
    assert!(report.contains("actor conductor is killed, at act take_ownership") && report.ends_with("Verdict: HELD\n"), "{report}");
    assert!(progress.contains("FAULT  actor conductor is killed") && progress.contains("everything is healed"), "{progress}");
    let verdict: Verdict = serde_json::from_str(&std::fs::read_to_string(json).expect("JSON")).expect("a verdict");
    assert_eq!((verdict.conclusion, verdict.findings.injected.len()), (Conclusion::Held, 2));
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("take_ownership") && page.contains("class=\"pivot\""));
    assert!(page.contains(&format!("cellshift chaos run {file} --seed {}", verdict.findings.seed)), "the command that replays it");
}

#[test]
fn the_exit_code_tells_held_broken_given_up_and_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).expect("a file");
        let output = cellshift(&["chaos", "run", "--quiet", &file.display().to_string()]);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    };
    let small = "[topology]\ncells = 2\nhosts_per_cell = 1\n[[workload.journeys]]\nacts = [{ resize = \"gen2.small\" }]\n";
    let (code, report) = run("broken.toml", &format!("faults = []\n{small}[expect]\narrived = {{ at_least = 2 }}\n"));
    assert_eq!(code, Some(3), "{report}");
    assert!(report.contains("moves that arrived: 1 (wanted: at least 2): BROKEN"), "{report}");
    let (code, report) = run("given-up.toml", &format!("faults = []\n{small}[abort]\nafter_seconds = 1\n"));
    assert_eq!(code, Some(4), "{report}");
    assert!(report.contains("the experiment gave up: 1 s have passed"), "{report}");
    let (code, report) = run("refused.toml", "title = \"x\"\n[[faults]]\nwhat = \"restart\"\nwhen = { step = \"prepare\" }\n");
    assert_eq!(code, Some(5), "{report}");
    assert!(report.contains("refused.toml: line 4, column") && report.contains("prepare_at_target"), "{report}");
    let check = cellshift(&["chaos", "check", &dir.path().join("refused.toml").display().to_string()]);
    assert_eq!(check.status.code(), Some(5));
    let all: Vec<String> = SHIPPED.iter().map(|name| folder().join(format!("{name}.toml")).display().to_string()).collect();
    let all: Vec<&str> = ["chaos", "check"].into_iter().chain(all.iter().map(String::as_str)).collect();
    assert_eq!(cellshift(&all).status.code(), Some(0));
}

const LIVE: &str = r#"
title = "A killed process, a request that comes twice, a commit that says that it failed: live"
seed = 21

[topology]
cells = 2
hosts_per_cell = 2
max_latency_ms = 100

[[workload.journeys]]
servers = 3
volumes = 1
acts = ["write", { resize = "gen2.small" }, "confirm", "write"]

[[faults]]
when = { step = "take_ownership", saga = "resize" }
what = "restart"

[[faults]]
when = { step = "create_target_records", occurrence = 3 }
what = { database = { name = "target", outage = "loses_replies", calls = 1, for_ms = 2000 } }

[[faults]]
when = { step = "clean_source_host", saga = "confirm" }
what = { message = { again = 500 } }

[expect]
lives = { at_least = 2, at_most = 2 }
arrived = { at_least = 1 }
servers_in_error = { at_most = 0 }
"#;

#[test]
fn the_same_runs_live_and_holds_when_the_process_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, json) = (dir.path().join("live.toml"), dir.path().join("verdict.json"));
    std::fs::write(&file, LIVE).expect("a file");
    let (file, json_path) = (file.display().to_string(), json.display().to_string());
    let output = cellshift(&["chaos", "run", &file, "--live", "--json", &json_path]);
    let (report, progress) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{report}\n{progress}");
    assert!(report.contains("run live under seed 21"), "{report}");
    let verdict: Verdict = serde_json::from_str(&std::fs::read_to_string(json).expect("JSON")).expect("a verdict");
    assert_eq!(verdict.findings.lives, 2);
    // A fault may turn a struck move back, but at least one struck move arrives.
    let mut struck = verdict.findings.migrations.iter().filter(|migration| migration.is_move() && !migration.faults.is_empty());
    assert!(struck.any(|migration| migration.arrived()), "{report}");
}

#[test]
fn a_live_conductor_ends_the_moves_of_one_that_stands_still() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, json) = (dir.path().join("live.toml"), dir.path().join("verdict.json"));
    let shipped = std::fs::read_to_string(folder().join("two-conductors-one-stands-still.toml")).expect("the experiment");
    // Real time depends on the machine, so remove the time bound and judge the work shared between conductors.
    let (kept, bound) = shipped.split_once("recovery_p99_ms").expect("a bound in virtual time");
    assert!(bound.lines().count() == 1, "it is the last line");
    std::fs::write(&file, kept).expect("a file");
    let (file, json_path) = (file.display().to_string(), json.display().to_string());
    let output = cellshift(&["chaos", "run", &file, "--live", "--json", &json_path]);
    let (report, progress) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{report}\n{progress}");
    let verdict: Verdict = serde_json::from_str(&std::fs::read_to_string(json).expect("JSON")).expect("a verdict");
    println!("live: {:?}", verdict.recovery);
    // The moves recover in time, and not only at a death or at the end of the pause, which is at eight seconds.
    let slow = verdict.findings.migrations.iter().filter(|migration| migration.recovery_ms.is_some_and(|took| took >= 8000));
    assert_eq!(slow.count(), 0, "{report}");
}
