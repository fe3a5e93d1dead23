//! The operators' lists sorted by their columns, and watched: `--sort`, `--reverse` and `--watch`.

use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::Value;

use crate::command_reach::run_with;
use crate::operators_commands::{lines_of, moved, parsed};
use crate::service::{Ended, Service, program};

/// Each list, one of its columns, and the same word misspelt.
const LISTS: [(&str, &str, &str); 7] = [
    ("hosts", "memory", "memroy"),
    ("cells", "changed", "chnged"),
    ("migrations", "took", "tookk"),
    ("unconfirmed", "arrived", "arived"),
    ("debts", "tries", "triess"),
    ("queued-deletes", "next-try", "nexttry"),
    ("drains", "waiting", "wating"),
];

#[test]
fn operators_lists_are_sorted_and_watched() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().to_str().expect("a path");
    std::fs::write(dir.path().join("policy.yaml"), "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n")
        .expect("a policy");
    let service = Service::start(dir.path(), &[]);
    let address = service.address.to_string();
    let (server, _) = moved(&service, dir.path());
    let run = |arguments: &[&str]| run_with(&[], &[arguments, &["--data-dir", data]].concat());
    lists_are_sorted(&run);

    let (mut process, lines) = watched(&["hosts", "--sort", "vcpu", "--watch", "--data-dir", data]);
    until(&lines, "HOST  ");
    until(&lines, "HOST  ");
    service.stop();
    let service = Service::start_again(dir.path(), &address);
    for _ in 0..3 {
        until(&lines, "HOST  ");
    }
    interrupt(&mut process);
    let (mut process, lines) = watched(&["server", &server, "--watch", "--data-dir", data]);
    until(&lines, "server       web");
    until(&lines, "server       web");
    interrupt(&mut process);
    service.stop();
}

fn lists_are_sorted(run: &dyn Fn(&[&str]) -> Ended) {
    for (list, column, misspelt) in LISTS {
        let sorted = run(&[list, "--sort", column, "--reverse", "--limit", "1"]);
        assert_eq!((sorted.code, sorted.stdout.lines().count()), (Some(0), 2), "{list}: {}{}", sorted.stdout, sorted.stderr);
        let wrong = run(&[list, "--sort", misspelt]);
        let offers = wrong.stderr.contains("similar value") && wrong.stderr.contains(&format!("'{column}'"));
        assert!(wrong.code == Some(2) && offers, "{list}: {}", wrong.stderr);
    }
    let in_use = |arguments: &[&str]| -> Vec<u64> {
        let hosts = parsed(&run(&[&["hosts", "--sort", "vcpu", "-o", "json"][..], arguments].concat()));
        let used = |host: &Value| host["room"]["VCPU"]["used"].as_u64().expect("a number");
        hosts["hosts"].as_array().expect("a list").iter().map(used).collect()
    };
    let (rising, falling) = (in_use(&[]), in_use(&["--reverse"]));
    assert!(rising.is_sorted() && rising.len() == 4 && rising[3] > 0, "{rising:?}");
    assert!(falling.iter().eq(rising.iter().rev()), "{falling:?}");
    assert_eq!(in_use(&["--reverse", "--limit", "1"]), [rising[3]]);
    let conflict = run(&["hosts", "cell1-host1", "--enable", "--watch"]);
    assert!(conflict.code == Some(2) && conflict.stderr.contains("cannot be used with"), "{}", conflict.stderr);
}

/// Starts a command that watches, and passes on its lines.
fn watched(arguments: &[&str]) -> (std::process::Child, Receiver<String>) {
    let mut process =
        Command::new(program()).args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program runs");
    let lines = lines_of(process.stdout.take().expect("its output"));
    (process, lines)
}

/// Waits for a line that begins so.
fn until(lines: &Receiver<String>, beginning: &str) {
    while !lines.recv_timeout(Duration::from_secs(60)).expect("a line").starts_with(beginning) {}
}

/// Sends what Ctrl-C sends, and expects that the command ends well.
fn interrupt(process: &mut std::process::Child) {
    let sent = Command::new("kill").args(["-INT", &process.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    assert_eq!(process.wait().expect("it ends").code(), Some(0));
}
