//! The commands of README.md and docs/, taken from the pages. Each is typed here or in tests/e2e, or is left out for a reason given here. A
//! new command that is neither fails the test.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use crate::service::{self, Service};

/// The sections of README.md and docs/TOUR.md that `tests/e2e/readme.py` types with the real client.
const TYPED_WITH_THE_CLIENT: [&str; 2] = ["## A first migration in five minutes", "## From the first start to the audit"];

/// The first words of a shell's command.
const STARTERS: [&str; 10] =
    ["cargo ", "cellshift ", "scripts/", "openstack ", "psql ", "printf ", "echo ", "export ", "for ", "CELLSHIFT_"];

/// Typed here, in this order, in one directory.
const TYPED: [&str; 9] = [
    "cellshift chaos check experiments/*.toml",
    "cellshift chaos run experiments/conductor-dies-at-the-pivot.toml",
    "cellshift chaos run experiments/conductor-dies-at-the-pivot.toml --seed 7 --json verdict.json --html verdict.html",
    "cargo run --release -- chaos run experiments/conductor-dies-at-the-pivot.toml --html verdict.html",
    "cellshift simulate --seed 7 --trace",
    "printf '[chaos]\\nenabled = true\\n' > chaos.toml",
    "cellshift chaos status --data-dir cellshift-data",
    "cellshift chaos stop --data-dir cellshift-data",
    SERVE,
];

/// Typed up to ` --wait`, before the other commands on a running service.
const LOAD: &str = "cellshift chaos load experiments/target-host-dies-mid-spawn.toml --data-dir cellshift-data --wait --html verdict.html";

/// Started before the commands on a running service are typed.
const SERVE: &str = "cellshift serve --config chaos.toml";

/// Typed after that service has ended.
const TYPED_AFTER: [&str; 4] = [
    "cellshift db purge --before 2026-11-01 --dry-run",
    "cellshift db archive --before 2026-11-01 --to old.jsonl",
    "cellshift db purge-lost --before 2026-11-01 --dry-run",
    "cellshift db purge-lost --before 2026-11-01",
];

