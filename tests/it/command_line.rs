//! The command line as newcomers use it: addresses to listen on, numbers that do not fit, pipes, files that cannot be written.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::service::{self, Service, program};

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

#[test]
fn a_start_that_fails_leaves_no_directory_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let data = dir.path().join("far/below");
    let ended = service::run(&["serve", "--data-dir", path(&data), "--listen", &address]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("in use by another program"), "{}", ended.stderr);

    let config = dir.path().join("cellshift.toml");
    std::fs::write(&config, "[policy]\nfile = \"/nonexistent/policy.yaml\"\n").expect("a file");
    let refused = Service::refusal(&data, &["--config", path(&config)]);
    assert!(refused.contains("/nonexistent/policy.yaml"), "{refused}");
    std::fs::remove_file(config).expect("it is there");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[test]
fn fewer_cells_or_hosts_than_there_are_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    Service::start(dir.path(), &["--cells", "3"]).stop();
    let refused = Service::refusal(dir.path(), &["--cells", "1"]);
    assert!(refused.contains("cells.count (--cells) is 1, and there are more: cell2, cell3"), "{refused}");
    assert!(refused.contains("at least 3"), "{refused}");
    let refused = Service::refusal(dir.path(), &["--hosts-per-cell", "1"]);
    assert!(refused.contains("cells.hosts_per_cell (--hosts-per-cell) is 1") && refused.contains("at least 2"), "{refused}");
    Service::start(dir.path(), &["--cells", "3", "--hosts-per-cell", "2"]).stop();
}

#[test]
fn db_migrate_includes_the_cells_that_are_configured_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    Service::start(&data, &[]).stop();
    let (config, third) = (dir.path().join("cellshift.toml"), dir.path().join("third.db"));
    std::fs::write(&config, format!("[cells]\ncount = 3\n[database.cells]\ncell3 = {:?}\n", path(&third))).expect("a file");
    let ended = service::run(&["db", "migrate", "--data-dir", path(&data), "--config", path(&config)]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("API, services, cell0, cell1, cell2, cell3"), "{}", ended.stdout);
    assert!(third.is_file(), "its database is made");
    Service::start(&data, &["--config", path(&config)]).stop();
    let audit = service::run(&["audit", "--data-dir", path(&data), "--config", path(&config)]);
    assert_eq!(audit.code, Some(0), "{}{}", audit.stdout, audit.stderr);
}

#[test]
fn ranges_without_a_seed_are_refused() {
    for range in ["9..3", "3..3", "3"] {
        let ended = service::run(&["simulate", "--seeds", range]);
        assert_eq!(ended.code, Some(2), "{range}: {}", ended.stdout);
        assert!(ended.stderr.contains("0..100"), "{range}: {}", ended.stderr);
    }
}

/// Runs a command whose reader leaves after one line, and returns its exit code and its text on standard error.
fn read_one_line(arguments: &[&str]) -> (Option<i32>, String) {
    let mut process =
        Command::new(program()).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let ended = process.wait_with_output().expect("it ends");
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[test]
fn a_reader_that_goes_away_is_met_with_silence() {
    let small = ["simulate", "--experiment", "experiments/many-faults-for-few-servers.toml"];
    for arguments in [&["--seed", "1", "--trace"][..], &["--seeds", "0..4", "--jobs", "1"]] {
        let (code, said) = read_one_line(&[&small[..], arguments].concat());
        assert_eq!((code, said.as_str()), (Some(0), ""), "{arguments:?}");
    }
    assert_eq!(read_one_line(&["config"]), (Some(0), String::new()));
}

#[test]
fn config_and_serve_refuse_the_same_level_of_the_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let (config, data) = (dir.path().join("cellshift.toml"), dir.path().join("data"));
    std::fs::write(&config, "[log]\nlevel = \"inof\"\n").expect("a file");
    let printed = service::run(&["config", "--config", path(&config)]);
    assert_eq!(printed.code, Some(1), "{}", printed.stdout);
    assert!(printed.stderr.contains("log.level must be"), "{}", printed.stderr);
    assert_eq!(Service::refusal(&data, &["--config", path(&config)]), printed.stderr);
    assert!(!data.exists());
}

#[test]
fn an_experiment_checks_its_reports_first() {
    let dir = tempfile::tempdir().expect("a directory");
    let kept = dir.path().join("kept.json");
    std::fs::write(&kept, "of before").expect("a file");
    let file = "experiments/conductor-dies-at-the-pivot.toml";
    let ended = service::run(&["chaos", "run", file, "--json", path(&kept), "--html", "/nonexistent/x"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stdout);
    assert!(ended.stdout.is_empty() && ended.stderr.contains("/nonexistent/x cannot be written"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "it has not begun: {}", ended.stderr);
    assert_eq!(std::fs::read_to_string(kept).expect("a file"), "of before");
}

#[test]
fn an_interrupted_demo_leaves_no_directory() {
    for signal in ["-TERM", "-INT"] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut process = Command::new(program())
            .arg("demo")
            .env("TMPDIR", dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        // The demo prints its title once the cloud exists.
        let mut said = BufReader::new(process.stdout.take().expect("its output"));
        let mut line = String::new();
        while line.trim().is_empty() {
            line.clear();
            assert!(said.read_line(&mut line).expect("a line") > 0, "it says something");
        }
        assert!(std::fs::read_dir(dir.path()).expect("a directory").count() > 0);
        let status = Command::new("kill").args([signal, &process.id().to_string()]).status().expect("kill runs");
        assert!(status.success());
        let ended = process.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(1), "{signal}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("interrupted"), "{signal}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0, "{signal}");
    }
}