const LEFT_OUT: [(&str, &str); 30] = [
    ("cargo run -- demo", "half a minute; tests/e2e/installed runs it"),
    ("scripts/test", "runs this test"),
    ("cargo run --release -- simulate --seeds 0..20", "minutes in a debug build; a seed is typed"),
    ("cellshift simulate --seeds 0..100", "minutes in a debug build; a seed is typed"),
    ("cellshift simulate --seeds 0..20 --twice", "minutes in a debug build; a seed is typed"),
    ("cellshift chaos run experiments/conductor-dies-at-the-pivot.toml --live", "experiments:: runs it live"),
    ("cellshift chaos run experiments/conductor-dies-at-the-pivot.toml --cluster", "the stories of the cluster run it"),
    ("cellshift chaos run experiments/target-cell-cut-off.toml --cluster --html verdict.html", "the stories of the cluster run another"),
    ("cellshift chaos load experiments/conductor-dies-at-the-pivot.toml --data-dir cellshift-data --wait", "chaos_api:: loads every file"),
    (
        "for name in api services cell0 cell1 cell2; do pg_dump --format custom --file $name.dump $name; done",
        "deployment::backups dumps and restores each database",
    ),
    (LOAD, "waits for users: it is typed without waiting"),
    ("CELLSHIFT_KILLS=100 CELLSHIFT_CRASH_POINTS=all cargo test --test it killed::", "minutes; killed:: runs with fewer"),
    (
        "CELLSHIFT_FAULTS=pairs cargo test --test it -- --exact faults::cross_cell_resize faults::confirm faults::revert",
        "a quarter of an hour; faults:: runs single faults",
    ),
    ("cargo bench --bench recovery", "a bench"),
    ("cargo bench --bench cluster", "a bench"),
    ("cargo bench --bench cluster -- --only hosts --hosts 10000", "a bench"),
    ("cargo bench --bench retention", "a bench"),
    ("cargo bench --bench moves", "a bench"),
    ("cargo bench --bench moves -- --cores", "a bench"),
    ("cargo bench --bench lists", "a bench"),
    ("cargo bench --bench eyes", "a bench"),
    ("cargo bench --bench scale", "a bench"),
    ("cargo build --profile dist", "minutes, and a release build"),
    ("scripts/mutations", "builds the program with every guard left out once"),
    ("psql -d postgres -c \"CREATE ROLE cellshift LOGIN PASSWORD 'secret'\"", "a server whose roles it may make"),
    (
        "for name in api services cell0 cell1 cell2; do psql -d postgres -c \"CREATE DATABASE $name OWNER cellshift\"; done",
        "a server whose roles it may make",
    ),
    ("openstack --os-cloud cellshift-admin network qos policy create --share gold", "tests/e2e/guaranteed.py types its like"),
    (
        "openstack --os-cloud cellshift-admin network qos rule create --type minimum-bandwidth --min-kbps 1000000 --egress gold",
        "tests/e2e/guaranteed.py types its like",
    ),
    ("openstack port create --network private --qos-policy gold golden", "tests/e2e/guaranteed.py types its like"),
    (
        "openstack --os-compute-api-version 2.72 server create --flavor gen1.small --image tiny --port golden --wait guaranteed",
        "tests/e2e/guaranteed.py types its like",
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<String> {
    let folders = ["docs", "docs/operating"].map(|folder| std::fs::read_dir(root().join(folder)).expect("a folder"));
    let files = folders.into_iter().flatten().map(|entry| entry.expect("an entry").path());
    let pages = files.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    std::iter::once(root().join("README.md")).chain(pages).map(|path| std::fs::read_to_string(path).expect("a page")).collect()
}

/// Returns the commands in a page's blocks and tables, without the sections that are typed elsewhere.
fn commands(page: &str) -> Vec<String> {
    let (mut commands, mut fenced, mut elsewhere) = (Vec::new(), false, false);
    for line in page.lines() {
        fenced ^= line.starts_with("```");
        if line.starts_with("## ") {
            elsewhere = TYPED_WITH_THE_CLIENT.contains(&line);
        }
        let in_block = line.strip_prefix("    ");
        let in_table = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
        let Some(command) = in_block.or(in_table).filter(|_| !fenced && !elsewhere) else { continue };
        if STARTERS.iter().any(|word| command.starts_with(word)) && (in_block.is_some() || command.contains(' ')) {
            commands.push(command.split("  #").next().unwrap_or_default().trim().to_owned());
        }
    }
    commands
}

#[test]
fn every_command_is_typed_or_left_out_for_a_reason() {
    let on_pages: BTreeSet<String> = pages().iter().flat_map(|page| commands(page)).collect();
    let left_out = LEFT_OUT.iter().map(|(command, _)| *command);
    let expected: BTreeSet<String> = TYPED.iter().chain(&TYPED_AFTER).copied().chain(left_out).map(str::to_owned).collect();
    let (new, gone): (Vec<_>, Vec<_>) = (on_pages.difference(&expected).collect(), expected.difference(&on_pages).collect());
    assert!(new.is_empty() && gone.is_empty(), "neither typed nor left out: {new:#?}\non no page: {gone:#?}");
    let tour = std::fs::read_to_string(root().join("tests/e2e/readme.py")).expect("the tour");
    for section in TYPED_WITH_THE_CLIENT {
        assert!(tour.contains(section) && pages().iter().any(|page| page.contains(section)), "{section}");
    }
}

/// Types the command into a shell in which `cellshift` is this build's program.
fn typed(work: &Path, command: &str) {
    let path = format!("{}:{}", work.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let command = command.replace("cargo run --release -- ", "cellshift ");
    let ended = Command::new("sh").args(["-c", &command]).current_dir(work).env("PATH", path).output();
    let Output { status, stdout, stderr } = ended.expect("a shell");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command}: {status}\n{stdout}\n{stderr}");
}

#[test]
fn the_commands_do_what_they_say() {
    let work = tempfile::tempdir().expect("a directory");
    let work = work.path();
    std::fs::create_dir(work.join("bin")).expect("a directory");
    std::os::unix::fs::symlink(service::program(), work.join("bin/cellshift")).expect("a link");
    std::os::unix::fs::symlink(root().join("experiments"), work.join("experiments")).expect("a link");
    let on_service = |command: &str| command.contains("--data-dir cellshift-data");
    for command in TYPED.iter().filter(|command| !on_service(command) && **command != SERVE) {
        typed(work, command);
    }
    for made in ["verdict.json", "verdict.html"] {
        assert!(work.join(made).is_file(), "{made}");
    }
    let config = work.join("chaos.toml");
    let service = Service::start(&work.join("cellshift-data"), &["--config", config.to_str().expect("a path")]);
    typed(work, LOAD.split(" --wait").next().unwrap_or_default());
    for command in TYPED.iter().filter(|command| on_service(command)) {
        typed(work, command);
    }
    service.stop();
    for command in TYPED_AFTER {
        typed(work, command);
    }
}
